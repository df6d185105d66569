package memstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// TestSeveralDeniedWithoutALock: a key that one of several limits denies again and again is
// denied though the locks of all its segments are held, and is told what it was told before.
func TestSeveralDeniedWithoutALock(t *testing.T) {
	s := New(Options{})
	rules := []string{"a", "b", "c"}
	limits := []*weir.Limit{weir.MustParseLimit("5/h"), weir.MustParseLimit("2/h"), weir.MustParseLimit("9/h fixed-window")}
	take := func() []weir.Decision {
		out := make([]weir.Decision, len(rules))
		if !s.takeKey(hour, "k", rules, limits, 1, out) {
			if err := s.takeAsks(hour, "k", rules, limits, 1, out); err != nil {
				t.Fatal(err)
			}
		}
		return out
	}
	for range 4 {
		take()
	}
	before := take()
	var held []*segment
	for _, rule := range rules {
		table, err := s.table(rule)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, table.lock(table.hash.print("k")))
	}
	after := take() // would wait for ever
	for _, sg := range held {
		sg.mu.Unlock()
	}
	if after[1].Outcome != weir.Denied || after[0].Outcome != weir.Allowed || after[0].Remaining != 3 {
		t.Errorf("%+v, want a denial by the second limit, and 3 that remain of the first", after)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("with and without the locks differ:\n%s", diff)
	}
}

// TestCopiesOfOneMoment: what was read of copies says nothing once one of them has changed,
// even if it denies again.
func TestCopiesOfOneMoment(t *testing.T) {
	s, limit := New(Options{}), weir.MustParseLimit("2/h")
	take := func(rules ...string) {
		asks, out := make([]weir.Ask, len(rules)), make([]weir.Decision, len(rules))
		for i, rule := range rules {
			asks[i] = weir.Ask{State: weir.StateKey{Rule: rule, Key: "k"}, Limit: limit, Cost: 1}
		}
		if err := s.TakeAt(hour, asks, out); err != nil {
			t.Fatal(err)
		}
	}
	for range 4 {
		take("a", "b")
	}
	parts := make([]part, 2)
	if !s.partsOf(parts, "k", []string{"a", "b"}, []*weir.Limit{limit, limit}, 1) {
		t.Fatal("no parts")
	}
	for i := range parts {
		parts[i].copy = parts[i].table.segment(parts[i].print).denied.Load().of(parts[i].print)
	}
	if !copyFew(parts) || !sameFew(parts) {
		t.Fatal("the copies say nothing")
	}
	if err := s.ResetAt(hour, []weir.StateKey{{Rule: "b", Key: "k"}}); err != nil {
		t.Fatal(err)
	}
	old := slices.Clone(parts)
	if sameFew(old) || copyFew(parts) {
		t.Error("a copy is good though its key was reset")
	}
	for range 5 {
		take("b")
	}
	if sameFew(old) {
		t.Error("a copy that was read before a reset is good after it")
	}
	if !copyFew(parts) || !sameFew(parts) {
		t.Error("the copies say nothing, though the key is denied again")
	}
}

// TestFewTellsNothingUnasked: a take that passes, of keys that were denied until now, tells nothing of
// the states that it has read before it took the lock.
func TestFewTellsNothingUnasked(t *testing.T) {
	s, limit := New(Options{}), weir.MustParseLimit("2/h")
	var seen [2]weir.Evidence
	asks := []weir.Ask{
		{State: weir.StateKey{Rule: "a", Key: "k"}, Limit: limit, Cost: 1, Evidence: &seen[0]},
		{State: weir.StateKey{Rule: "b", Key: "k"}, Limit: limit, Cost: 1, Evidence: &seen[1]},
	}
	out := make([]weir.Decision, 2)
	for range 5 {
		if err := s.TakeAt(hour, asks, out); err != nil {
			t.Fatal(err)
		}
	}
	if !seen[0].Told || !seen[1].Told || out[0].Outcome != weir.Denied {
		t.Fatalf("%+v and %+v of a denial", out, seen)
	}
	seen = [2]weir.Evidence{}
	if err := s.TakeAt(2*hour, asks, out); err != nil {
		t.Fatal(err)
	}
	if out[0].Outcome != weir.Allowed || seen[0].Told || seen[1].Told {
		t.Errorf("%+v, and unasked %+v", out, seen)
	}
}

