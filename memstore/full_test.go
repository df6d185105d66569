package memstore_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// fullLimits are of every algorithm and with everything that leaves a trace of a
// denial. A key that has used them up stays denied for as long as the test lasts.
var fullLimits = [...]string{
	"4/h sliding-log count-denied", "4/h sliding-log", "4/h sliding-window count-denied", "4/h sliding-window 4",
	"4/day fixed-window count-denied", "4/day fixed-window anchored", "4/h", "4/h burst 3 debt 2", "4/h initial 2",
	"4/h strict burst 2", "4/h leaky-queue", "4 concurrent ttl 1h", "4/h warm-up 1min",
}

// full is a random run on a table in which there is no room.
type full struct {
	t      *rapid.T
	store  *memstore.Store
	limits map[string]*weir.Limit
	exact  bool // all others are denied, so that nobody's use is forgotten
	now    weir.Instant
	id     uint64
	made   map[weir.StateKey]bool
	states map[weir.StateKey]weir.State // what the store said that it charged
}

// TestFullTable: in tables that are full of keys that are denied, or of such and
// others, every take of several keys of several rules, asked in every way, is
// decided: charged as a whole or not at all, and nobody passes who has used up
// what a key may use by itself.
func TestFullTable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := &full{
			t: rt, store: memstore.New(memstore.Options{MaxKeys: rapid.SampledFrom([]int{1, 12, 40}).Draw(rt, "room")}),
			limits: map[string]*weir.Limit{}, exact: rapid.Bool().Draw(rt, "all denied"), now: 1_800_000_000_000_000,
			made: map[weir.StateKey]bool{}, states: map[weir.StateKey]weir.State{},
		}
		for _, rule := range []string{"a", "b"} {
			f.limits[rule] = weir.MustParseLimit(rapid.SampledFrom(fullLimits[:]).Draw(rt, "limit"))
			f.fill(rule)
		}
		for range rapid.IntRange(1, 30).Draw(rt, "takes") {
			f.now += weir.Instant(rapid.Int64Range(0, 1000).Draw(rt, "step"))
			f.take()
		}
	})
}

// fill takes for new keys, of each all it may have, or of some less, until none
// finds room, and so many share what is left.
func (f *full) fill(rule string) {
	limit, before := f.limits[rule], f.store.Stats()
	share := rapid.Int64Range(0, 6).Draw(f.t, "share")
	for n := range 200 {
		asks, out := make([]weir.Ask, 1), make([]weir.Decision, 1)
		for range 6 {
			if st := f.store.Stats(); st.Overflow-before.Overflow >= share && n > 0 && share > 0 {
				return
			}
			asks[0] = weir.Ask{State: weir.StateKey{Rule: rule, Key: fmt.Sprint("other", n)}, Limit: limit, Cost: 1}
			if err := f.store.TakeAt(f.now, asks, out); err != nil {
				f.t.Fatal(err)
			}
			if out[0].Outcome != weir.Allowed || !f.exact && n%3 == 0 {
				break
			}
		}
	}
}

func (f *full) take() {
	var asks []weir.Ask
	f.id++
	once, several := f.rarely("once"), rapid.IntRange(1, 5).Draw(f.t, "asks")
	receipt := rapid.Bool().Draw(f.t, "receipt") || once
	keys := rapid.SliceOfNDistinct(rapid.IntRange(0, 19), several, several, rapid.ID).Draw(f.t, "keys")
	for _, k := range keys {
		rule := string("ab"[k%2])
		a := weir.Ask{
			State: weir.StateKey{Rule: rule, Key: fmt.Sprint("key", k)}, Limit: f.limits[rule],
			Cost: rapid.Int64Range(0, 4).Draw(f.t, "cost"),
			Peek: f.rarely("peek"), Shadow: f.rarely("shadow"), Quota: f.rarely("quota"), After: f.rarely("after"),
		}
		if a.Cost > 1 && f.rarely("up to") {
			a.AtLeast = 1
		}
		if receipt {
			a.Receipt, a.Once = f.id, once
		}
		asks = append(asks, a)
	}
	before := f.store.Stats()
	out := make([]weir.Decision, len(asks))
	if err := f.store.TakeAt(f.now, asks, out); err != nil {
		f.t.Fatal(err)
	}
	f.judge(asks, out, f.exact && before.Evicted == 0)
	again := make([]weir.Decision, len(asks))
	if once && out[0].Charged && !asks[0].Peek {
		if err := f.store.TakeAt(f.now, asks, again); err != nil || fmt.Sprint(again) != fmt.Sprint(out) {
			f.t.Fatalf("once more: %+v, %v; at first %+v", again, err, out)
		}
	}
}

func (f *full) rarely(what string) bool { return rapid.IntRange(0, 5).Draw(f.t, what) == 5 }

// judge says what is wrong with the answers to asks. What was charged to each key
// must have been its own to spend, if nothing of its use was forgotten.
func (f *full) judge(asks []weir.Ask, out []weir.Decision, exact bool) {
	passes := weir.QuotaPasses(asks, out)
	for i := range asks {
		passes = passes && (asks[i].Shadow || asks[i].Quota || out[i].Outcome == weir.Allowed)
	}
	for i := range asks {
		a, d := &asks[i], &out[i]
		if charged := !a.Peek && d.Cost > 0 && (a.After || passes && d.Outcome == weir.Allowed); d.Charged != charged {
			f.t.Fatalf("not all or nothing: %+v: %+v of %+v", *a, *d, out)
		}
		if d.RetryAfter < 0 || d.Remaining < 0 || d.Remaining > 6 || d.ResetAfter < 0 {
			f.t.Fatalf("%+v of %s: %+v", *a, a.Limit, *d)
		}
		if !d.Charged {
			continue
		}
		own := *a
		own.AtLeast, own.Cost = 0, d.Cost
		if alone := a.Limit.Decide(f.states[a.State], f.now, &own); exact && !a.After && alone.Outcome != weir.Allowed {
			f.t.Fatalf("at %d, %+v of %s passes: %+v; it alone has used %v", f.now, *a, a.Limit, *d, f.states[a.State])
		}
		charged := weir.Decision{Outcome: d.Outcome, Cost: d.Cost, Charged: true}
		f.states[a.State] = a.Limit.Commit(f.states[a.State], f.now, &own, &charged)
	}
}
