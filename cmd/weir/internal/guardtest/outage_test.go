package guardtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/memcachestore"
	"github.com/weir-limit/weir/redisstore"
)

// outage also runs what takes long and needs the machine to itself: make
// bench-outage.
var outage = flag.Bool("outage", false, "measure what real stores cost while they are away")

// The load: so many calls a second, begun on time whether or not those before
// have ended, of the three fallbacks by turns.
const (
	outageTick = 500 * time.Microsecond // between two calls
	outageRow  = 100 * time.Millisecond
	outageWarm = time.Second // before the fault
	outageRest = 2 * time.Second
	// hotRate is the limit that all calls with the fallback local share, a third
	// of what they ask for.
	hotRate  = 200
	hotBurst = 20
)

// server is one that can be harmed.
type server interface {
	Signal(t testing.TB, signal os.Signal)
	Kill()
	Restart(t testing.TB)
}

// outageStores start a server each and open a store in it.
var outageStores = map[string]func(t *testing.T) (server, weir.Store){
	"redis": func(t *testing.T) (server, weir.Store) {
		s := redistest.Start(t, "timeout", "0") // options keep it apart from a server that others name
		store, err := redisstore.Dial("redis://" + s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() }) // its server is gone
		return s, store
	},
	"memcached": func(t *testing.T) (server, weir.Store) {
		s := memcachedtest.Start(t, "-c", "512")
		store, err := memcachestore.Dial("memcached://"+s.Addr, memcachestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return s, store
	},
}

// TestOutage prints what 2,000 calls a second meet while a real store is killed for
// two seconds, and stopped for three.
func TestOutage(t *testing.T) {
	if !*outage {
		t.Skip("slow, and a test of times: make bench-outage")
	}
	for name, start := range outageStores {
		t.Run(name+" killed for 2 s", func(t *testing.T) {
			s, store := start(t)
			measureOutage(t, store, 2*time.Second, s.Kill, func() { s.Restart(t) })
		})
		t.Run(name+" frozen for 3 s", func(t *testing.T) {
			s, store := start(t)
			measureOutage(t, store, 3*time.Second, func() { s.Signal(t, syscall.SIGSTOP) }, func() { s.Signal(t, syscall.SIGCONT) })
		})
	}
}

// met is what one call has met.
type met struct {
	begun, took time.Duration
	by          weir.Fallback // empty: the store
	hot, passed bool
	wrong       string
}

func measureOutage(t *testing.T, store weir.Store, away time.Duration, harm, mend func()) {
	type change struct {
		at   time.Time
		away error
	}
	var changes []change
	var mu sync.Mutex
	g := guard.New(store, guard.Options{Changed: func(_ string, err error) {
		mu.Lock()
		defer mu.Unlock()
		changes = append(changes, change{time.Now(), err})
	}})
	for end := time.Now().Add(5 * time.Second); g.Stats().Away > 0 || take(t, g, ask("1000000/s", weir.FallbackOpen)).Degraded != ""; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the store was never there")
		}
	}
	for range 2000 { // so that the guard knows how long calls take
		take(t, g, ask("1000000/s", weir.FallbackOpen))
	}
	start := time.Now()
	last := outageWarm + away + outageRest
	time.AfterFunc(outageWarm, harm)
	mended := make(chan time.Duration, 1)
	time.AfterFunc(outageWarm+away, func() { mend(); mended <- time.Since(start) })
	all := make([]met, last/outageTick)
	missed := make([]int64, last/outageRow+1)
	var calls sync.WaitGroup
	for i := 0; i < len(all); {
		now := time.Since(start)
		for ; i < len(all) && time.Duration(i)*outageTick <= now; i++ {
			n := i
			calls.Go(func() { all[n] = outageCall(g, n, start) })
			if r := i * int(outageTick) / int(outageRow); missed[r] == 0 {
				missed[r] = g.Stats().Missed
			}
		}
		time.Sleep(time.Until(start.Add(time.Duration(i) * outageTick)))
	}
	calls.Wait()
	missed[len(missed)-1] = g.Stats().Missed
	printTimeline(t, all, missed)
	mu.Lock()
	defer mu.Unlock()
	outages := 0
	for _, c := range changes {
		if c.away != nil {
			outages++
		}
		what := "the store is back"
		if c.away != nil {
			what = "the store is away: " + c.away.Error()
		}
		if c.at.After(start) {
			t.Logf("%.3f s: %s", c.at.Sub(start).Seconds(), what)
		}
	}
	judge(t, all, missed, outageWarm+away, <-mended, outages)
}

