package weir_test

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// used drives a limit to a state, and returns it with an instant at or after
// the last ask.
func used(t *rapid.T, l *weir.Limit) (weir.State, weir.Instant) {
	c := newClock(t, l.Spec())
	var s weir.State
	for range rapid.IntRange(0, 20).Draw(t, "asks") {
		var d weir.Decision
		s, d = take(l, s, c.step(t), weir.Ask{Cost: drawCost(t, l.Spec()), Receipt: 1})
		if d.Charged && rapid.IntRange(0, 7).Draw(t, "owes") == 0 {
			st := weir.Settlement{Receipt: d.Receipt, Used: wide(t, d.Cost, weir.MaxCost, "used")}
			s, _ = l.Settle(s, c.now, 0, &st) // an expired permit is one, too
		}
	}
	return s, c.now
}

// TestRetryAfterIsExact: alone, asking again after RetryAfter is allowed, and a
// microsecond earlier it is not.
func TestRetryAfterIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := makeLimit(t, drawSpec(t))
		s, now := used(t, l)
		a := weir.Ask{Cost: drawCost(t, l.Spec())}
		if rapid.Bool().Draw(t, "ready to be held") {
			a.MaxHold = time.Duration(wide(t, 1, scale(l.Spec()), "hold")) * time.Microsecond
		}
		s, d := take(l, s, now, a)
		if d.Outcome != weir.Denied {
			return
		}
		if d.RetryAfter <= 0 {
			if l.Spec().Algorithm != weir.Concurrent {
				t.Fatalf("%s: denied without a retry time", l)
			}
			return
		}
		at := now + weir.Instant(d.RetryAfter/time.Microsecond)
		if d := l.Decide(s, at, &a); d.Outcome != weir.Allowed {
			t.Fatalf("%s at %d: retry after %v, but then it is %+v", l, now, d.RetryAfter, d)
		}
		if early := l.Decide(s, at-1, &a); early.Outcome == weir.Allowed && at-1 >= now {
			t.Fatalf("%s at %d: %+v is allowed before RetryAfter %v", l, now, a, d.RetryAfter)
		}
	})
}

// TestResetAfterIsExact: then the state is as never used, and not before.
func TestResetAfterIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := makeLimit(t, drawSpec(t))
		s, now := used(t, l)
		_, d := take(l, slices.Clone(s), now, weir.Ask{Cost: 1, Peek: true})
		at := now + weir.Instant(d.ResetAfter/time.Microsecond)
		if !l.Fresh(s, at) {
			t.Fatalf("%s at %d: not as never used after %v", l, now, d.ResetAfter)
		}
		if d.ResetAfter > 0 && l.Fresh(s, at-1) {
			t.Fatalf("%s at %d: as never used before %v", l, now, d.ResetAfter)
		}
		// As never used means: it decides like nothing at all.
		for _, cost := range []int64{0, 1, drawCost(t, l.Spec())} {
			a := weir.Ask{Cost: cost}
			if got, want := l.Decide(s, at, &a), l.Decide(nil, at, &a); got != want {
				t.Fatalf("%s at %d: a fresh state says %+v, no state %+v", l, at, got, want)
			}
		}
	})
}

// TestRemainingIsExact: so many events pass one by one, and no more.
func TestRemainingIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		spec.CountDenied = false
		l := makeLimit(t, spec)
		s, now := used(t, l)
		remaining, _ := l.Standing(s, now)
		if remaining > 500 && spec.Mode != weir.Relaxed && spec.Algorithm != weir.Concurrent {
			// Too many to take one by one: all but the last few in one go.
			s, _ = take(l, s, now, weir.Ask{Cost: remaining - 5})
			remaining = 5
		}
		if remaining > 500 {
			return
		}
		for i := range remaining {
			var d weir.Decision
			if s, d = take(l, s, now, weir.Ask{Cost: 1}); d.Outcome != weir.Allowed {
				t.Fatalf("%s at %d: event %d of %d remaining is %v", l, now, i+1, remaining, d.Outcome)
			}
		}
		if _, d := take(l, s, now, weir.Ask{Cost: 1}); d.Outcome == weir.Allowed {
			t.Fatalf("%s at %d: more than the %d remaining pass", l, now, remaining)
		}
	})
}

