package guard_test

import (
	"testing"
	"testing/synctest"

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
				g.Close(t.Context())
			}
			if passed != c.passed {
				t.Errorf("%+v: %d passed, want %d", c.policy, passed, c.passed)
			}
		})
	}
}
