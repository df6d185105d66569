package redisstore

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/redistest"
)

// cpu is the processor time that the server has used, in microseconds.
func cpu(b *testing.B, client rueidis.Client) float64 {
	b.Helper()
	info, err := client.Do(b.Context(), client.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}
	total := 0.0
	for line := range strings.Lines(info) {
		var seconds float64
		for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
			if n, _ := fmt.Sscanf(line, name+":%f", &seconds); n == 1 {
				total += seconds * 1e6
			}
		}
	}
	return total
}

// BenchmarkTake is one take of a random key of 10,000, by so many goroutines:
// together, as the store does it, and alone, one script call for each.
func BenchmarkTake(b *testing.B) {
	client := connect(b, redistest.Start(b).Addr)
	limit := weir.MustParseLimit("100/s burst 100")
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf("key%013d", i)
	}
	for _, goroutines := range []int{1, 16, 64, 256} {
		for _, way := range []string{"together", "alone"} {
			b.Run(fmt.Sprintf("%d/%s", goroutines, way), func(b *testing.B) {
				s := New(client, Options{Cluster: way == "alone"})
				var n atomic.Uint64
				b.SetParallelism(max(goroutines/2, 1))
				b.ReportAllocs()
				before := cpu(b, client)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					asks, out := make([]weir.Ask, 1), make([]weir.Decision, 1)
					i := n.Add(0x9e3779b97f4a7c15)
					for pb.Next() {
						i = i*6364136223846793005 + 1442695040888963407
						asks[0] = weir.Ask{State: weir.StateKey{Rule: "r#gcra", Key: names[i>>33%uint64(len(names))]}, Limit: limit, Cost: 1}
						if err := s.Take(b.Context(), asks, out); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.StopTimer()
				st := s.Stats()
				b.ReportMetric(float64(st.Takes)/float64(st.Calls), "takes/call")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "takes/s")
				b.ReportMetric((cpu(b, client)-before)/float64(b.N), "redis-us/take")
			})
		}
	}
}

// BenchmarkDenied is a take of one key that was denied.
func BenchmarkDenied(b *testing.B) {
	s := New(connect(b, redistest.Start(b).Addr), Options{})
	limit := weir.MustParseLimit("1/h")
	ask := weir.Ask{State: weir.StateKey{Rule: "r#gcra", Key: "hot"}, Limit: limit, Cost: 1}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		asks, out := []weir.Ask{ask}, make([]weir.Decision, 1)
		for pb.Next() {
			if err := s.Take(b.Context(), asks, out); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "takes/s")
	b.ReportMetric(float64(s.Stats().Calls), "calls")
}
