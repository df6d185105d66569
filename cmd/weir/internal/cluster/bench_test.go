package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// BenchmarkHeld is a plain ask on a lease that is held, beside the same in memory, by
// turns: what is printed are medians, of the nanoseconds of each and of the ratio.
func BenchmarkHeld(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("%dkeys", keys), func(b *testing.B) {
			n := newNetwork(b, 1)
			n.nodes[0].now = slow(newClock())
			sides := [2]func(times int, cost int64){asking(b, n.nodes[0], keys), asking(b, memstore.New(memstore.Options{}), keys)}
			for _, ask := range sides {
				ask(100*keys, 1000) // until leases are large
			}
			var took [2][]float64
			var ratios []float64
			b.ReportAllocs()
			for b.Loop() {
				for i, ask := range sides {
					const asks = 20_000
					start := time.Now()
					ask(asks, 1)
					took[i] = append(took[i], float64(time.Since(start).Nanoseconds())/asks)
				}
				ratios = append(ratios, took[0][len(ratios)]/took[1][len(ratios)])
			}
			b.ReportMetric(0, "ns/op") // of all asks of a turn
			b.ReportMetric(median(took[0]), "ns/cluster")
			b.ReportMetric(median(took[1]), "ns/memory")
			b.ReportMetric(median(ratios), "ratio")
			if held := n.nodes[0].Count().Leases; held != keys {
				b.Errorf("%d leases of %d keys", held, keys)
			}
		})
	}
}

// slow is a clock that goes a thousandth as fast, so that all of many keys hold leases.
func slow(c *clock) func() weir.Instant {
	return func() weir.Instant { return c.base + (c.now()-c.base)/1000 }
}

// asking asks a store so often about keys at random.
func asking(b *testing.B, store weir.Store, keys int) func(times int, cost int64) {
	ctx, limit := context.Background(), weir.MustParseLimit("1000000000/s")
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("key%013d", i)
	}
	asks, out, i := make([]weir.Ask, 1), make([]weir.Decision, 1), uint64(0)
	return func(times int, cost int64) {
		for range times {
			i = i*6364136223846793005 + 1442695040888963407
			asks[0] = weir.Ask{State: weir.StateKey{Rule: "r", Key: names[i>>33%uint64(keys)]}, Limit: limit, Cost: cost}
			if err := store.Take(ctx, asks, out); err != nil || out[0].Outcome != weir.Allowed {
				b.Fatal(err, out[0])
			}
		}
	}
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
