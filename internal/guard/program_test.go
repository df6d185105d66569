package guard_test

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
)

// TestProgramsHaveNoNodes: three programs whose daemon is dead pass the limit each, for a
// weir.Limiter can't say how many they are, nor which fallback decides. Right, with issue
// 18 ("one spine, one engine, one edge"): it has Nodes and Fallback as a rule has, and
// three pass 9 of 10 together, or all, or none.
func TestProgramsHaveNoNodes(t *testing.T) {
	for _, of := range []reflect.Type{reflect.TypeFor[weir.Limiter](), reflect.TypeFor[weir.Request]()} {
		for _, name := range []string{"Nodes", "Fallback"} {
			if _, has := of.FieldByName(name); has {
				t.Errorf("%v has %s: turn the test round", of, name)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		passed := 0
		for range 3 {
			daemon := newRemote()
			daemon.broken.Store(&errRefused)
			l := weir.NewLimiter(guard.New(daemon, guard.Options{}), "uploads", weir.MustParseLimit("10/day")) // as client.Open has it
			for range 20 {
				a, err := l.Take(t.Context(), "k", 1)
				if err != nil || a.Degraded != weir.FallbackLocal {
					t.Fatalf("%+v, %v", a, err)
				}
				if a.Outcome == weir.Allowed {
					passed++
				}
			}
		}
		if passed != 30 { // right: 9
			t.Errorf("%d passed of 10: if this is right, turn the test round", passed)
		}
		time.Sleep(time.Second) // who looks for the daemon gives up
	})
}
