package memstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, "../testdata/vectors", func(testing.TB, string) storetest.Clocked {
		return memstore.New(memstore.Options{})
	}, storetest.Options{})
}

// TestNoDeadlock: takes of many keys in any order, with settlements and resets
// between, all end, and the scarcest key passes exactly its limit.
func TestNoDeadlock(t *testing.T) {
	store := memstore.New(memstore.Options{})
	wide, scarce := weir.MustParseLimit("1000000/day"), weir.MustParseLimit("500/day")
	var passed atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range 500 {
				asks := []weir.Ask{{State: weir.StateKey{Rule: "scarce"}, Limit: scarce, Cost: 1}}
				for _, n := range r.Perm(40)[:20] {
					asks = append(asks, weir.Ask{
						State: weir.StateKey{Rule: fmt.Sprint("rule", n%5), Key: fmt.Sprint(n)}, Limit: wide, Cost: 1, Receipt: uint64(g*1000 + i + 1),
					})
				}
				r.Shuffle(len(asks), func(i, j int) { asks[i], asks[j] = asks[j], asks[i] })
				out := make([]weir.Decision, len(asks))
				if err := store.TakeAt(1, asks, out); err != nil {
					t.Error(err)
					return
				}
				for j := range asks {
					if asks[j].Limit == scarce && out[j].Charged {
						passed.Add(1)
					}
				}
				if rc := out[r.IntN(len(out))].Receipt; rc != nil && i%3 == 0 {
					if err := store.SettleAt(1, []weir.Settlement{{Receipt: rc}}); err != nil {
						t.Error(err)
					}
				}
				if i%50 == 0 {
					if err := store.Reset(t.Context(), []weir.StateKey{asks[1].State}); err != nil && asks[1].Limit != scarce {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := passed.Load(); n < 500 {
		t.Errorf("%d passed of 500", n)
	}
}

// TestHotKey: however many goroutines ask for one key, and however fast it is, never
// more passes than its burst and what has come since; all of it, where time stands
// still or one window lasts.
func TestHotKey(t *testing.T) {
	const goroutines, each = 64, 2000
	for _, c := range []struct {
		text  string
		step  weir.Instant // of time between two takes
		most  int64
		exact bool
	}{
		{"1/h burst 1", 0, 1, true},
		{"1000/s burst 100", 0, 100, true},
		{"1000/s burst 100", 1, 100 + goroutines*each/1000, false}, // goroutines come with older times, too
		{"500000/s burst 10", 1, 10 + goroutines*each/2, false},
		{"1000/s fixed-window", 1, 1000, true},
		{"1000/s sliding-window 10", 1, 1000, true},
		{"1000/s sliding-log", 1, 1000, true},
		{"1000 concurrent ttl 1h", 1, 1000, true},
	} {
		store, limit := memstore.New(memstore.Options{}), weir.MustParseLimit(c.text)
		var passed, clock atomic.Int64
		clock.Store(3_600_000_000)
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				asks, out := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "hot"}, Limit: limit, Cost: 1}}, make([]weir.Decision, 1)
				for range each {
					if err := store.TakeAt(weir.Instant(clock.Add(int64(c.step))), asks, out); err != nil {
						t.Error(err)
					}
					if out[0].Charged {
						passed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if got := passed.Load(); got > c.most || c.exact && got < c.most {
			t.Errorf("%s: %d passed of %d", limit, got, c.most)
		}
	}
}

// flood takes once for each of n new keys, and says how many passed.
func flood(t *testing.T, store *memstore.Store, limit *weir.Limit, now weir.Instant, from, n int) (passed int) {
	t.Helper()
	asks, out := make([]weir.Ask, 1), make([]weir.Decision, 1)
	for i := from; i < from+n; i++ {
		asks[0] = weir.Ask{State: weir.StateKey{Rule: "r", Key: fmt.Sprint("flood", i)}, Limit: limit, Cost: 1}
		if err := store.TakeAt(now, asks, out); err != nil {
			t.Fatal(err)
		}
		if out[0].Charged {
			passed++
		}
	}
	return passed
}

func takeOne(t *testing.T, store *memstore.Store, limit *weir.Limit, now weir.Instant, key string, cost int64) weir.Decision {
	t.Helper()
	out := make([]weir.Decision, 1)
	asks := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: key}, Limit: limit, Cost: cost}}
	if err := store.TakeAt(now, asks, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// TestFloodForgetsNoDenial: ten times as many keys as there is room for free no
// key that is denied, and the store stays as large as it was said to be.
func TestFloodForgetsNoDenial(t *testing.T) {
	store, limit := memstore.New(memstore.Options{MaxKeys: 4096}), weir.MustParseLimit("1/h burst 1")
	takeOne(t, store, limit, 0, "attacker", 1)
	passed := flood(t, store, limit, 1, 0, 40960)
	if d := takeOne(t, store, limit, 2, "attacker", 1); d.Outcome != weir.Denied {
		t.Errorf("the flood freed the attacker: %+v", d)
	}
	st := store.Stats()
	if st.Slots > 8192 || st.Evicted != 0 || st.Overflow == 0 {
		t.Errorf("after the flood: %+v", st)
	}
	if passed > st.Slots+16 {
		t.Errorf("%d newcomers passed, there are %d slots and 16 overflow states", passed, st.Slots)
	}
	// Each that passed is denied when it comes again: nobody got through twice.
	if again := flood(t, store, limit, 3, 0, 40960); again != 0 {
		t.Errorf("%d passed twice", again)
	}
	// An hour later all states are as never used, and everybody may pass again.
	const hour = 3_600_000_000
	if d := takeOne(t, store, limit, hour+5, "attacker", 1); d.Outcome != weir.Allowed {
		t.Errorf("an hour later: %+v", d)
	}
	if passed := flood(t, store, limit, hour+5, 50000, 2000); passed != 2000 {
		t.Errorf("an hour later %d of 2000 newcomers passed", passed)
	}
}

// TestFloodForgetsTheFreshestFirst: where some keys may pass, the nearest to
// never used goes first, and a heavy user is remembered.
func TestFloodForgetsTheFreshestFirst(t *testing.T) {
	store, limit := memstore.New(memstore.Options{MaxKeys: 1024}), weir.MustParseLimit("100/h")
	for _, key := range []string{"heavy", "spent"} {
		takeOne(t, store, limit, 0, key, 90)
	}
	takeOne(t, store, limit, 0, "spent", 10)
	if passed := flood(t, store, limit, 1, 0, 50_000); passed != 50_000 {
		t.Errorf("%d of 50000 newcomers passed", passed)
	}
	if d := takeOne(t, store, limit, 2, "heavy", 20); d.Outcome != weir.Denied || d.Remaining != 10 {
		t.Errorf("the heavy user was forgotten: %+v", d)
	}
	if d := takeOne(t, store, limit, 2, "spent", 1); d.Outcome != weir.Denied {
		t.Errorf("the spent key was forgotten: %+v", d)
	}
	if st := store.Stats(); st.Evicted == 0 || st.Overflow != 0 || st.Slots > 2048 {
		t.Errorf("after the flood: %+v", st)
	}
}

// TestFloodTouchesNoOtherRule: each rule has its own room.
func TestFloodTouchesNoOtherRule(t *testing.T) {
	store, limit := memstore.New(memstore.Options{MaxKeys: 256}), weir.MustParseLimit("10/h")
	asks := []weir.Ask{{State: weir.StateKey{Rule: "quiet", Key: "k"}, Limit: limit, Cost: 1}}
	out := make([]weir.Decision, 1)
	if err := store.TakeAt(0, asks, out); err != nil {
		t.Fatal(err)
	}
	flood(t, store, limit, 1, 0, 20_000)
	if err := store.TakeAt(2, asks, out); err != nil || out[0].Remaining != 8 {
		t.Errorf("after another rule's flood: %+v, %v", out[0], err)
	}
}

// TestChangeOfLimit: a changed limit, of states of another length,
// takes over every key.
func TestChangeOfLimit(t *testing.T) {
	store := memstore.New(memstore.Options{MaxKeys: 4096})
	before := weir.MustParseLimit("10/h")
	for i := range 300 {
		takeOne(t, store, before, 0, fmt.Sprint(i), int64(1+i%10))
	}
	for _, text := range []string{"10/h sliding-log", "10/h sliding-window 6", "10/h fixed-window anchored", "10/h"} {
		limit := weir.MustParseLimit(text)
		for i := range 300 {
			if d := takeOne(t, store, limit, 0, fmt.Sprint(i), 0); d.Remaining != int64(9-i%10) {
				t.Fatalf("%s: key %d has %d remaining, want %d", text, i, d.Remaining, 9-i%10)
			}
		}
	}
	// A warm-up passes one event at once, so one is kept; permits are no events.
	for _, c := range []struct {
		text string
		want weir.Outcome
	}{{"10/h warm-up 1s", weir.Denied}, {"10 concurrent", weir.Allowed}} {
		limit := weir.MustParseLimit(c.text)
		for i := range 300 {
			if d := takeOne(t, store, limit, 0, fmt.Sprint(i), 1); d.Outcome != c.want {
				t.Fatalf("%s: key %d is %v", c.text, i, d.Outcome)
			}
		}
	}
}

func BenchmarkTake(b *testing.B) {
	for _, keys := range []int{1, 10_000, 1_000_000} {
		b.Run(fmt.Sprint(keys, "keys"), func(b *testing.B) {
			store, limit := memstore.New(memstore.Options{}), weir.MustParseLimit("100/s burst 100")
			names := make([]string, keys)
			for i := range names {
				names[i] = fmt.Sprintf("key%013d", i)
			}
			asks, out := make([]weir.Ask, 1), make([]weir.Decision, 1)
			i := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				i = i*6364136223846793005 + 1442695040888963407
				asks[0] = weir.Ask{State: weir.StateKey{Rule: "r", Key: names[i>>33%uint64(keys)]}, Limit: limit, Cost: 1}
				if err := store.Take(context.Background(), asks, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLimiter is the call of the README, of one key and of one limit or two: what it costs, and,
// with -cpuprofile, where.
func BenchmarkLimiter(b *testing.B) {
	for _, c := range []struct {
		name   string
		limits []string
	}{
		{"one-allows", []string{"1000000000/s"}},
		{"one-denies", []string{"1/day"}},
		{"two-allow", []string{"1000000000/s", "1000000000/h"}},
		{"one-of-two-denies", []string{"1/day", "1000000/h"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var limits []*weir.Limit
			for _, text := range c.limits {
				limits = append(limits, weir.MustParseLimit(text))
			}
			l, ctx := weir.NewLimiter(memstore.New(memstore.Options{}), "r", limits[0], limits[1:]...), context.Background()
			take := func() {
				if _, err := l.Take(ctx, "k", 1); err != nil {
					b.Fatal(err)
				}
			}
			for range 4 { // a denied key is remembered from its second denial on
				take()
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					take()
				}
			})
		})
	}
}
