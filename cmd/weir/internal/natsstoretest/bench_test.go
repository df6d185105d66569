package natsstoretest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
	"github.com/weir-limit/weir/natsstore"
)

// BenchmarkMemory is what a server needs for a key in use of a bucket in memory, by algorithm, of a
// rule shop/user and a client's address: by its own account, and in its heap.
func BenchmarkMemory(b *testing.B) {
	const keys = 100_000
	for _, text := range []string{"100/day", "100/day fixed-window", "100/day sliding-window 6", "100/day sliding-window 60", "100 concurrent ttl 1h"} {
		b.Run(text, func(b *testing.B) {
			server := natstest.Start(b)
			limit := weir.MustParseLimit(text)
			for b.Loop() {
				s, err := natsstore.Dial("nats://"+server.Addr+"?storage=memory", natsstore.Options{})
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Ping(b.Context(), 0); err != nil {
					b.Fatal(err)
				}
				before := heap()
				var all sync.WaitGroup
				for g := range 64 {
					all.Go(func() {
						out := make([]weir.Decision, 1)
						for n := g; n < keys; n += 64 {
							key := fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)
							asks := []weir.Ask{{State: weir.StateKey{Rule: "shop/user#" + limit.Algorithm().String(), Key: key}, Limit: limit, Cost: 1}}
							if limit.Algorithm() == weir.Concurrent {
								asks[0].Receipt = uint64(n + 1)
							}
							if err := s.Take(b.Context(), asks, out); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
				st, err := s.Status(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				_ = s.Close() // what it remembers is not the server's
				b.ReportMetric(float64(st.Bytes)/keys, "B/item")
				b.ReportMetric(float64(heap()-before)/keys, "B/key")
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
