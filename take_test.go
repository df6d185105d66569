package weir_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// TestTakeIsDecideResolveCommit: for an ask of nothing but a cost, Take gives to
// the letter what the three steps give, and keeps the same state.
func TestTakeIsDecideResolveCommit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := makeLimit(t, drawSpec(t))
		c := newClock(t, l.Spec())
		var slow, fast weir.State
		if w := l.Words(); w > 0 {
			slow, fast = make(weir.State, w), make(weir.State, w)
		}
		for step := range rapid.IntRange(1, 20).Draw(t, "asks") {
			now, cost := c.step(t), drawCost(t, l.Spec())
			if rapid.IntRange(0, 2).Draw(t, "one") == 0 {
				cost = 1
			}
			if step > 3 && rapid.IntRange(0, 5).Draw(t, "with debt or given back") == 0 {
				// A state that others have left their marks in.
				slow, _ = take(l, slow, now, weir.Ask{Cost: cost, After: true})
				fast = slices.Clone(slow)
				continue
			}
			var want, got weir.Decision
			slow, want = take(l, slow, now, weir.Ask{Cost: cost})
			got = weir.Decision{Hold: 7, Remaining: 7, NextAfter: 7}
			checkPeek(t, l, fast, now, cost)
			fast = l.Take(fast, now, cost, &got)
			if diff := cmp.Diff(want, got); diff != "" || !slices.Equal(slow, fast) {
				t.Fatalf("%s, %d at %d: %v -> %v, %s", l, cost, now, slow, fast, diff)
			}
			if a, b := l.Fresh(slow, now), l.FreshAfter(slow, now) == 0; a != b {
				t.Fatalf("%s: fresh is %v, after 0 is %v", l, a, b)
			}
		}
	})
}

// checkPeek holds Peek to what an ask with Peek is answered. It may not know the state; what
// it knows, a denied ask leaves as it is.
func checkPeek(t *rapid.T, l *weir.Limit, s weir.State, now weir.Instant, cost int64) {
	if len(s) != 2 {
		return
	}
	got := weir.Decision{Charged: true, Hold: 7, NextAfter: 7}
	if !l.Peek([2]uint64(s), now, cost, &got) {
		return
	}
	if _, want := take(l, slices.Clone(s), now, weir.Ask{Cost: cost, Peek: true}); !cmp.Equal(want, got) {
		t.Fatalf("%s, %d at %d: a peek says\n%s", l, cost, now, cmp.Diff(want, got))
	}
	if after, d := take(l, slices.Clone(s), now, weir.Ask{Cost: cost}); d.Outcome != weir.Allowed && !slices.Equal(s, after) {
		t.Fatalf("%s, %d at %d: a denial leaves %v of %v, and Peek knew it", l, cost, now, after, s)
	}
}

// TestChargeIsDecideResolveCommit: what has passed already is charged as an ask After of it
// is, to the letter: to a state by its limit, and to a count of several.
func TestChargeIsDecideResolveCommit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, l := makeLimit(t, drawSpec(t)), makeLimit(t, drawSpec(t))
		c := newClock(t, l.Spec())
		k := weir.Kept{Limit: before, State: before.Charge(nil, c.now, drawCost(t, before.Spec()))}
		k.Become(l, c.now, 0)
		var want, got weir.State
		for range rapid.IntRange(1, 10).Draw(t, "charges") {
			now, events := c.step(t), drawCost(t, l.Spec())
			if rapid.IntRange(0, 3).Draw(t, "far too much") == 0 {
				events = wide(t, 0, weir.MaxCost, "events")
			}
			a := weir.Ask{Limit: l, Cost: events, After: true}
			want, _ = take(l, want, now, a)
			if got = l.Charge(got, now, events); !slices.Equal(want, got) {
				t.Fatalf("%s: %d at %d: %v, want %v", l, events, now, got, want)
			}
			asked, out := k.Clone(), []weir.Decision{k.Decide(now, &a)}
			weir.Resolve([]weir.Ask{a}, out)
			asked.Commit(now, &a, &out[0])
			if k.Charge(now, events); !cmp.Equal(asked, k, cmp.Comparer(func(a, b *weir.Limit) bool { return a == b })) {
				t.Fatalf("%s after %s: %d at %d: %v, want %v", l, before, events, now, k, asked)
			}
		}
	})
}

// TestGrantedTogether: a take of limits that take what fits passes exactly when one
// number satisfies all of them, and the largest such number is charged to each.
func TestGrantedTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		asks := make([]weir.Ask, rapid.IntRange(1, 3).Draw(t, "limits"))
		out, states := make([]weir.Decision, len(asks)), make([]weir.State, len(asks))
		for i := range asks {
			l := makeLimit(t, small(t, drawBucket(t)))
			states[i], _ = take(l, nil, 0, weir.Ask{Cost: rapid.Int64Range(0, 12).Draw(t, "used")})
			cost := rapid.Int64Range(1, 12).Draw(t, "cost")
			asks[i] = weir.Ask{Limit: l, Cost: cost, AtLeast: rapid.Int64Range(1, cost).Draw(t, "at least")}
			out[i] = l.Decide(states[i], 0, &asks[i])
		}
		want := int64(0)
		for n := int64(12); n > 0 && want == 0; n-- {
			fits := true
			for i := range asks {
				alone := weir.Ask{Cost: n}
				fits = fits && n >= asks[i].AtLeast && n <= asks[i].Cost && asks[i].Limit.Decide(states[i], 0, &alone).Outcome == weir.Allowed
			}
			if fits {
				want = n
			}
		}
		pass := weir.Resolve(asks, out)
		all := true
		for i := range out {
			all = all && out[i].Outcome == weir.Allowed
			if out[i].Charged != pass || pass && out[i].Cost != want {
				t.Fatalf("%+v: %+v, want %d of each", asks, out, want)
			}
		}
		if pass != (want > 0) || pass != all {
			t.Fatalf("%+v: it passes: %v, %+v, want %d of each", asks, pass, out, want)
		}
	})
}
