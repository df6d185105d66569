package guardtest

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/client"
	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
	"github.com/weir-limit/weir/cmd/weir/internal/rls"
	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/memcachestore"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/natsstore"
	"github.com/weir-limit/weir/pgstore"
	"github.com/weir-limit/weir/redisstore"
)

// leasedEnv makes a test binary a node of TestLeasedProcesses: the store's URL.
const leasedEnv = "WEIR_LEASED_NODE"

// leasedLimits are those that processes share one key of each. Each is asked for about ten times as often as it
// lets pass. Stores that bring no clock of their own don't keep the strict one.
func leasedLimits(url string) []string {
	all := []string{"400/s", "200/s burst 400", "400/s fixed-window", "400/s sliding-window 4", "40/s"}
	if strings.HasPrefix(url, "redis") || strings.HasPrefix(url, "grpc") {
		all = append(all, "200/s strict burst 100")
	}
	return all
}

// asked is a store that a node takes portions from. calls is how many calls of its server there were.
type asked struct {
	weir.Store

	close func() error
	calls func() int64
}

// leasedStore opens the store of a URL as programs do.
func leasedStore(url string) (*asked, error) {
	around := func(remote edge.Remote, err error, calls func() int64) (*asked, error) {
		if err != nil {
			return nil, err
		}
		s := edge.New(remote, edge.Options{})
		return &asked{s, s.Close, calls}, nil
	}
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "redis":
		s, err := redisstore.Dial(url)
		return around(s, err, func() int64 { return s.Stats().Calls })
	case "postgres":
		s, err := pgstore.Dial(url, pgstore.Options{})
		return around(s, err, func() int64 { return s.Stats().Statements })
	case "nats":
		s, err := natsstore.Dial(url, natsstore.Options{})
		return around(s, err, func() int64 { return s.Stats().Trips })
	case "memcached":
		s, err := memcachestore.Dial(url, memcachestore.Options{})
		return around(s, err, func() int64 { return s.Stats().Trips })
	}
	s, err := client.Open(url, client.Options{})
	if err != nil {
		return nil, err
	}
	return &asked{s, s.Close, func() int64 { return s.Stats().Messages }}, nil
}

// leasedServers start the server of each store, and say its URL.
var leasedServers = map[string]func(t *testing.T) string{
	"redis":     func(t *testing.T) string { return "redis://" + redistest.Start(t).Addr },
	"postgres":  func(t *testing.T) string { s := postgrestest.StartTCP(t); return s.Database(t) },
	"nats":      func(t *testing.T) string { return "nats://" + natstest.Start(t).Addr },
	"memcached": func(t *testing.T) string { return "memcached://" + memcachedtest.Start(t, "-m", "64").Addr },
	"daemon": func(t *testing.T) string {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		lends := rls.New(nil, rls.Options{Store: &rls.Lending{Store: memstore.New(memstore.Options{}), Rules: func(int, bool) {}}})
		go func() { _ = lends.Serve(l) }() // until the listener is closed
		t.Cleanup(func() { _ = l.Close() })
		return "grpc://" + l.Addr().String()
	},
}

// leasedFor is for how long the processes ask.
const leasedFor = 3 * time.Second

// beLeasedNode asks for the hot keys with leases, as beNode does without. A take that the store decided passes
// when it was decided, at the earliest when it was asked for: that is told.
func beLeasedNode(url string) error {
	s, err := leasedStore(url)
	if err != nil {
		return err
	}
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	stop := make(chan struct{})
	go func() {
		_, _ = in.ReadString('\n') // a parent that is gone is a stop, too
		close(stop)
	}()
	var g sync.WaitGroup
	var mu sync.Mutex
	takes := 0
	for i, text := range leasedLimits(url) {
		for range 2 {
			g.Go(func() {
				a := hot(text)
				a.Policy = weir.Policy{Lease: 100 * time.Millisecond, Nodes: 3}
				asks, d := []weir.Ask{a}, make([]weir.Decision, 1)
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					asked := time.Now()
					err := s.Take(context.Background(), asks, d)
					mu.Lock()
					if takes++; err == nil && d[0].Degraded == "" && d[0].Outcome == weir.Allowed {
						fmt.Fprintln(out, i, asked.UnixMicro(), time.Now().UnixMicro())
					}
					mu.Unlock()
				}
			})
		}
	}
	g.Wait()
	fmt.Fprintln(out, "stats", takes, s.calls())
	return cmp.Or(s.close(), out.Flush())
}

// TestLeasedProcesses: three processes on a real server ask for the same keys at about ten times of what they
// pass. Nothing passes beyond the limit, and about as much as it lets.
func TestLeasedProcesses(t *testing.T) {
	for name, start := range leasedServers {
		t.Run(name, func(t *testing.T) { holdLeased(t, start(t)) })
	}
}

func holdLeased(t *testing.T, url string) {
	limits := leasedLimits(url)
	nodes := make([]*node, 3)
	for i := range nodes {
		nodes[i] = startNode(t, leasedEnv, url)
	}
	for _, line := range []time.Duration{leasedFor, 0} {
		for _, n := range nodes {
			if _, err := fmt.Fprintln(n.in); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(line) // it is what is measured
	}
	passed := make([][]span, len(limits))
	takes, calls := 0, 0
	for _, n := range nodes {
		for n.out.Scan() {
			var i int
			var of span
			if rest, ok := strings.CutPrefix(n.out.Text(), "stats "); ok {
				var a, b int
				if _, err := fmt.Sscan(rest, &a, &b); err != nil {
					t.Fatalf("%q: %v", rest, err)
				}
				takes, calls = takes+a, calls+b
			} else if _, err := fmt.Sscan(n.out.Text(), &i, &of.from, &of.to); err != nil {
				t.Fatalf("%q: %v", n.out.Text(), err)
			} else {
				passed[i] = append(passed[i], of)
			}
		}
	}
	for i, text := range limits {
		l := weir.MustParseLimit(text)
		if within := beyond(l, passed[i]); within != "" {
			t.Errorf("%s: %s", text, within)
		}
		spec := l.Spec()
		least := spec.Count * int64(leasedFor-500*time.Millisecond) / int64(spec.Period) * 9 / 10
		least = min(least, l.Bound(leasedFor-500*time.Millisecond, 1)*3/4) // a strict limit has a slower pace
		t.Logf("%-24s %4d passed, want at least %d", text, len(passed[i]), least)
		if int64(len(passed[i])) < least {
			t.Errorf("%s: %d passed, less than %d", text, len(passed[i]), least)
		}
	}
	t.Logf("%d takes, %d calls of the server", takes, calls)
	if calls > takes/4 {
		t.Errorf("%d takes cost %d calls of the server", takes, calls)
	}
}

// span is when an event passed, as far as its process knows.
type span struct{ from, to weir.Instant }

// beyond says in which time more events passed than the limit promises; empty when in none. An event lies
// within a time when all of its span does.
func beyond(l *weir.Limit, all []span) string {
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.to, b.to) })
	for i, first := range all {
		n := int64(0)
		for j := range all {
			last := &all[j]
			if last.from >= first.from {
				n++
			}
			width := (last.to - first.from + 1).Duration()
			if most := l.Bound(width, 1); n > most && j >= i {
				return fmt.Sprintf("%d events in %v, more than %d", n, width, most)
			}
		}
	}
	return ""
}