// TestFewRefused: the fast way of several asks leaves to the slow one what only that can
// say: that two asks name one state, and what is used of a limit that has changed.
func TestFewRefused(t *testing.T) {
	fast, slow := New(Options{}), New(Options{})
	limits := []*weir.Limit{weir.MustParseLimit("9/h"), weir.MustParseLimit("9/h fixed-window")}
	for i := range 20 {
		asks := []weir.Ask{
			{State: weir.StateKey{Rule: "a", Key: "k"}, Limit: limits[i/3%2], Cost: 1},
			{State: weir.StateKey{Rule: "b", Key: "k"}, Limit: limits[0], Cost: 1},
		}
		got, want := make([]weir.Decision, 2), make([]weir.Decision, 2)
		if err := fast.TakeAt(10*hour, asks, got); err != nil {
			t.Fatal(err)
		}
		asks[0].Evidence = &weir.Evidence{Always: true}
		if err := slow.TakeAt(10*hour, asks, want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("take %d:\n%s", i, diff)
		}
	}
	ask := weir.Ask{State: weir.StateKey{Rule: "b", Key: "k"}, Limit: limits[0], Cost: 1}
	if err := fast.TakeAt(10*hour, []weir.Ask{ask, ask}, make([]weir.Decision, 2)); err == nil {
		t.Error("two asks of one state were decided")
	}
}

// TestFew draws takes of one to four states, with all that may change them in between, and
// holds each decision, and the evidence of it, to what the limits say of the states.
func TestFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := []string{"5/h", "3/h fixed-window", "4/h", "3/h leaky-queue queue 1", "4/h fixed-window count-denied", "4/h sliding-window", "3/h sliding-log"}
		s, states, now := New(Options{}), map[weir.StateKey]weir.State{}, 10*hour
		limits := map[string]*weir.Limit{}
		for i, text := range rapid.Permutation(texts).Draw(t, "limits")[:4] {
			limits[fmt.Sprint("rule", i)] = weir.MustParseLimit(text)
		}
		draw := rapid.Custom(func(t *rapid.T) weir.Ask {
			rule := fmt.Sprint("rule", rapid.IntRange(0, 3).Draw(t, "rule"))
			return weir.Ask{
				State: weir.StateKey{Rule: rule, Key: rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "key")},
				Limit: limits[rule], Cost: rapid.SampledFrom([]int64{1, 1, 1, 2, 0, 6}).Draw(t, "cost"),
			}
		})
		take := func(asks []weir.Ask) {
			want, got := make([]weir.Decision, len(asks)), make([]weir.Decision, len(asks))
			for i := range asks {
				want[i] = asks[i].Limit.Decide(states[asks[i].State], now, &asks[i])
			}
			told := weir.WantsEvidence(asks, weir.Resolve(asks, want))
			for i := range asks {
				a := &asks[i]
				before := slices.Clone(states[a.State])
				states[a.State] = a.Limit.Commit(states[a.State], now, a, &want[i])
				asks[i].Evidence.Clear()
				defer func() {
					if e := a.Evidence; told && e != nil && (!e.Told || e.At != now || !alike(e.State, before)) {
						t.Fatalf("the evidence of %v is %+v, want %v", a.State, e, before)
					}
				}()
			}
			if err := s.TakeAt(now, asks, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%v by %v and others:\n%s", asks[0].State, asks[0].Limit, diff)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				asks := rapid.SliceOfNDistinct(draw, 1, 4, func(a weir.Ask) weir.StateKey { return a.State }).Draw(t, "asks")
				if rapid.Bool().Draw(t, "evidence") {
					for i := range asks {
						asks[i].Evidence = &weir.Evidence{}
					}
				}
				for range 4 { // the last times by copies, if it is denied
					take(asks)
				}
			},
			"peek":  func(t *rapid.T) { a := draw.Draw(t, "ask"); a.Peek = true; take([]weir.Ask{a}) },
			"after": func(t *rapid.T) { a := draw.Draw(t, "ask"); a.After = true; take([]weir.Ask{a}) },
			"reset": func(t *rapid.T) {
				k := draw.Draw(t, "ask").State
				if err := s.ResetAt(now, []weir.StateKey{k}); err != nil {
					t.Fatal(err)
				}
				delete(states, k)
			},
			"on": func(t *rapid.T) { now += weir.Instant(rapid.Int64Range(0, int64(hour)/2).Draw(t, "by")) },
		})
	})
}

