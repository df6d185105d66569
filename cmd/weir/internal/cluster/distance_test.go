package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// TestFarOwner: a node finds out how far an owner is, and waits for it that long.
func TestFarOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 2)
		const oneWay = 90 * time.Millisecond
		n.took.Store(int64(oneWay))
		for _, s := range n.nodes {
			s.waits = protocol.Patience
		}
		n.found()
		time.Sleep(10 * time.Second)
		key := weir.StateKey{Rule: "r", Key: "k"}
		for n.nodes[0].Owner(key, &weir.Policy{}) == n.names[0] {
			key.Key += "k"
		}
		if _, far := n.nodes[0].shard(key).owner(key); far != protocol.Distance(2*oneWay) {
			t.Errorf("the owner is %v away; want %v", time.Duration(far), 2*oneWay)
		}
		for _, receipt := range []uint64{0, 1} { // by a lease, and whole
			asks := []weir.Ask{{State: key, Limit: weir.MustParseLimit("1000/s"), Cost: 1, Receipt: receipt}}
			out := make([]weir.Decision, 1)
			if err := n.nodes[0].Take(t.Context(), asks, out); err != nil || out[0].Outcome != weir.Allowed {
				t.Errorf("receipt %d: %+v, %v", receipt, out[0], err)
			}
		}
		if s := n.nodes[0].Stats(); s.Asked != 1 {
			t.Errorf("%d questions to the owner; want 1", s.Asked)
		}
	})
}
