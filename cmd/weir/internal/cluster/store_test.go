package cluster

import (
	"fmt"
	"testing"

	"github.com/weir-limit/weir/storetest"
)

// TestStore: one node, and three of which any is asked, keep the contract of
// weir.Store.
func TestStore(t *testing.T) {
	for _, size := range []int{1, 3} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			networks, opened := map[string]*network{}, 0
			open := func(t testing.TB, name string) storetest.Clocked {
				n := networks[name]
				if n == nil {
					n = newNetwork(t, size)
					networks[name] = n
				}
				opened++
				return at{n.nodes[opened%size], n.clock}
			}
			storetest.Run(t, "../../../../testdata/vectors", open, storetest.Options{Ahead: true})
		})
	}
}