// outageCall asks the nth time.
func outageCall(g *guard.Guard, n int, start time.Time) met {
	m := met{begun: time.Duration(n) * outageTick}
	policy := []weir.Fallback{weir.FallbackLocal, weir.FallbackOpen, weir.FallbackClosed}[n%3]
	asks, out := ask("1000000/s", policy), make([]weir.Decision, 1)
	asks[0].State.Key = fmt.Sprintf("%s %d", policy, n%300)
	if policy == weir.FallbackLocal {
		m.hot = true
		asks = ask(fmt.Sprintf("%d/s burst %d", hotRate, hotBurst), policy)
	}
	err := g.Take(context.Background(), asks, out)
	m.took, m.by, m.passed = time.Since(start)-m.begun, out[0].Degraded, out[0].Outcome == weir.Allowed
	switch {
	case err != nil:
		m.wrong = err.Error()
	case m.by != "" && m.by != policy:
		m.wrong = fmt.Sprintf("%s in place of %s", m.by, policy)
	case policy == weir.FallbackOpen && !m.passed, policy == weir.FallbackClosed && m.passed != (m.by == ""):
		m.wrong = fmt.Sprintf("%s by %q: %s", policy, m.by, out[0].Outcome)
	}
	return m
}

func printTimeline(t *testing.T, all []met, missed []int64) {
	t.Logf("%8s %6s %6s %6s %6s %6s %8s %8s %8s %9s %9s", "from", "calls", "store", "local", "open", "closed", "deadline", "hot pass", "p50", "p99.9", "max")
	per := int(outageRow / outageTick)
	for i := 0; i < len(all); i += per {
		by, hot := map[weir.Fallback]int{}, 0
		var took []time.Duration
		for _, m := range all[i : i+per] {
			by[m.by]++
			took = append(took, m.took)
			if m.hot && m.passed {
				hot++
			}
		}
		slices.Sort(took)
		r := i / per
		t.Logf("%6.1f s %6d %6d %6d %6d %6d %8d %8d %8s %9s %9s", all[i].begun.Seconds(), per,
			by[""], by[weir.FallbackLocal], by[weir.FallbackOpen], by[weir.FallbackClosed], missed[r+1]-missed[r], hot,
			millis(took[len(took)/2]), millis(took[len(took)*999/1000]), millis(took[len(took)-1]))
	}
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }

// judge holds a timeline against the targets.
func judge(t *testing.T, all []met, missed []int64, back, mended time.Duration, outages int) {
	var took []time.Duration
	normal := all[len(all)-1].begun
	inRow := 0 // how many the store has decided without a break
	wrong, hot := 0, 0
	for _, m := range all {
		took = append(took, m.took)
		if m.wrong != "" {
			if wrong++; wrong <= 5 {
				t.Logf("at %v: %s", m.begun, m.wrong)
			}
		}
		if inRow++; m.begun < back || m.by != "" {
			inRow = 0
		}
		if inRow == int(outageRow/outageTick) {
			normal = min(normal, m.begun-outageRow)
		}
		if m.hot && m.passed {
			hot++
		}
	}
	slices.Sort(took)
	paid := int64(0)
	for i := 10; i < len(missed); i++ {
		paid = max(paid, missed[i]-missed[i-10])
	}
	last := all[len(all)-1].begun
	// A full burst at the start, one of a store that has lost its counts, and one of
	// the fallback's own each time that it decides.
	most := int(last.Seconds()*hotRate) + (2+outages)*hotBurst
	for _, v := range []struct {
		what, target, measured string
		pass                   bool
	}{
		{"p99.9 of all calls", "≤ 60 ms", millis(took[len(took)*999/1000]), took[len(took)*999/1000] <= 60*time.Millisecond},
		{"calls that pay the deadline, in any second", "≤ 10", fmt.Sprint(paid), paid <= 10},
		{"outcomes other than the policy's", "0", fmt.Sprint(wrong), wrong == 0},
		{"100 ms of nothing but the store begin, after its return", "≤ 1 s", millis(normal - mended), normal-mended <= time.Second},
		{"passed of a limit of 200/s", fmt.Sprintf("≤ %d", most), fmt.Sprint(hot), hot <= most},
	} {
		verdict := "pass"
		if !v.pass {
			verdict = "MISS"
			t.Fail()
		}
		t.Logf("%-58s %-10s %-12s %s", v.what, v.target, v.measured, verdict)
	}
}
