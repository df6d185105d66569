package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

// manyDomains is how many domains BenchmarkManyRules has, of 100 rules each. It is
// 1,000 by make bench-rules, and few when all benchmarks are run.
func manyDomains(b *testing.B) int {
	b.Helper()
	n, err := strconv.Atoi(os.Getenv("WEIR_BENCH_DOMAINS"))
	if err != nil {
		return 10
	}
	return n
}

func manyText(domain, limit int) string {
	var t strings.Builder
	fmt.Fprintf(&t, "domain: d%04d\ndescriptors:\n", domain)
	for i := range 100 {
		fmt.Fprintf(&t, "  - key: path\n    value: /service/%d\n    owner: team%d\n    limits: [%d/s burst 200]\n", i, domain%100, limit)
	}
	return t.String()
}

// importMany opens a database that is empty, and imports so many domains, of 100 rules each.
func importMany(b *testing.B, data string, domains int) *rulestore.Store {
	b.Helper()
	s, err := rulestore.Open(b.Context(), data)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 100 {
		if err := s.SetQuota(b.Context(), root(), fmt.Sprintf("team%d", i), rulestore.MaxQuota, "a benchmark"); err != nil {
			b.Fatal(err)
		}
	}
	for i := range domains {
		_, _, err := s.Import(b.Context(), root(), rulestore.Import{Text: manyText(i, 100), Team: fmt.Sprintf("team%d", i%100), To: rulestore.Enforced, Reason: "a benchmark"})
		if err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// BenchmarkManyRules is what a hundred thousand rules of a database cost: a match,
// a change from its call to its being in force, and a page of a list.
func BenchmarkManyRules(b *testing.B) {
	domains := manyDomains(b)
	data := b.TempDir()
	s := importMany(b, data, domains)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	d, admin := startBench(b, Config{Data: data, HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Admin: "127.0.0.1:0", LameDuck: time.Millisecond})
	took := time.Since(began).Round(time.Millisecond)
	runtime.GC()
	runtime.ReadMemStats(&after)
	n := uint64(len(d.limiter.Set().Rules()))
	b.Logf("%d rules, started in %v, %d bytes of memory a rule", n, took, (after.HeapAlloc-before.HeapAlloc)/n)
	_, token, err := d.feed.Store().CreateToken(b.Context(), root(), rulestore.Token{Actor: "ann", Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}, "a benchmark")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("match", func(b *testing.B) { benchMatch(b, d.limiter.Set(), domains) })
	b.Run("change", func(b *testing.B) {
		for n := 101; b.Loop(); n++ {
			changeOne(b, d, n)
		}
	})
	for name, path := range map[string]string{"domains": "/v1/domains?limit=100", "rules": "/v1/rules?limit=100", "search": "/v1/rules?limit=100&search=service/99", "history": "/v1/rules/d0000/path=%2Fservice%2F0/history"} {
		b.Run("list/"+name, func(b *testing.B) {
			for b.Loop() {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+admin+path, nil)
				if err != nil {
					b.Fatal(err)
				}
				bearer(token)(r)
				if status, text := answered(b, r); status != http.StatusOK {
					b.Fatal(status, text)
				}
			}
		})
	}
}

// benchMatch is a match of one rule again and again, of every rule in turn, and of
// rules of which the processor's caches have nothing. A run of the first two is of as
// many calls as there are rules, so that a small -benchtime measures no cold start.
func benchMatch(b *testing.B, set *rules.Set, domains int) {
	type call struct {
		domain     string
		descriptor rules.Descriptor
	}
	calls := make([]call, 100*domains)
	for i := range calls {
		entry := rules.Entry{Key: "path", Value: fmt.Sprintf("/service/%d", i%100)}
		calls[i] = call{fmt.Sprintf("d%04d", i/100), rules.Descriptor{Entries: []rules.Entry{entry}}}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] }) //nolint:gosec // the same order each time
	match := func(b *testing.B, c *call) {
		if found, _ := set.Match(c.domain, &c.descriptor); len(found) != 1 {
			b.Fatal(c, found)
		}
	}
	for name, pick := range map[string]func(i int) *call{
		"one":  func(int) *call { return &calls[0] },
		"each": func(i int) *call { return &calls[i] },
	} {
		b.Run(name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				for i := range calls {
					match(b, pick(i))
				}
				n += len(calls)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/match")
		})
	}
	b.Run("cold", func(b *testing.B) {
		others := make([]byte, 64<<20) // more than caches hold
		n, took := 0, time.Duration(0)
		for b.Loop() {
			for i := range others {
				others[i]++
			}
			began := time.Now()
			for range 30 {
				match(b, &calls[n%len(calls)])
				n++
			}
			took += time.Since(began)
		}
		b.ReportMetric(float64(took.Nanoseconds())/float64(n), "ns/match")
	})
}

// changeOne changes a rule and waits until it is in force.
func changeOne(b *testing.B, d *Daemon, limit int) {
	b.Helper()
	r, err := d.feed.Store().Rule(b.Context(), "d0005", "path=/service/5")
	if err != nil {
		b.Fatal(err)
	}
	text := fmt.Sprintf("- key: path\n  value: /service/5\n  owner: team5\n  limits: [%d/s burst 200]\n", limit)
	_, err = d.feed.Store().Propose(b.Context(), root(), rulestore.Proposal{Domain: "d0005", Text: text, Match: r.Revision, To: rulestore.Enforced, Reason: "a benchmark"})
	if err != nil {
		b.Fatal(err)
	}
	descriptor := rules.Descriptor{Entries: []rules.Entry{{Key: "path", Value: "/service/5"}}}
	want := fmt.Sprintf("%d/s burst 200", limit)
	for {
		if found, _ := d.limiter.Set().Match("d0005", &descriptor); found[0].Limit.String() == want {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// startBench runs a daemon until the benchmark ends, and gives its admin listener.
func startBench(b *testing.B, c Config) (*Daemon, string) {
	b.Helper()
	out, in := io.Pipe()
	c.Stdout = in
	d, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return d, readyLine.FindStringSubmatch(strings.TrimSpace(line))[3]
}
