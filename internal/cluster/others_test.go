package cluster

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/sharing"
)

// TestKilled holds the others to decide again within a second about the keys of a node
// that was killed, and never beyond the limit.
func TestKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 3)
		var dead atomic.Value
		dead.Store("")
		n.lose = func(from, to string, _ []byte) bool { return from == dead.Load() || to == dead.Load() }
		var members []sharing.Member
		for i, name := range n.names {
			members = append(members, sharing.Member{Name: name, Incarnation: uint64(i + 1)})
		}
		for _, s := range n.nodes {
			s.Found()
			s.View(members)
		}
		ask := weir.Ask{State: weir.StateKey{Rule: "api", Key: "k"}, Limit: weir.MustParseLimit("100/s"), Cost: 1}
		passes := func(s *Store) bool {
			var out [1]weir.Decision
			return s.Take(t.Context(), []weir.Ask{ask}, out[:]) == nil && out[0].Outcome == weir.Allowed
		}
		time.Sleep(time.Second)
		owner := n.nodes[0].Owner(ask.State)
		var asker *Store
		for _, s := range n.nodes {
			if s.name != owner {
				asker = s
			}
		}
		if !passes(asker) {
			t.Fatal("nothing passes while all is well")
		}
		dead.Store(owner)
		killed, passed := time.Now(), 0
		for time.Since(killed) < time.Second {
			if time.Sleep(10 * time.Millisecond); passes(asker) {
				passed++
			}
		}
		if passed == 0 || passed > 110 || asker.Owner(ask.State) == owner {
			t.Errorf("%d passed in the second after %s was killed; %s is asked now", passed, owner, asker.Owner(ask.State))
		}
	})
}