// passed is what went when.
type passed struct{ at, cost int64 }

// TestBound: no interval of any width passes more than Bound says.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Small numbers, so that events crowd the edges.
		spec := drawSpec(t)
		if spec.Algorithm == weir.Concurrent || spec.Calendar != weir.NoCalendar {
			return
		}
		spec = small(t, spec)
		l := makeLimit(t, spec)
		largest := rapid.Int64Range(1, 3).Draw(t, "largest cost")
		now, s := weir.Instant(rapid.Int64Range(0, 1000).Draw(t, "start")), weir.State(nil)
		var went []passed
		for range rapid.IntRange(10, 150).Draw(t, "asks") {
			now += weir.Instant(rapid.SampledFrom([]int64{0, 0, 1, 2, scale(spec) / 3, scale(spec) - 1}).Draw(t, "step"))
			var d weir.Decision
			a := weir.Ask{Cost: rapid.Int64Range(1, largest).Draw(t, "cost")}
			if s, d = take(l, s, now, a); d.Charged {
				went = append(went, passed{int64(now) + d.Hold.Microseconds(), a.Cost})
			}
		}
		for _, width := range []int64{1, 2, scale(spec) / 2, scale(spec), scale(spec) + 1, 2*scale(spec) + 1} {
			if width > 0 {
				checkBound(t, l, went, width, largest)
			}
		}
	})
}

// TestDropped: a store that drops a count lets pass no more, in any interval, than
// what a key never used passes at once.
func TestDropped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		if spec.Algorithm == weir.Concurrent || spec.Calendar != weir.NoCalendar {
			return
		}
		spec = small(t, spec)
		l := makeLimit(t, spec)
		now, s := weir.Instant(rapid.Int64Range(0, 1000).Draw(t, "start")), weir.State(nil)
		var went []int64
		asks := rapid.IntRange(10, 150).Draw(t, "asks")
		drop := rapid.IntRange(0, asks-1).Draw(t, "drop")
		for n := range asks {
			now += weir.Instant(rapid.SampledFrom([]int64{0, 0, 1, 2, scale(spec) / 3, scale(spec) - 1}).Draw(t, "step"))
			if n == drop {
				s = nil
			}
			var d weir.Decision
			if s, d = take(l, s, now, weir.Ask{Cost: 1}); d.Charged {
				went = append(went, int64(now)+d.Hold.Microseconds())
			}
		}
		slices.Sort(went)
		anew, _ := l.Standing(nil, now)
		for i := range went {
			for j := i; j < len(went); j++ {
				width := time.Duration(went[j]-went[i]+1) * time.Microsecond
				if most := l.Bound(width, 1) + anew; int64(j-i+1) > most {
					t.Fatalf("%s: %d passed in %v around a drop, the bound is %d", l, j-i+1, width, most)
				}
			}
		}
	})
}

// small makes a drawn limit one that a few asks can bring to its edge.
func small(t *rapid.T, s weir.Spec) weir.Spec {
	s.Count = rapid.Int64Range(1, 12).Draw(t, "small count")
	s.Period = time.Duration(rapid.Int64Range(1, 60).Draw(t, "small period")*max(s.SubWindows, 1)) * time.Microsecond
	switch {
	case s.Algorithm <= weir.LeakyBucket:
		s.Debt, s.Initial = rapid.Int64Range(0, 3).Draw(t, "small debt"), nil
		if s.Mode == weir.Strict {
			s.Debt = 0
		}
		s.Burst = rapid.Int64Range(1, s.Count).Draw(t, "small burst")
	case s.Algorithm == weir.LeakyQueue:
		s.Queue = new(rapid.Int64Range(0, 5).Draw(t, "small queue"))
	case s.Algorithm == weir.WarmUp:
		s.WarmUp = time.Duration(rapid.Int64Range(1, 100).Draw(t, "small warm-up")) * time.Microsecond
	}
	return s
}

