package memstore_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// TestMaxRules: beyond its bound, a store makes place by dropping rules that
// nobody uses, and says so when there is none.
func TestMaxRules(t *testing.T) {
	store, limit := memstore.New(memstore.Options{}), weir.MustParseLimit("1/h burst 2")
	out := make([]weir.Decision, 1)
	take := func(rule string, now weir.Instant) error {
		return store.TakeAt(now, []weir.Ask{{State: weir.StateKey{Rule: rule}, Limit: limit, Cost: 1}}, out)
	}
	// The wall clock decides what is unused, so these are in use for a long time.
	const far = 4_000_000_000_000_000
	for i := range memstore.MaxRules - 1 {
		if err := take(strconv.Itoa(i), far); err != nil {
			t.Fatal(err)
		}
	}
	if err := take("idle", 0); err != nil {
		t.Fatal(err)
	}
	if err := take("takes the place of idle", far); err != nil {
		t.Fatal(err)
	}
	if err := take("too many", far); !errors.Is(err, memstore.ErrTooManyRules) {
		t.Errorf("one rule too many: %v", err)
	}
	if st := store.Stats(); st.Rules != memstore.MaxRules {
		t.Errorf("%d rules, the bound is %d", st.Rules, memstore.MaxRules)
	}
	if err := take("0", far); err != nil || out[0].Remaining != 0 {
		t.Errorf("a rule in use was dropped: %+v, %v", out[0], err)
	}
}

// TestSettleInAFullShard: what the work cost beyond its charge is charged to the
// overflow state when the key has no place.
func TestSettleInAFullShard(t *testing.T) {
	store, limit := memstore.New(memstore.Options{MaxKeys: 96}), weir.MustParseLimit("4/h burst 1 debt 3")
	flood(t, store, limit, 0, 0, 10_000)
	for i := range 100 {
		key := "owes" + strconv.Itoa(i)
		r := &weir.Receipt{ID: uint64(i + 1), State: weir.StateKey{Rule: "r", Key: key}, Limit: limit, Cost: 1, Expires: 1 << 50}
		if err := store.SettleAt(1, []weir.Settlement{{Receipt: r, Used: 4}}); err != nil {
			t.Fatal(err)
		}
		if d := takeOne(t, store, limit, 1, key, 1); d.Outcome != weir.Denied {
			t.Fatalf("%s owes, and is %+v", key, d)
		}
	}
	// For a rule nobody has asked yet, the receipt's own limit is charged.
	r := &weir.Receipt{ID: 1000, State: weir.StateKey{Rule: "new"}, Limit: limit, Cost: 1, Expires: 1 << 50}
	if err := store.SettleAt(1, []weir.Settlement{{Receipt: r, Used: 3}}); err != nil {
		t.Fatal(err)
	}
	out := make([]weir.Decision, 1)
	if err := store.TakeAt(1, []weir.Ask{{State: r.State, Limit: limit, Cost: 1}}, out); err != nil || out[0].Outcome != weir.Denied {
		t.Errorf("after settling two more: %+v, %v", out[0], err)
	}
}
