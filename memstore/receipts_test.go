package memstore

import (
	"errors"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

func takeReceipt(t *testing.T, s *Store, rule string, limit *weir.Limit, id uint64) (*weir.Receipt, error) {
	t.Helper()
	asks := []weir.Ask{{State: weir.StateKey{Rule: rule, Key: "k"}, Limit: limit, Cost: 1, Receipt: id}}
	out := make([]weir.Decision, 1)
	err := s.TakeAt(hour, asks, out)
	return out[0].Receipt, err
}

// TestFreedPermitsAreNotRemembered: freeing permits, which tell by themselves whether
// they were freed, takes no room from receipts of others, however long they live.
func TestFreedPermitsAreNotRemembered(t *testing.T) {
	s, permits, daily := New(Options{}), weir.MustParseLimit("100 concurrent ttl 24h"), weir.MustParseLimit("100/day")
	for id := range uint64(1000) {
		r, err := takeReceipt(t, s, "permits", permits, id+1)
		if err != nil || r == nil {
			t.Fatal(r, err)
		}
		one := []weir.Settlement{{Receipt: r}}
		if err := s.SettleAt(hour, one); err != nil {
			t.Fatal(err)
		}
		if err := s.SettleAt(hour, one); !errors.Is(err, weir.ErrSettled) {
			t.Fatalf("freed twice: %v", err)
		}
	}
	if n := s.Stats().Settled; n != 0 {
		t.Errorf("%d freed permits are remembered", n)
	}
	// With a count beside them, what was charged there is remembered, for its own time.
	asks := []weir.Ask{
		{State: weir.StateKey{Rule: "permits"}, Limit: permits, Cost: 1, Receipt: 1 << 20},
		{State: weir.StateKey{Rule: "daily"}, Limit: daily, Cost: 1, Receipt: 1 << 20},
	}
	out := make([]weir.Decision, 2)
	if err := s.TakeAt(hour, asks, out); err != nil {
		t.Fatal(err)
	}
	both := []weir.Settlement{{Receipt: out[0].Receipt}, {Receipt: out[1].Receipt}}
	if err := s.SettleAt(hour, both); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Settled; n != 1 {
		t.Errorf("%d are remembered of a permit and a count, want 1", n)
	}
	for _, later := range []weir.Instant{1, hour / 2, hour} {
		if err := s.SettleAt(hour+later, both); !errors.Is(err, weir.ErrSettled) && !errors.Is(err, weir.ErrExpired) {
			t.Errorf("after %d, settled twice: %v", later, err)
		}
	}
}

// TestSettledFlood: a flood of receipts that are settled at once ends new receipts of
// its rule, and nothing else: takes without one go on, receipts that are out are
// settled, once, and other rules don't notice.
func TestSettledFlood(t *testing.T) {
	s, limit := New(Options{}), weir.MustParseLimit("1000000/day")
	s.receipts = record.Receipts{PerRule: 500, InAll: 1000}
	earlier, err := takeReceipt(t, s, "flooded", limit, 1)
	if err != nil {
		t.Fatal(err)
	}
	var last *weir.Receipt
	for id := uint64(2); ; id++ {
		r, err := takeReceipt(t, s, "flooded", limit, id)
		if errors.Is(err, weir.ErrFull) {
			break
		}
		if last = r; err != nil || id > 600 {
			t.Fatal(id, err)
		}
		if err := s.SettleAt(hour, []weir.Settlement{{Receipt: r}}); err != nil {
			t.Fatalf("receipt %d: %v", id, err)
		}
	}
	if r, err := takeReceipt(t, s, "flooded", limit, 0); err != nil || r != nil {
		t.Errorf("a take of the rule without a receipt: %v, %v", r, err)
	}
	if err := s.SettleAt(hour, []weir.Settlement{{Receipt: last}}); !errors.Is(err, weir.ErrSettled) {
		t.Errorf("settled twice: %v", err)
	}
	if err := s.SettleAt(hour, []weir.Settlement{{Receipt: earlier}}); err != nil {
		t.Errorf("a receipt from before: %v", err)
	}
	other, err := takeReceipt(t, s, "other", limit, 1000)
	if err := errors.Join(err, s.SettleAt(hour, []weir.Settlement{{Receipt: other}})); err != nil {
		t.Errorf("another rule: %v", err)
	}
	if st := s.Stats(); st.Refused != 1 || st.Settled != 502 {
		t.Errorf("%+v", st)
	}
}
