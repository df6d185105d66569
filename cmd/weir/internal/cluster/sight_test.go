package cluster

import (
	"testing"

	"github.com/weir-limit/weir"
)

// TestEvidence: what is told of a denial denies by itself, whoever decided, at each node.
func TestEvidence(t *testing.T) {
	limit := weir.MustParseLimit("2/h")
	for name, ask := range map[string]weir.Ask{
		"lease": {}, "whole": {Receipt: 7}, "peek": {Peek: true}, "mesh": {Policy: weir.Policy{Sharing: weir.SharingMesh}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, 3)
			ask.State, ask.Limit, ask.Cost = weir.StateKey{Rule: "r", Key: "k"}, limit, 1
			charge := ask
			charge.Peek, charge.Evidence = false, nil
			out := make([]weir.Decision, 1)
			for _, s := range n.nodes {
				for range 3 { // the third is denied anywhere
					if err := s.Take(t.Context(), []weir.Ask{charge}, out); err != nil {
						t.Fatal(err)
					}
				}
				seen := weir.Evidence{}
				ask.Evidence = &seen
				if err := s.Take(t.Context(), []weir.Ask{ask}, out); err != nil || out[0].Outcome != weir.Denied || !seen.Told {
					t.Errorf("%s: %+v, %v; it tells %+v", s.self.Name, out[0], err, seen)
				}
				if d := limit.Decide(seen.State, seen.At, &ask); d.Outcome != weir.Denied {
					t.Errorf("%s: what was seen decides %+v", s.self.Name, d)
				}
			}
		})
	}
}

// TestImpossible: who asks for more than ever passes is told what is left, also of a key that
// nobody has asked about.
func TestImpossible(t *testing.T) {
	n := newNetwork(t, 3)
	out := make([]weir.Decision, 1)
	for i, s := range n.nodes {
		ask := weir.Ask{State: weir.StateKey{Rule: "r", Key: string(rune('a' + i))}, Limit: weir.MustParseLimit("2/h"), Cost: 3}
		if err := s.Take(t.Context(), []weir.Ask{ask}, out); err != nil || out[0].Outcome != weir.Impossible || out[0].Remaining != 2 {
			t.Errorf("%s: %+v, %v; want 2 left", s.self.Name, out[0], err)
		}
	}
}
