package pgstore

import (
	"fmt"
	"sync"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/postgrestest"
)

// BenchmarkMemory is what PostgreSQL needs on disk for a key in use, by algorithm, of a rule shop/user and a
// client's address, when each key was written three times: the table, its free half, and its index.
func BenchmarkMemory(b *testing.B) {
	for _, limit := range []string{
		"100/day", "100/day leaky-queue", "100/day fixed-window", "100/day sliding-window", "100/day sliding-window 6",
		"100/day sliding-window 60", "1 concurrent ttl 1h",
	} {
		b.Run(limit, func(b *testing.B) {
			server := postgrestest.StartTCP(b)
			s := dial(b, server.Database(b))
			const keys = 100_000
			l := weir.MustParseLimit(limit)
			for b.Loop() {
				for range 3 {
					fill(b, s, l, keys)
				}
			}
			st := s.Status(b.Context())
			if st.Err != nil {
				b.Fatal(st.Err)
			}
			b.ReportMetric(float64(st.Bytes)/keys, "B/key")
		})
	}
}

func fill(b *testing.B, s *Store, l *weir.Limit, keys int) {
	var wg sync.WaitGroup
	for g := range 256 {
		wg.Go(func() {
			out := make([]weir.Decision, 1)
			for n := g; n < keys; n += 256 {
				key := fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)
				asks := []weir.Ask{{State: weir.StateKey{Rule: "shop/user#" + l.Algorithm().String(), Key: key}, Limit: l, Cost: 1}}
				if l.Algorithm() == weir.Concurrent {
					asks[0].Receipt = uint64(n + 1)
				}
				if err := s.Take(b.Context(), asks, out); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
