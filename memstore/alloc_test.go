package memstore_test

import (
	"context"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// TestTakeAllocates holds the call that the README shows to no allocation, and that of two
// limits to the one of its answer.
func TestTakeAllocates(t *testing.T) {
	ctx := context.Background()
	for _, text := range []string{
		"1000000/s", "1/day", "1000000/s leaky-queue", "1/day fixed-window", "1000000/s fixed-window", "1000000/s sliding-window 4", "1000000/s warm-up 1s",
	} {
		limit := weir.MustParseLimit(text)
		for _, of := range []struct {
			limiter *weir.Limiter
			most    float64
		}{
			{weir.NewLimiter(memstore.New(memstore.Options{}), "one", limit), 0},
			{weir.NewLimiter(memstore.New(memstore.Options{}), "two", limit, weir.MustParseLimit("1000000/hour")), 1},
		} {
			if got := testing.AllocsPerRun(1000, func() {
				if _, err := of.limiter.Take(ctx, "k", 1); err != nil {
					t.Fatal(err)
				}
			}); got > of.most {
				t.Errorf("%s: %v allocations, at most %v", text, got, of.most)
			}
		}
	}
}
