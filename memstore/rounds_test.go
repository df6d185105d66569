package memstore

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-limit/weir"
)

// TestRounds: who finds tables that are not their rule's any more, however often, gives
// up after some rounds, and nothing has changed: the receipt is still good.
func TestRounds(t *testing.T) {
	s, key := New(Options{}), weir.StateKey{Rule: "r", Key: "k"}
	asks := []weir.Ask{{State: key, Limit: weir.MustParseLimit("5/h fixed-window"), Cost: 5, Receipt: 1}}
	out := make([]weir.Decision, 1)
	take := func() error { return s.TakeAt(1, asks, out) }
	if err := take(); err != nil {
		t.Fatal(err)
	}
	settlements := []weir.Settlement{{Receipt: out[0].Receipt}}
	settle := func() error { return s.SettleAt(2, settlements) }
	table := s.tables["r"]
	table.versions.Store(&versions{})
	for i, do := range []func() error{take, settle, func() error { return s.ResetAt(2, []weir.StateKey{key}) }} {
		if err := do(); !errors.Is(err, weir.ErrBusy) {
			t.Errorf("%d: %v, want ErrBusy", i, err)
		}
	}
	if st := s.Stats(); st.Busy != 3 {
		t.Errorf("%d are counted, want 3", st.Busy)
	}
	table.versions.Store(nil)
	if err := settle(); err != nil || settlements[0].Charged != 0 {
		t.Errorf("then it is settled with %v, %d stay charged", err, settlements[0].Charged)
	}
	if err := take(); err != nil || !out[0].Charged {
		t.Errorf("then %+v, %v", out[0], err)
	}
}

// TestReplaced: takes of limits that change all the time find a table each, though
// others drop those they have found.
func TestReplaced(t *testing.T) {
	s := New(Options{})
	var limits []*weir.Limit
	for _, text := range []string{"5/s", "7/s fixed-window", "9/s sliding-log", "4/s burst 2", "3/s sliding-window 2"} {
		limits = append(limits, weir.MustParseLimit(text))
	}
	var clock atomic.Int64
	clock.Store(1_800_000_000_000_000)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5_000 {
				now := weir.Instant(clock.Add(rand.Int64N(400_000)) - rand.Int64N(3_000_000))
				asks := []weir.Ask{
					{State: weir.StateKey{Rule: "a", Key: "k"}, Limit: limits[rand.IntN(len(limits))], Cost: 1},
					{State: weir.StateKey{Rule: "b", Key: "k"}, Limit: limits[rand.IntN(len(limits))], Cost: 1},
				}
				if err := s.TakeAt(now, asks, make([]weir.Decision, 2)); err != nil && !errors.Is(err, weir.ErrBusy) {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
