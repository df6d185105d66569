package memstore_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/storetest"
)

// ownLimits are more than a rule has tables for, of every kind, and two that keep the same states.
var ownLimits = []string{
	"100/min", "7/s burst 30", "1000/h burst 50", "20/min fixed-window", "300/min fixed-window", "40/min sliding-log", "90/min sliding-window 6",
	"0/s", "50/h fixed-window", "5/s leaky-queue queue 20",
}

func limitOf(text string) *weir.Limit { return weir.MustParseLimit(text) }

// TestOwnLimits: keys with limits of their own begin and end by turns, beside keys that have none, alone and in takes of several: each count is as
// that of a store which keeps every key by itself.
func TestOwnLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store, model := memstore.New(memstore.Options{}), storetest.NewModel()
		usual := rapid.SampledFrom([]string{"10/min", "10/min fixed-window", "10/min sliding-log"}).Draw(t, "usual")
		own, several := map[string]string{}, rapid.Bool().Draw(t, "several")
		now := monday
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += weir.Instant(rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, 20 * time.Second, time.Hour}).Draw(t, "later") / time.Microsecond)
			keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
			for _, k := range keys {
				switch rapid.IntRange(0, 9).Draw(t, "change") {
				case 0:
					own[k] = rapid.SampledFrom(ownLimits).Draw(t, "own")
				case 1:
					delete(own, k)
				}
			}
			var asks []weir.Ask
			for _, k := range rapid.Permutation(keys).Draw(t, "keys")[:rapid.SampledFrom([]int{1, 1, 1, 2, 3, 5}).Draw(t, "asks")] {
				rule := "r"
				if several {
					rule += k // each in a table of its own
				}
				a := weir.Ask{State: weir.StateKey{Rule: rule, Key: k}, Limit: limitOf(usual), Cost: int64(rapid.IntRange(0, 12).Draw(t, "cost"))}
				if text := own[k]; text != "" {
					a.Limit, a.Own = limitOf(text), true
				}
				a.Peek = rapid.IntRange(0, 9).Draw(t, "peek") == 0
				asks = append(asks, a)
			}
			got, want := make([]weir.Decision, len(asks)), make([]weir.Decision, len(asks))
			if err := store.TakeAt(now, slices.Clone(asks), got); err != nil {
				t.Fatal(err)
			}
			if err := model.TakeAt(now, slices.Clone(asks), want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(weir.Decision{})); diff != "" {
				t.Fatalf("%v, own %v: %s", asks, own, diff)
			}
		}
		if stats := store.Stats(); stats.OwnFull != 0 || stats.Rules > 8 {
			t.Fatalf("%+v", stats)
		}
	})
}

func takeOwn(t *testing.T, s *memstore.Store, now weir.Instant, key, limit string, own bool, cost int64) weir.Decision {
	t.Helper()
	out := make([]weir.Decision, 1)
	if err := s.TakeAt(now, []weir.Ask{{State: weir.StateKey{Rule: "r", Key: key}, Limit: limitOf(limit), Cost: cost, Own: own}}, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// TestOwnRaised: a key that used 8 of 10 has 92 of 100 while it is raised, and is held to 10 afterwards; others never notice. A snapshot has
// what it used, and by which limits.
func TestOwnRaised(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	s, err := memstore.Open(file, memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := weir.InstantOf(time.Now())
	const usual, raised = "10/day", "100/day"
	takeOwn(t, s, now, "k", usual, false, 8)
	if d := takeOwn(t, s, now, "k", raised, true, 0); d.Remaining != 92 {
		t.Errorf("%d remain of 100", d.Remaining)
	}
	takeOwn(t, s, now, "k", raised, true, 42)
	for _, store := range []*memstore.Store{s, again(t, s, file)} {
		if d := takeOwn(t, store, now, "k", raised, true, 0); d.Remaining != 50 {
			t.Errorf("%d remain of 100", d.Remaining)
		}
		if d := takeOwn(t, store, now, "k", usual, false, 1); d.Outcome != weir.Denied {
			t.Errorf("afterwards: %+v", d)
		}
		if d := takeOwn(t, store, now, "other", usual, false, 10); d.Outcome != weir.Allowed {
			t.Errorf("another: %+v", d)
		}
		if err := store.ResetAt(now, []weir.StateKey{{Rule: "r", Key: "k"}, {Rule: "r", Key: "other"}}); err != nil {
			t.Fatal(err)
		}
		if d := takeOwn(t, store, now+1, "k", raised, true, 0); d.Remaining != 100 || store.Stats().Own != 0 {
			t.Errorf("after a reset %d remain; %+v", d.Remaining, store.Stats())
		}
	}
}

func again(t *testing.T, s *memstore.Store, file string) *memstore.Store {
	t.Helper()
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	other, err := memstore.Open(file, memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// TestOwnFull: where there is no room for one more key with a limit of its own, it passes what both limits let pass.
func TestOwnFull(t *testing.T) {
	s := memstore.New(memstore.Options{MaxKeys: 8})
	for i := range 1000 {
		takeOwn(t, s, monday, fmt.Sprint(i), "100/day", true, 100)
	}
	stats := s.Stats()
	if stats.OwnFull == 0 || stats.Own == 0 || stats.Own > 100 {
		t.Fatalf("%+v", stats)
	}
	takeOwn(t, s, monday, "one", "10/day", false, 4)
	if d := takeOwn(t, s, monday, "one", "100/day", true, 7); d.Outcome == weir.Allowed {
		t.Errorf("%+v", d)
	}
	later := monday + weir.Instant(48*time.Hour/time.Microsecond)
	if d := takeOwn(t, s, later, "late", "100/day", true, 50); d.Outcome != weir.Allowed {
		t.Errorf("when others have recovered: %+v", d)
	}
}

// TestOwnReceipts: what was charged by the limit of one key is given back to it, also once that has ended.
func TestOwnReceipts(t *testing.T) {
	s := memstore.New(memstore.Options{})
	out := make([]weir.Decision, 1)
	ask := weir.Ask{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limitOf("100/day"), Cost: 60, Receipt: 7, Own: true}
	if err := s.TakeAt(monday, []weir.Ask{ask}, out); err != nil {
		t.Fatal(err)
	}
	st := []weir.Settlement{{Receipt: out[0].Receipt, Used: 10}}
	if err := s.SettleAt(monday+1, st); err != nil || st[0].Charged != 10 {
		t.Fatal(err, st[0])
	}
	if d := takeOwn(t, s, monday+2, "k", "100/day", true, 0); d.Remaining != 90 {
		t.Errorf("%d remain", d.Remaining)
	}
}

// BenchmarkOwn is a take of a key with a limit of its own, of another key of the rule, and of a rule that has none.
func BenchmarkOwn(b *testing.B) {
	for _, name := range []string{"own", "beside", "none"} {
		b.Run(name, func(b *testing.B) {
			s, l := memstore.New(memstore.Options{}), limitOf("1000000/s")
			out := make([]weir.Decision, 1)
			a := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limitOf("2000000/s burst 10"), Cost: 1, Own: name == "own"}}
			if name == "beside" {
				o := a[0]
				o.Own, o.State.Key, o.Limit = true, "own", limitOf("5/year fixed-window")
				if err := s.Take(b.Context(), []weir.Ask{o}, out); err != nil {
					b.Fatal(err)
				}
			}
			if name != "own" {
				a[0].Limit = l
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Take(b.Context(), a, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
