package cluster

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
)

// TestReplicas: nodes that each decide by themselves hear of each other, or keep to
// their part, and a receipt works once.
func TestReplicas(t *testing.T) {
	for _, way := range []struct {
		sharing   weir.Sharing
		passed    int64 // at one node
		remaining int64 // at another then
	}{
		{weir.SharingMesh, 90, 0},
		{weir.SharingGossip, 90, 0},
		{weir.SharingHub, 90, 0},
		{weir.SharingDivided, 30, 30},
	} {
		t.Run(string(way.sharing), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, 3)
				time.Sleep(3 * time.Second) // they have heard all of each other
				asks := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit("90/day fixed-window"), Cost: 1, Policy: weir.Policy{Sharing: way.sharing}}}
				out, passed := make([]weir.Decision, 1), int64(0)
				for range 100 {
					if err := n.nodes[0].Take(t.Context(), asks, out); err != nil {
						t.Fatal(err)
					}
					if out[0].Charged {
						passed++
					}
				}
				time.Sleep(2 * time.Second)
				peek := []weir.Ask{asks[0]}
				peek[0].Peek = true
				if err := n.nodes[1].Take(t.Context(), peek, out); err != nil {
					t.Fatal(err)
				}
				if passed != way.passed || out[0].Remaining != way.remaining {
					t.Errorf("%d passed at one node, then %d remain at another; want %d and %d", passed, out[0].Remaining, way.passed, way.remaining)
				}

				asks[0].State.Key, asks[0].Receipt = "other", 7
				if err := n.nodes[2].Take(t.Context(), asks, out); err != nil || out[0].Receipt == nil {
					t.Fatal(out[0], err)
				}
				back := []weir.Settlement{{Receipt: out[0].Receipt}}
				first, second := n.nodes[2].Settle(t.Context(), back), n.nodes[2].Settle(t.Context(), back)
				if first != nil || !errors.Is(second, weir.ErrSettled) {
					t.Errorf("settled: %v, then %v", first, second)
				}
			})
		})
	}
}
