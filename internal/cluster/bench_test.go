package cluster

import (
	"context"
	"fmt"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// BenchmarkHeld is a plain ask on a lease that is held, beside the same in memory.
func BenchmarkHeld(b *testing.B) {
	for _, side := range []string{"cluster", "memory"} {
		for _, keys := range []int{1, 10_000} {
			b.Run(fmt.Sprintf("%s/%dkeys", side, keys), func(b *testing.B) {
				var store weir.Store = memstore.New(memstore.Options{})
				if side == "cluster" {
					n := newNetwork(b, 1)
					n.nodes[0].now = newClock().now
					store = n.nodes[0]
				}
				limit := weir.MustParseLimit("1000000000/s")
				names := make([]string, keys)
				for i := range names {
					names[i] = fmt.Sprintf("key%013d", i)
				}
				asks, out := make([]weir.Ask, 1), make([]weir.Decision, 1)
				i := uint64(0)
				b.ReportAllocs()
				for b.Loop() {
					i = i*6364136223846793005 + 1442695040888963407
					asks[0] = weir.Ask{State: weir.StateKey{Rule: "r", Key: names[i>>33%uint64(keys)]}, Limit: limit, Cost: 1}
					if err := store.Take(context.Background(), asks, out); err != nil || out[0].Outcome != weir.Allowed {
						b.Fatal(err, out[0])
					}
				}
			})
		}
	}
}
