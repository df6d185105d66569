package memstore

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// TestDeniedWithoutALock: from its third time in a row on, a key is denied though the lock
// of its segment is held.
func TestDeniedWithoutALock(t *testing.T) {
	for _, text := range []string{"2/h", "2/h fixed-window"} {
		s, limit := New(Options{}), weir.MustParseLimit(text)
		take := func() weir.Decision {
			out := make([]weir.Decision, 1)
			asks := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limit, Cost: 1}}
			if err := s.TakeAt(hour, asks, out); err != nil {
				t.Fatal(err)
			}
			return out[0]
		}
		for range 4 {
			take()
		}
		table, err := s.table("r")
		if err != nil {
			t.Fatal(err)
		}
		before := take()
		sg := table.lock(table.hash.print("k"))
		held := take() // would wait for ever
		sg.mu.Unlock()
		if held.Outcome != weir.Denied {
			t.Errorf("%s: %v, want a denial", text, held.Outcome)
		}
		if diff := cmp.Diff(before, held); diff != "" {
			t.Errorf("%s: with and without the lock differ:\n%s", text, diff)
		}
	}
}

// TestDeniedCopies draws takes of few keys, so that most are denied, with all that may
// change a state in between, and holds each decision to the limit's own.
func TestDeniedCopies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := []*weir.Limit{weir.MustParseLimit("5/h"), weir.MustParseLimit("5/h fixed-window")}
		limit := limits[rapid.IntRange(0, 1).Draw(t, "limit")]
		s, states, now := New(Options{}), map[string]weir.State{}, 10*hour
		var receipts []*weir.Receipt
		var owners []string
		take := func(key string, cost int64, receipt uint64) {
			a := weir.Ask{State: weir.StateKey{Rule: "r", Key: key}, Limit: limit, Cost: cost, Receipt: receipt}
			got := make([]weir.Decision, 1)
			if err := s.TakeAt(now, []weir.Ask{a}, got); err != nil {
				t.Fatal(err)
			}
			want := []weir.Decision{limit.Decide(states[key], now, &a)}
			weir.Resolve([]weir.Ask{a}, want)
			states[key] = limit.Commit(states[key], now, &a, &want[0])
			if r := got[0].Receipt; r != nil {
				receipts, owners = append(receipts, r), append(owners, key)
			}
			got[0].Receipt, want[0].Receipt = nil, nil
			if diff := cmp.Diff(want[0], got[0]); diff != "" {
				t.Fatalf("%s by %s:\n%s", key, limit, diff)
			}
		}
		next := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				key := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
				for range rapid.IntRange(1, 4).Draw(t, "times") {
					cost := rapid.Int64Range(1, 5).Draw(t, "cost")
					for range 3 { // the third time by a copy, if it is denied
						take(key, cost, 0)
					}
				}
			},
			"receipt": func(t *rapid.T) {
				next++
				take(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), 1, next)
			},
			"settle": func(t *rapid.T) {
				if len(receipts) == 0 {
					t.Skip("no receipts")
				}
				last := len(receipts) - 1
				if now >= receipts[last].Expires {
					receipts, owners = nil, nil
					return
				}
				own, other := weir.Settlement{Receipt: receipts[last]}, weir.Settlement{Receipt: receipts[last]}
				if err := s.SettleAt(now, []weir.Settlement{own}); err != nil {
					t.Fatal(err)
				}
				state, err := limit.Settle(states[owners[last]], now, 0, &other)
				if err != nil {
					t.Fatal(err)
				}
				states[owners[last]], receipts, owners = state, receipts[:last], owners[:last]
			},
			"newcomers": func(t *rapid.T) { // segments are laid out anew, and split
				for i := range 200 {
					take("x"+strconv.Itoa(len(states))+"/"+strconv.Itoa(i), 1, 0)
				}
			},
			"on": func(t *rapid.T) { now += weir.Instant(rapid.Int64Range(0, int64(hour)/3).Draw(t, "by")) },
		})
	})
}
