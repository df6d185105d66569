package cluster

import (
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/limittext"
)

// FuzzReceive: whatever a peer sends, a node lives on, and a key that is used up stays
// so: what was not asked rightly gives nothing back and lets nothing pass.
func FuzzReceive(f *testing.F) {
	limit := weir.MustParseLimit("3/day")
	used := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limit, Cost: 1, Receipt: 9}}
	forged := weir.Receipt{ID: 5, State: used[0].State, Limit: limit, Cost: -3, Expires: 1 << 60}
	for _, q := range []question{
		{verb: take, asks: used},
		{verb: look, asks: used},
		{verb: settle, settlements: []weir.Settlement{{Receipt: &forged}}},
		{verb: take, asks: []weir.Ask{used[0], {State: weir.StateKey{Rule: "other", Key: "k"}, Limit: limit, Cost: 1}}},
	} {
		f.Add(q.appendCall(nil, 7))
	}
	m := protocol.Message{Kind: protocol.Ask, State: used[0].State, Limit: limit.String(), Incarnation: 1, ID: 1, Least: 1, Want: 1 << 30}
	f.Add(m.Append([]byte{shares}))
	f.Add([]byte{howOld})
	f.Add([]byte{soOld, 0xff, 0xff})
	f.Add([]byte{posts, 1, 64, 0, 1, 1})
	f.Add([]byte{tells, 7, 1})
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, message []byte) {
		n := newNetwork(t, 2)
		s, out := n.nodes[0], make([]weir.Decision, 1)
		for range 3 {
			if err := s.Take(t.Context(), used, out); err != nil || !out[0].Charged {
				t.Fatal(out[0], err)
			}
		}
		for _, one := range n.nodes {
			one.Receive(n.names[1], message)
		}
		if resets(message) {
			return
		}
		if err := s.Take(t.Context(), used, out); err != nil || out[0].Charged {
			t.Errorf("%q let more pass: %+v, %v", message, out[0], err)
		}
	})
}

// resets is whether a message may be one that rightly forgets or gives back.
func resets(message []byte) bool {
	if len(message) == 0 || message[0] != asks {
		return false
	}
	_, q, err := parseCall(message[1:], new(limittext.Cache).Get)
	return err == nil && (q.verb == reset || q.verb == settle)
}
