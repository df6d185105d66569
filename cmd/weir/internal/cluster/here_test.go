package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/here"
)

// TestHere: a caller that must not wait is answered by leases that are held and denials that are known. Anything else
// charges nothing.
func TestHere(t *testing.T) {
	n := newNetwork(t, 3)
	only := &here.Context{Context: t.Context()}
	out := make([]weir.Decision, 3)
	for i, s := range n.nodes {
		for what, ask := range map[string]weir.Ask{
			"plain": {}, "receipt": {Receipt: 7}, "peek": {Peek: true}, "more than ever passes": {Cost: 1001}, "unfit": {Limit: weir.MustParseLimit("5 concurrent")},
		} {
			ask.State = weir.StateKey{Rule: "r", Key: what + s.self.Name}
			if ask.Limit == nil {
				ask.Limit = weir.MustParseLimit("1000/s")
			}
			ask.Cost = max(ask.Cost, 1)
			for range 3 {
				if err := s.Take(only, []weir.Ask{ask}, out[:1]); !errors.Is(err, here.ErrWaits) {
					t.Errorf("%s of a new key: %+v, %v", what, out[0], err)
				}
			}
		}
		// 20 an hour, of which the tries must have charged none.
		ask := weir.Ask{State: weir.StateKey{Rule: "r", Key: string(rune('a' + i))}, Limit: weir.MustParseLimit("20/h"), Cost: 1}
		several := []weir.Ask{ask, {State: weir.StateKey{Rule: "q", Key: ask.State.Key}, Limit: ask.Limit, Cost: 1}}
		passed := int64(0)
		for range 200 {
			if err := s.Take(only, several, out[:2]); err == nil {
				t.Errorf("two keys without leases: %+v", out[:2])
			}
			err := s.Take(only, []weir.Ask{ask}, out[:1])
			if errors.Is(err, here.ErrWaits) {
				err = s.Take(t.Context(), []weir.Ask{ask}, out[:1])
			}
			if err != nil {
				t.Fatal(err)
			}
			if out[0].Outcome == weir.Allowed {
				passed++
			}
		}
		if passed != 20 {
			t.Errorf("%d of 20 pass", passed)
		}
		if err := s.Take(only, []weir.Ask{ask}, out[:1]); err != nil || out[0].Outcome != weir.Denied {
			t.Errorf("a key that was denied: %+v, %v", out[0], err)
		}
		// A key that is asked about all the time has a lease nearly always.
		busy := weir.Ask{State: weir.StateKey{Rule: "busy", Key: ask.State.Key}, Limit: weir.MustParseLimit("1000000/s"), Cost: 1}
		at, asks := 0, 0
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); asks++ {
			if err := s.Take(only, []weir.Ask{busy}, out[:1]); err == nil {
				at++
			} else if err := s.Take(t.Context(), []weir.Ask{busy}, out[:1]); err != nil {
				t.Fatal(err)
			}
		}
		if 10*at < 9*asks {
			t.Errorf("%d of %d asks are answered at once", at, asks)
		}
	}
}
