package memstore_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// TestLook: the states are those that a take would be decided on, and seeing
// them leaves no trace: no table, no state, no word that the caller can change.
func TestLook(t *testing.T) {
	s := memstore.New(memstore.Options{})
	asks := []weir.Ask{
		{State: weir.StateKey{Rule: "a", Key: "x"}, Limit: weir.MustParseLimit("10/min"), Cost: 4},
		{State: weir.StateKey{Rule: "a", Key: "y"}, Limit: weir.MustParseLimit("10/min"), Cost: 1},
		{State: weir.StateKey{Rule: "b", Key: "x"}, Limit: weir.MustParseLimit("5/min sliding-log"), Cost: 2},
	}
	look := func(now weir.Instant, asks []weir.Ask) []weir.State {
		t.Helper()
		states, err := s.LookAt(now, asks)
		if err != nil {
			t.Fatal(err)
		}
		return states
	}
	if diff := cmp.Diff(make([]weir.State, 3), look(0, asks)); diff != "" || s.Stats().Rules != 0 {
		t.Error(diff, s.Stats())
	}
	out := make([]weir.Decision, 2)
	if err := s.TakeAt(1e6, []weir.Ask{asks[0], asks[2]}, out); err != nil {
		t.Fatal(err)
	}
	before := s.Stats()
	for range 2 {
		states := look(1e6, asks)
		for i, want := range []int64{6, 10, 3} {
			if got, _ := asks[i].Limit.Standing(states[i], 1e6); got != want {
				t.Errorf("ask %d: %d remain, want %d", i, got, want)
			}
			clear(states[i])
		}
	}
	// A limit that has changed sees what was used, and keeps it only when it asks.
	changed := asks[0]
	changed.Limit = weir.MustParseLimit("100/h")
	for range 2 {
		if got, _ := changed.Limit.Standing(look(1e6, []weir.Ask{changed})[0], 1e6); got != 96 {
			t.Errorf("%d remain of the changed limit", got)
		}
	}
	if diff := cmp.Diff(before, s.Stats()); diff != "" {
		t.Error(diff)
	}
	if _, err := s.LookAt(0, []weir.Ask{asks[0], asks[0]}); err == nil {
		t.Error("the same state twice")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Look(ctx, asks); err == nil {
		t.Error("looked for somebody who is gone")
	}
	if now, states, err := s.Look(t.Context(), asks); err != nil || now == 0 || len(states) != 3 {
		t.Error(now, states, err)
	}
}
