package redisstore

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/redistest"
)

// BenchmarkMemory tells what a key in use costs Redis, by algorithm: make
// bench-store-memory. Keys are as those of a rule shop/user and a client's
// address.
func BenchmarkMemory(b *testing.B) {
	keys := 200_000
	if testing.Short() {
		keys = 2_000
	}
	for _, text := range []string{
		"100/day", "100/day leaky-queue", "100/day fixed-window", "100/day fixed-window zone Europe/Berlin",
		"100/day sliding-window", "100/day sliding-window 6", "100/day sliding-window 60", "100/day sliding-log", "100 concurrent ttl 1h",
	} {
		b.Run(text, func(b *testing.B) {
			limit := weir.MustParseLimit(text)
			for b.Loop() {
				server := redistest.Start(b, "timeout", "0") // options keep it apart from a server that others name
				s := New(connect(b, server.Addr), Options{})
				before := memoryUsed(b, server)
				fill(b, s, limit, keys)
				b.ReportMetric(float64(memoryUsed(b, server)-before)/float64(keys), "B/key")
				server.Kill()
			}
			b.ReportMetric(0, "ns/op") // it is not about time
		})
	}
}

// fill takes one event of each of so many keys.
func fill(b *testing.B, s *Store, limit *weir.Limit, keys int) {
	const workers = 64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			out := make([]weir.Decision, 1)
			for i := w; i < keys; i += workers {
				key := fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
				ask := []weir.Ask{{State: weir.StateKey{Rule: "shop/user#" + limit.Algorithm().String(), Key: key}, Limit: limit, Cost: 1, Receipt: 1}}
				if err := s.Take(b.Context(), ask, out); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

var usedMemory = regexp.MustCompile(`used_memory:(\d+)`)

func memoryUsed(b *testing.B, server *redistest.Server) int64 {
	b.Helper()
	m := usedMemory.FindStringSubmatch(server.Ask(b, "INFO", "memory"))
	if m == nil {
		b.Fatal("it does not say what it uses")
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
