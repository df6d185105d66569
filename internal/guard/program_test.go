package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
)

// TestLimitersHavePolicies: a weir.Limiter says how many programs share its limit, and
// what decides while the store is away, as a rule does. Three programs whose store is dead
// pass their parts together, or all, or none.
func TestLimitersHavePolicies(t *testing.T) {
	for _, c := range []struct {
		policy weir.Policy
		by     weir.Fallback
		passed int
	}{
		{weir.Policy{}, weir.FallbackLocal, 30}, // each as if it were alone
		{weir.Policy{Nodes: 3}, weir.FallbackLocal, 9},
		{weir.Policy{Nodes: 3, Fallback: weir.FallbackOpen}, weir.FallbackOpen, 60},
		{weir.Policy{Fallback: weir.FallbackClosed}, weir.FallbackClosed, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			passed := 0
			for range 3 {
				daemon := newRemote()
				daemon.broken.Store(&errRefused)
				g := guard.New(daemon, guard.Options{}) // as client.Open has it
				l, err := weir.NewLimiter(g, "uploads", weir.MustParseLimit("10/day")).With(c.policy)
				if err != nil {
					t.Fatal(err)
				}
				for range 20 {
					a, err := l.Take(t.Context(), "k", 1)
					if err != nil || a.Degraded != c.by {
						t.Fatalf("%+v: %+v, %v", c.policy, a, err)
					}
					if a.Outcome == weir.Allowed {
						passed++
					}
				}
				if err := g.Close(t.Context()); errors.Is(err, weir.ErrAway) != (c.by == weir.FallbackLocal) {
					t.Errorf("%+v: closed with %v", c.policy, err) // only local has anything to tell the store
				}
			}
			if passed != c.passed {
				t.Errorf("%+v: %d passed, want %d", c.policy, passed, c.passed)
			}
		})
	}
}

// TestCloseReports: Close looks for a store that was away a moment ago, and tells it what
// a fallback let pass. It fails when that is lost, and waits for nobody when nothing is unreported.
func TestCloseReports(t *testing.T) {
	for name, c := range map[string]struct {
		by   weir.Fallback
		harm func(*remote)
		back time.Duration // after Close began; negative: never
		lost bool
	}{
		"back":            {weir.FallbackLocal, refuse, 0, false},
		"back meanwhile":  {weir.FallbackLocal, refuse, 500 * time.Millisecond, false},
		"thawed":          {weir.FallbackLocal, freeze, 0, false},
		"refusing":        {weir.FallbackLocal, refuse, -1, true},
		"frozen":          {weir.FallbackLocal, freeze, -1, true},
		"nothing to tell": {weir.FallbackOpen, freeze, -1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				g := guard.New(store, guard.Options{})
				c.harm(store)
				asks := ask("100/h fixed-window", c.by)
				for range 30 {
					take(t, g, asks)
				}
				synctest.Wait()
				for g.Stats().Away == 0 {
					time.Sleep(time.Millisecond)
				}
				if c.back >= 0 {
					time.AfterFunc(c.back, func() { store.broken.Store(nil); store.delay.Store(0) })
					synctest.Wait()
				}
				closes(t, g, c.lost, c.by == weir.FallbackOpen)
				if used := used(t, store, asks); used != 30 && !c.lost && c.by == weir.FallbackLocal {
					t.Errorf("the store knows of %d events, want 30", used)
				}
			})
		})
	}
}

// TestCloseWaitsForLateStores: a store that needs more time than a call gets, and was not known to,
// hears all the same before a process ends.
func TestCloseWaitsForLateStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		g := guard.New(store, guard.Options{})
		asks := ask("100/h fixed-window", weir.FallbackLocal)
		for range 20 {
			take(t, g, []weir.Ask{of("other", "1000000/s", weir.FallbackOpen)}) // it is near
		}
		store.broken.Store(&errRefused)
		for range 30 {
			take(t, g, asks)
		}
		store.broken.Store(nil)
		time.AfterFunc(time.Second, func() { store.delay.Store(int64(60 * time.Millisecond)) })
		time.Sleep(time.Second)
		synctest.Wait()
		closes(t, g, false, false)
		if used := used(t, store, asks); used != 30 {
			t.Errorf("the store knows of %d events, want 30", used)
		}
	})
}

// TestCloseDuringReport: while the store hears of a key, a take of it falls back, for its caller can't
// wait. Close then waits for that report, and tells the rest.
func TestCloseDuringReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		g := guard.New(store, guard.Options{})
		asks := ask("100/h fixed-window", weir.FallbackLocal)
		refuse(store)
		take(t, g, asks)
		store.broken.Store(nil)
		store.delay.Store(int64(100 * time.Millisecond))
		go func() { _ = g.Take(t.Context(), asks, make([]weir.Decision, 1)) }() // tells the store of the first one
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		hurried := make([]weir.Decision, 1)
		if err := g.Take(ctx, asks, hurried); err != nil || hurried[0].Degraded != weir.FallbackLocal {
			t.Fatalf("a take that can't wait: %+v, %v", hurried[0], err)
		}
		closes(t, g, false, false)
		synctest.Wait()
		if used := used(t, store, asks); used != 3 {
			t.Errorf("the store knows of %d events, want 3", used)
		}
	})
}

func refuse(r *remote) { r.broken.Store(&errRefused) }
func freeze(r *remote) { r.delay.Store(-1) }

// closes closes a guard within the time that package edge promises.
func closes(t *testing.T, g *guard.Guard, lost, atOnce bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	began := time.Now()
	err := g.Close(ctx)
	if took := time.Since(began); took >= 2*time.Second || atOnce && took > 0 {
		t.Errorf("Close took %v", took)
	}
	if errors.Is(err, weir.ErrAway) != lost || lost && !strings.Contains(err.Error(), "(keys: 1)") || !lost && err != nil {
		t.Errorf("closed with %v; lost is %v", err, lost)
	}
}

// used is how much the store itself knows of.
func used(t *testing.T, store *remote, asks []weir.Ask) int64 {
	t.Helper()
	peek := asks[0]
	peek.Peek = true
	return 100 - take(t, store.Store, []weir.Ask{peek}).Remaining
}
