package guardtest

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/internal/synced"
	"github.com/weir-limit/weir/redisstore"
)

// BenchmarkHotKey is a take of one key that all goroutines want, kept in Redis: with
// sync and without, let pass (by a limit that nobody reaches) and denied.
func BenchmarkHotKey(b *testing.B) {
	for _, limit := range []string{"1000000000/s", "1000/s", "10/s"} {
		for _, sync := range []time.Duration{0, 100 * time.Millisecond} {
			b.Run(weir.MustParseLimit(limit).String()+"/sync="+sync.String(), func(b *testing.B) {
				r, err := redisstore.Dial("redis://" + redistest.Start(b).Addr)
				if err != nil {
					b.Fatal(err)
				}
				s := synced.New(guard.New(r, guard.Options{}))
				a := hot(limit)
				a.Policy.Sync = sync
				for take(b, s, []weir.Ask{a}).Degraded != "" { // until it is connected
					time.Sleep(time.Millisecond)
				}
				time.Sleep(2 * a.Policy.Sync)
				before := r.Stats().Calls
				b.SetParallelism(32)
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					asks, out := []weir.Ask{a}, make([]weir.Decision, 1)
					for pb.Next() {
						if err := s.Take(b.Context(), asks, out); err != nil {
							b.Error(err)
						}
					}
				})
				b.StopTimer()
				b.ReportMetric(float64(r.Stats().Calls-before)/b.Elapsed().Seconds(), "calls/s")
				if err := s.Close(b.Context()); err != nil {
					b.Error(err)
				}
				if err := r.Close(); err != nil {
					b.Error(err)
				}
			})
		}
	}
}
