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
