package weir_test

import (
	"errors"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// TestCharge: what a take charged is settled for what each limit says, given back whole,
// and renewed only where it holds a permit.
func TestCharge(t *testing.T) {
	store := memstore.New(memstore.Options{})
	asks := []weir.Ask{
		{State: weir.StateKey{Rule: "day", Key: "k"}, Limit: weir.MustParseLimit("10/day fixed-window"), Cost: 4},
		{State: weir.StateKey{Rule: "slot", Key: "k"}, Limit: weir.MustParseLimit("9 concurrent"), Cost: 4},
	}
	take := func(id uint64) []*weir.Receipt {
		out := make([]weir.Decision, len(asks))
		asks[0].Receipt, asks[1].Receipt = id, id
		if err := store.Take(t.Context(), asks, out); err != nil || !weir.Judge(asks, out).Allowed {
			t.Fatal(out, err)
		}
		return []*weir.Receipt{out[0].Receipt, out[1].Receipt}
	}
	receipts := take(1)
	both := weir.NewCharge(store, receipts)
	if err := both.Renew(t.Context()); err != nil {
		t.Errorf("a charge with a permit: %v", err)
	}
	if err := weir.NewCharge(store, receipts[:1]).Renew(t.Context()); !errors.Is(err, weir.ErrNoPermit) {
		t.Errorf("a charge without a permit was renewed: %v", err)
	}
	for want, used := range map[string][]int64{
		"used: there are 1, for 2 receipts":       {3},
		"used: is -1; it must be 0…1099511627776": {3, -1},
	} {
		_, err := both.Settle(t.Context(), used)
		if _, ok := errors.AsType[*weir.UsedError](err); !ok || err.Error() != want {
			t.Errorf("two receipts settled for %v: %v, want a UsedError: %s", used, err, want)
		}
	}
	if charged, err := both.Settle(t.Context(), []int64{3, 4}); err != nil || len(charged) != 2 || charged[0] != 3 || charged[1] != 0 {
		t.Errorf("3 of 4 events and the permits settled: %v, %v", charged, err)
	}
	if err := both.GiveBack(t.Context()); !errors.Is(err, weir.ErrSettled) {
		t.Errorf("given back after it was settled: %v", err)
	}
	if err := weir.NewCharge(store, take(2)).GiveBack(t.Context()); err != nil {
		t.Error(err)
	}
	take(3) // 3 events are used: these fit, and no more
	if err := (weir.Charge{}).GiveBack(t.Context()); err != nil {
		t.Errorf("a charge of nothing: %v", err)
	}
}
