package memstore_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// TestRoomForMaxKeys: as many keys as a store was told to have room for are all
// told apart, however fast they come.
func TestRoomForMaxKeys(t *testing.T) {
	for _, keys := range []int{1000, 98_304} {
		store, limit := memstore.New(memstore.Options{MaxKeys: keys}), weir.MustParseLimit("1/day fixed-window")
		if passed := flood(t, store, limit, 1, 0, keys); passed != keys {
			t.Errorf("%d of %d new keys passed; %+v", passed, keys, store.Stats())
		}
	}
}

// TestOverflowOfOneTake: newcomers that find no slot share their shard's
// overflow state also when one take asks for all of them.
func TestOverflowOfOneTake(t *testing.T) {
	store, limit := memstore.New(memstore.Options{MaxKeys: 64}), weir.MustParseLimit("1/h burst 1")
	passed := 0
	for take := range 20 {
		asks, out := make([]weir.Ask, 100), make([]weir.Decision, 100)
		for i := range asks {
			asks[i] = weir.Ask{State: weir.StateKey{Rule: "r", Key: fmt.Sprint(take, "-", i)}, Limit: limit, Cost: 1, Shadow: true}
		}
		if err := store.TakeAt(1, asks, out); err != nil {
			t.Fatal(err)
		}
		for i := range out {
			if out[i].Charged {
				passed++
			}
		}
	}
	if most := store.Stats().Slots + 16; passed > most {
		t.Errorf("%d newcomers passed, there are %d slots and overflow states", passed, most)
	}
}

// TestSettledOutlivesTheShortestReceipt: receipts of one take are remembered as
// settled until the last of them ends.
func TestSettledOutlivesTheShortestReceipt(t *testing.T) {
	store := memstore.New(memstore.Options{})
	permits, hourly := weir.MustParseLimit("10 concurrent ttl 1s"), weir.MustParseLimit("1000/h fixed-window")
	asks := []weir.Ask{
		{State: weir.StateKey{Rule: "permits"}, Limit: permits, Cost: 1, Receipt: 7},
		{State: weir.StateKey{Rule: "hourly"}, Limit: hourly, Cost: 500, Receipt: 7},
	}
	out := make([]weir.Decision, 2)
	if err := store.TakeAt(0, asks, out); err != nil {
		t.Fatal(err)
	}
	settlements := []weir.Settlement{{Receipt: out[0].Receipt}, {Receipt: out[1].Receipt}}
	if err := store.SettleAt(1, settlements); err != nil {
		t.Fatal(err)
	}
	const later = 180_000_000 // long after the permit's end
	if err := store.SettleAt(later, settlements); !errors.Is(err, weir.ErrSettled) {
		t.Errorf("settled twice: %v", err)
	}
}

// TestEvictedGivesNothingBack: a receipt of a key that was forgotten returns
// nothing to those who came after it.
func TestEvictedGivesNothingBack(t *testing.T) {
	store, limit := memstore.New(memstore.Options{MaxKeys: 64}), weir.MustParseLimit("100/h")
	out := make([]weir.Decision, 1)
	ask := weir.Ask{State: weir.StateKey{Rule: "r", Key: "first"}, Limit: limit, Cost: 1, Receipt: 9}
	if err := store.TakeAt(0, []weir.Ask{ask}, out); err != nil {
		t.Fatal(err)
	}
	receipt := out[0].Receipt
	for i := range 3000 {
		takeOne(t, store, limit, 1, fmt.Sprint("other", i), 50)
	}
	if store.Stats().Evicted == 0 {
		t.Fatal("nothing was evicted")
	}
	before := takeOne(t, store, limit, 2, "first", 0).Remaining
	if err := store.SettleAt(2, []weir.Settlement{{Receipt: receipt}}); err != nil {
		t.Fatal(err)
	}
	if after := takeOne(t, store, limit, 2, "first", 0).Remaining; after > before {
		t.Errorf("%d remained, and %d after the settlement", before, after)
	}
}
