package weir_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// TestRefund gives back more than is used, without a receipt: no more comes back
// than that, and it can be used again.
func TestRefund(t *testing.T) {
	for _, text := range []string{
		"10/min", "10/min strict burst 4", "10/min leaky-queue", "10/min fixed-window", "10/min fixed-window anchored", "10/day fixed-window",
		"10/min sliding-log", "10/min sliding-window", "10/min sliding-window 6 conservative", "10/min sliding-window count-denied",
	} {
		l := weir.MustParseLimit(text)
		now := weir.InstantOf(time.Date(2026, 11, 23, 7, 30, 1, 0, time.UTC))
		var s weir.State
		var d weir.Decision
		before, _ := l.Standing(nil, now)
		s = l.Take(s, now, 2, &d)
		s = l.Take(s, now+1000, 2, &d)
		refund := func(events, charged int64) {
			t.Helper()
			st := weir.Settlement{Receipt: l.Refund(weir.StateKey{}, events, 1)}
			var err error
			if s, err = l.Settle(s, now+2000, weir.InstantOf(time.Now().Add(time.Hour)), &st); err != nil || st.Charged != charged {
				t.Errorf("%s: of %d given back %d stay charged, error %v; want %d", text, events, st.Charged, err, charged)
			}
		}
		refund(3, 0)
		if left, _ := l.Standing(s, now+2000); left != before-1 {
			t.Errorf("%s: %d remain, want %d", text, left, before-1)
		}
		refund(0, 0)
		st := weir.Settlement{Receipt: l.Refund(weir.StateKey{}, 100, 1)}
		s, _ = l.Settle(s, now+2000, 0, &st)
		if left, _ := l.Standing(s, now+2000); left != before || st.Charged < 99 {
			t.Errorf("%s: %d remain of %d, %d of 100 stay charged", text, left, before, st.Charged)
		}
	}
}

// TestRefundPermits frees what was taken without a receipt, and no permit of one
// who can free it.
func TestRefundPermits(t *testing.T) {
	l := weir.MustParseLimit("5 concurrent")
	var s weir.State
	for i, id := range []uint64{0, 7, 0} {
		a := weir.Ask{Limit: l, Cost: 1 + int64(i)/2, Receipt: id}
		d := l.Decide(s, 1000, &a)
		d.Charged = true
		s = l.Commit(s, 1000, &a, &d)
	}
	for _, want := range []int64{3, 4, 4} { // of 5, one is held by a receipt
		st := weir.Settlement{Receipt: l.Refund(weir.StateKey{}, 2, 1)}
		s, _ = l.Settle(s, 2000, 0, &st)
		if left, _ := l.Standing(s, 2000); left != want {
			t.Errorf("%d remain, want %d", left, want)
		}
	}
}

// TestRefundBound: what is left of the events is as if those that were given back,
// the newest each time, had not passed: no interval holds more than the bound.
func TestRefundBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{
			"5/s", "7/s burst 3", "6/s strict burst 2", "5/s leaky-queue queue 0", "4/s fixed-window", "4/s fixed-window anchored", "6/s sliding-log",
			"6/s sliding-window", "6/s sliding-window 4", "6/s sliding-window 4 conservative", "6/s sliding-window relaxed",
		}).Draw(t, "limit")
		l := weir.MustParseLimit(text)
		var s weir.State
		var passed []weir.Instant
		now := weir.Instant(1_000_000_000)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += weir.Instant(rapid.SampledFrom([]int64{0, 1, 1000, 99_999, 250_000, 999_999}).Draw(t, "wait"))
			if rapid.IntRange(0, 3).Draw(t, "what") > 0 {
				var d weir.Decision
				if s = l.Take(s, now, 1, &d); d.Outcome == weir.Allowed {
					passed = append(passed, now+weir.Instant(d.Hold.Microseconds()))
				}
				continue
			}
			st := weir.Settlement{Receipt: l.Refund(weir.StateKey{}, rapid.Int64Range(1, 9).Draw(t, "back"), 1)}
			used := l.Used(s, now)
			s, _ = l.Settle(s, now, 0, &st)
			back := int(max(st.Receipt.Cost-st.Charged, used-l.Used(s, now))) // of one that has drained in part, no whole one is left
			if back > int(st.Receipt.Cost) {
				t.Fatalf("%s: %d were given back for %d", text, back, st.Receipt.Cost)
			}
			if back > len(passed) {
				t.Fatalf("%s: %d were given back of %d", text, back, len(passed))
			}
			passed = passed[:len(passed)-back]
		}
		most := int(l.Bound(time.Second, 1))
		for i := range passed {
			for j := i; j < len(passed) && passed[j] < passed[i]+1_000_000; j++ {
				if j-i+1 > most {
					t.Fatalf("%s: %d events in a second, of at most %d", text, j-i+1, most)
				}
			}
		}
	})
}

// TestPermitClockBack: after the clock stepped back a permit lasts its ttl, and one
// from before longer by as much.
func TestPermitClockBack(t *testing.T) {
	l := weir.MustParseLimit("2 concurrent ttl 30s")
	const second = weir.Instant(1_000_000)
	var d weir.Decision
	s := l.Take(nil, 1000*second, 1, &d)
	s = l.Take(s, 900*second, 1, &d)
	for at, want := range map[weir.Instant]int64{929: 0, 930: 1, 1029: 1, 1030: 2} {
		if left, _ := l.Standing(s, at*second); left != want {
			t.Errorf("at %d s %d are free, want %d", at, left, want)
		}
	}
}
