package memstore_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// BenchmarkMemory tells what a key in use costs, by algorithm and by how many
// there are: make bench-memory.
func BenchmarkMemory(b *testing.B) {
	for _, text := range []string{
		"100/min", "100/min leaky-queue", "100/min fixed-window", "100/day fixed-window zone Europe/Berlin",
		"100/min sliding-window", "100/min sliding-window 6", "100/min sliding-window 60", "100/min sliding-log", "100/min warm-up 1min", "100 concurrent",
	} {
		for _, keys := range []int{10_000, 100_000, 1_000_000} {
			if testing.Short() && keys > 10_000 {
				continue
			}
			b.Run(fmt.Sprintf("%s/keys=%d", text, keys), func(b *testing.B) {
				limit := weir.MustParseLimit(text)
				for b.Loop() {
					before := heap()
					s := memstore.New(memstore.Options{})
					for i := range keys {
						ask := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: fmt.Sprint(i)}, Limit: limit, Cost: 1}}
						if err := s.TakeAt(1, ask, make([]weir.Decision, 1)); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(heap()-before)/float64(keys), "B/key")
					runtime.KeepAlive(s)
				}
				b.ReportMetric(0, "ns/op") // it is not about time
			})
		}
	}
}

// BenchmarkMemoryOfRules tells what a rule costs whose first key is asked about.
func BenchmarkMemoryOfRules(b *testing.B) {
	const rules = 10_000
	limit := weir.MustParseLimit("100/min")
	for b.Loop() {
		before := heap()
		s := memstore.New(memstore.Options{})
		for i := range rules {
			ask := []weir.Ask{{State: weir.StateKey{Rule: fmt.Sprint(i), Key: "k"}, Limit: limit, Cost: 1}}
			if err := s.TakeAt(1, ask, make([]weir.Decision, 1)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heap()-before)/rules, "B/rule")
		runtime.KeepAlive(s)
	}
	b.ReportMetric(0, "ns/op")
}

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
