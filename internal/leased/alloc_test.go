package leased_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/internal/leased"
	"github.com/weir-limit/weir/memstore"
)

// elsewhere is a store in memory, as an edge wants one.
type elsewhere struct{ *memstore.Store }

func (elsewhere) Close() error { return nil }

func (elsewhere) Ping(context.Context, int) error { return nil }

// limiters are one over a portion, as a program has it, and one over memory.
func limiters(tb testing.TB, keys int) (byPortion, inMemory *weir.Limiter, names []string) {
	store := edge.New(elsewhere{memstore.New(memstore.Options{})}, edge.Options{})
	tb.Cleanup(func() { _ = store.Close() })
	l := weir.MustParseLimit("1000000000/h fixed-window")
	byPortion, err := weir.NewLimiter(store, "r", l).With(weir.Policy{Lease: time.Second})
	if err != nil {
		tb.Fatal(err)
	}
	for i := range keys {
		names = append(names, fmt.Sprint("user-", i))
	}
	return byPortion, weir.NewLimiter(memstore.New(memstore.Options{}), "r", l), names
}

// TestAllocates: a decision by a portion takes no memory.
func TestAllocates(t *testing.T) {
	l, _, names := limiters(t, 1)
	for range 200 {
		time.Sleep(100 * time.Microsecond)
		if _, err := l.Take(t.Context(), names[0], 1); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(1000, func() { _, _ = l.Take(t.Context(), names[0], 1) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestAllocatesTogether: nor does one of two limits.
func TestAllocatesTogether(t *testing.T) {
	s := leased.New(memstore.New(memstore.Options{}), memstore.New(memstore.Options{}).Take)
	asks := []weir.Ask{ask("1000000000/h fixed-window", "k"), ask("1000000000/min", "k")}
	out := make([]weir.Decision, len(asks))
	decide := func() {
		if err := s.Take(context.Background(), asks, out); err != nil {
			t.Fatal(err)
		}
	}
	for range 300 {
		time.Sleep(100 * time.Microsecond)
		decide()
	}
	before := s.Stats().Store
	if n := testing.AllocsPerRun(1000, decide); n > 0 || s.Stats().Store > before {
		t.Errorf("%v allocations: %+v", n, s.Stats())
	}
	end(t, []*leased.Store{s})
}

// BenchmarkTake is a decision of a Limiter by a portion, and by a store in memory.
func BenchmarkTake(b *testing.B) {
	for _, keys := range []int{1, 10_000} {
		byPortion, inMemory, names := limiters(b, keys)
		for name, l := range map[string]*weir.Limiter{"lease": byPortion, "memory": inMemory} {
			for range 3 {
				for _, key := range names {
					if _, err := l.Take(b.Context(), key, 1); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.Run(fmt.Sprintf("%s/keys=%d", name, keys), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if _, err := l.Take(b.Context(), names[i%keys], 1); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
	}
}