// alike is whether two states are the same, where one of zeros is as none.
func alike(a, b weir.State) bool {
	n := max(len(a), len(b))
	return slices.Equal(append(slices.Clone(a), make(weir.State, n-len(a))...), append(slices.Clone(b), make(weir.State, n-len(b))...))
}

// TestFewNewcomer: a take of a known key and of a newcomer that finds no slot after all charges neither,
// on its fast way; and one whose newcomer finds one charges both.
func TestFewNewcomer(t *testing.T) {
	s := New(Options{MaxKeys: 1})
	s.bound.slots = 5 // one bucket
	rules, limits := []string{"known", "new"}, []*weir.Limit{weir.MustParseLimit("9/h"), weir.MustParseLimit("1/h")}
	take := func(rule int, key string) weir.Decision {
		asks := []weir.Ask{{State: weir.StateKey{Rule: rules[rule], Key: key}, Limit: limits[rule], Cost: 1}}
		out := make([]weir.Decision, 1)
		if err := s.TakeAt(hour, asks, out); err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	take(0, "k")
	for i := range 6 { // each is denied from now on
		out := make([]weir.Decision, 2)
		parts := make([]part, 2)
		if !s.partsOf(parts, "k", rules, limits, 1) || !orderFew(parts) {
			t.Fatal("no parts")
		}
		for j := range parts {
			parts[j].segment = parts[j].table.segment(parts[j].print)
			parts[j].segment.mu.Lock()
		}
		parts[1].print += uint64(i) << 3 // another newcomer each time
		found := findFew(parts, hour)
		if !found { // no room is foreseen; go on as if it were
			parts[0].slot, parts[1].slot = parts[0].segment.cells.find(parts[0].print)+1, -1
		}
		charged := chargeFew(parts, hour, out)
		unlockFew(parts)
		if room := i < 5; found != room || charged != room {
			t.Fatalf("newcomer %d was found: %v, and charged: %v", i, found, charged)
		}
	}
	if left := take(0, "k").Remaining; left != 9-7 {
		t.Errorf("%d remain of 9 after 7 takes", left)
	}
}

// TestFewForNothing: takes of several limits that cost nothing push no key out of a full table, and make
// no receipt expire.
func TestFewForNothing(t *testing.T) {
	s := New(Options{MaxKeys: 1})
	limit := weir.MustParseLimit("9/h")
	take := func(key string, cost int64) {
		var asks []weir.Ask
		for _, rule := range []string{"a", "b"} {
			asks = append(asks, weir.Ask{State: weir.StateKey{Rule: rule, Key: key}, Limit: limit, Cost: cost})
		}
		if err := s.TakeAt(hour, asks, make([]weir.Decision, len(asks))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 15 {
		take(fmt.Sprint("used", i), 5)
	}
	before := s.Stats().Evicted
	for i := range 1000 {
		take(fmt.Sprint("free", i), 0)
	}
	if after := s.Stats().Evicted; after != before {
		t.Errorf("%d keys were pushed out", after-before)
	}
	out := make([]weir.Decision, 2)
	if err := s.TakeAll(t.Context(), "new", []string{"a", "b"}, []*weir.Limit{limit, limit}, -1, out); err == nil {
		t.Error("a cost of -1 was decided")
	}
}

// TestTakeAll: a limiter answers the same whether its store takes asks or none.
func TestTakeAll(t *testing.T) {
	for _, texts := range [][]string{
		{"3/min", "5/h"},
		{"5/h", "3/min"},
		{"3/min fixed-window", "2/s", "7/h"},
		{"3/min", "4/h leaky-queue queue 2"},
		{"3/min sliding-log", "20/h", "30/day", "5/min count-denied fixed-window"},
		{"9/s", "9/min", "19/h", "29/day", "3/min fixed-window"},
		{"3/min", "3/min", "5/min"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var limits []*weir.Limit
			for _, text := range texts {
				limits = append(limits, weir.MustParseLimit(text))
			}
			with := weir.NewLimiter(New(Options{}), "r", limits[0], limits[1:]...)
			without := weir.NewLimiter(struct{ weir.Store }{New(Options{})}, "r", limits[0], limits[1:]...)
			r := rand.New(rand.NewPCG(1, uint64(len(texts))))
			for range 300 {
				key, cost := fmt.Sprint(r.IntN(2)), r.Int64N(4)
				got, err := with.Take(t.Context(), key, cost)
				if err != nil {
					t.Fatal(err)
				}
				want, err := without.Take(t.Context(), key, cost)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%q: %d of %s:\n%s", texts, cost, key, diff)
				}
				if r.IntN(3) == 0 {
					time.Sleep(time.Duration(r.IntN(20)) * time.Second)
				}
			}
		})
	}
}

// TestFewTogether: goroutines that take two to four states in any order, while others take the
// slow way and segments split, all end; of each key passes its limit, and all or nothing.
func TestFewTogether(t *testing.T) {
	const keys, goroutines, takes = 6, 8, 3000
	s, limit := New(Options{}), weir.MustParseLimit("500/day")
	s.bound.early = 8 // segments split soon
	name := func(k int) weir.StateKey { return weir.StateKey{Rule: fmt.Sprint("rule", k%3), Key: fmt.Sprint(k)} }
	var passed [keys]atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range takes {
				var asks []weir.Ask
				for _, k := range r.Perm(keys)[:2+r.IntN(3)] {
					asks = append(asks, weir.Ask{State: name(k), Limit: limit, Cost: 1})
				}
				if i%8 == 0 {
					asks = append(asks, weir.Ask{State: weir.StateKey{Rule: "rule1", Key: fmt.Sprint(g, i)}, Limit: limit, Cost: 1})
				}
				out := make([]weir.Decision, len(asks))
				if err := s.TakeAt(hour, asks, out); err != nil {
					t.Error(err)
					return
				}
				all := !slices.ContainsFunc(out, func(d weir.Decision) bool { return d.Outcome != weir.Allowed })
				for j := range out {
					if out[j].Charged != all {
						t.Errorf("%v is charged: %v; all allow: %v", asks[j].State, out[j].Charged, all)
					}
					for k := range keys {
						if out[j].Charged && asks[j].State == name(k) {
							passed[k].Add(1)
						}
					}
				}
			}
		})
	}
	wg.Wait()
	full := 0
	for k := range keys {
		asks, out := []weir.Ask{{State: name(k), Limit: limit, Cost: 1, Peek: true}}, make([]weir.Decision, 1)
		if err := s.TakeAt(hour, asks, out); err != nil {
			t.Fatal(err)
		}
		if n := passed[k].Load(); n+out[0].Remaining != 500 {
			t.Errorf("%v: %d passed and %d remain of 500", name(k), n, out[0].Remaining)
		}
		if out[0].Remaining == 0 {
			full++
		}
	}
	if full < keys-2 { // at least two must be free for another take to pass
		t.Errorf("%d of %d keys are used up", full, keys)
	}
}