func checkBound(t *rapid.T, l *weir.Limit, went []passed, width, largest int64) {
	bound := l.Bound(time.Duration(width)*time.Microsecond, largest)
	for i := range went {
		total := int64(0)
		for _, e := range went[i:] {
			if e.at < went[i].at+width {
				total += e.cost
			}
		}
		if total > bound {
			t.Fatalf("%s: %d passed within %d µs from %d on, the bound is %d", l, total, width, went[i].at, bound)
		}
	}
}

// TestBoundIsReached: for the limits whose bound is said to be tight, some
// traffic reaches it.
func TestBoundIsReached(t *testing.T) {
	type event struct{ at, n int64 }
	for text, traffic := range map[string][]event{
		"5/10s":                               {{0, 5}, {2_000_000, 1}, {4_000_000, 1}, {6_000_000, 1}, {8_000_000, 1}},
		"5/10s burst 2 strict":                {{0, 2}, {2_500_000, 1}, {5_000_000, 1}, {7_500_000, 1}},
		"5/10s fixed-window":                  {{9_000_000, 5}, {10_000_000, 5}},
		"5/10s fixed-window anchored":         {{0, 1}, {9_000_000, 4}, {10_000_000, 5}},
		"5/10s sliding-log":                   {{0, 5}},
		"5/10s sliding-window":                {{9_999_999, 5}, {11_999_999, 0}, {12_000_000, 1}, {14_000_000, 1}, {16_000_000, 1}, {18_000_000, 1}},
		"5/10s sliding-window 2 conservative": {{0, 5}},
		"5/10s leaky-queue":                   {{0, 5}},
	} {
		l := weir.MustParseLimit(text)
		var s weir.State
		var d weir.Decision
		most := int64(0)
		for i, e := range traffic {
			if s, d = take(l, s, weir.Instant(e.at), weir.Ask{Cost: e.n}); d.Outcome != weir.Allowed {
				t.Errorf("%s: %d at %d is %v", text, e.n, e.at, d.Outcome)
			}
			total := int64(0)
			for _, before := range traffic[:i+1] {
				if before.at > e.at-10_000_000 {
					total += before.n
				}
			}
			most = max(most, total)
		}
		if bound := l.Bound(10*time.Second, 1); most != bound {
			t.Errorf("%s: %d passed in a period, the bound is %d", text, most, bound)
		}
	}
}

// TestNoDrift: after ten million events the last is where arithmetic puts it.
func TestNoDrift(t *testing.T) {
	for _, text := range []string{
		"999983/day burst 2", "7/us burst 7", "999983/day leaky-queue queue 1", "999983/day warm-up 1us", "1000000000/s burst 1000",
	} {
		t.Run(text, func(t *testing.T) {
			l := weir.MustParseLimit(text)
			const events = 10_000_000
			var s weir.State
			var now weir.Instant
			var d weir.Decision
			ask := weir.Ask{Cost: 1, MaxHold: time.Second}
			if l.Spec().Burst > 0 {
				ask.MaxHold = 0
			}
			for n := 0; n < events; {
				if s, d = take(l, s, now, ask); d.Charged {
					n++
				} else {
					now += weir.Instant(d.RetryAfter / time.Microsecond)
				}
			}
			// The burst came for nothing; each event after it took its interval, and
			// the last one at most a microsecond to be asked for.
			spec := l.Spec()
			paid := big.NewRat(events-max(spec.Burst, 1), 1)
			need := paid.Mul(paid, big.NewRat(spec.Period.Microseconds(), spec.Count))
			over := new(big.Rat).Sub(big.NewRat(int64(now)+d.Hold.Microseconds(), 1), need)
			if over.Sign() < 0 || over.Cmp(big.NewRat(2, 1)) > 0 {
				t.Errorf("%d events passed by %d µs, they need %s", events, now, need.FloatString(3))
			}
		})
	}
}
