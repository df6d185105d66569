package weir_test

import (
	"errors"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// kept is one charge with its receipt and what became of it; or what was settled
// beyond one, or reported, which has no receipt.
type kept struct {
	receipt  *weir.Receipt
	at       weir.Instant
	goes     weir.Instant
	cost     int64
	settled  bool
	forced   bool
	reported bool
}

// outcomes are the ways to settle that a test draws.
type outcomes struct{ more, report bool }

// random takes and settlements at small numbers, where edges meet.
func settleAtRandom(t *rapid.T, l *weir.Limit, can outcomes, check func(s weir.State, now weir.Instant, all []*kept)) {
	spec := l.Spec()
	now, s := weir.Instant(rapid.Int64Range(0, 500).Draw(t, "start")), weir.State(nil)
	var all []*kept
	for i := range rapid.IntRange(2, 40).Draw(t, "steps") {
		now += weir.Instant(rapid.SampledFrom([]int64{0, 0, 0, 1, 1, 3, 3, scale(spec) / 2, scale(spec), scale(spec), 1 << 28}).Draw(t, "step"))
		if l.Fresh(s, now) && rapid.Bool().Draw(t, "dropped") {
			s = nil
		}
		var open []*kept
		for _, k := range all {
			if !k.settled {
				open = append(open, k)
			}
		}
		if len(open) > 0 && rapid.Bool().Draw(t, "settle") {
			k := rapid.SampledFrom(open).Draw(t, "receipt")
			used := rapid.Int64Range(0, k.cost).Draw(t, "used")
			if can.more && rapid.Bool().Draw(t, "more") {
				used = k.cost + rapid.Int64Range(1, 40).Draw(t, "more by")
			}
			st := weir.Settlement{Receipt: k.receipt, Used: used}
			next, err := l.Settle(s, now, 0, &st)
			if err != nil && !errors.Is(err, weir.ErrExpired) {
				t.Fatal(err)
			}
			if err == nil && (st.Charged < used || st.Charged > max(used, k.cost)) {
				t.Fatalf("%s at %d: of %d charged, %d used, %d stay charged", l, now, k.cost, used, st.Charged)
			}
			s, k.settled = next, true
			if more := used - k.cost; more > 0 && err == nil {
				all = append(all, &kept{at: now, goes: now, cost: more, settled: true, forced: true})
			}
			if err == nil {
				k.cost = min(k.cost, used)
			}
		} else if can.report && rapid.IntRange(0, 3).Draw(t, "report") == 0 {
			a := weir.Ask{Cost: rapid.Int64Range(1, 40).Draw(t, "reported"), After: true}
			s, _ = take(l, s, now, a)
			all = append(all, &kept{at: now, goes: now, cost: a.Cost, settled: true, forced: true, reported: true})
		} else {
			a := weir.Ask{Cost: rapid.Int64Range(1, 4).Draw(t, "cost"), Receipt: uint64(i + 1)}
			var d weir.Decision
			if s, d = take(l, s, now, a); d.Charged {
				goes := now + weir.Instant(d.Hold/time.Microsecond)
				all = append(all, &kept{receipt: d.Receipt, at: now, goes: goes, cost: a.Cost})
			}
		}
		check(s, now, all)
	}
}

// TestRefundOfBucket: however charges are given back, a bucket never holds more
// than if what remains had been charged alone: history without the refunds is
// played again, in big numbers. What was settled for more than it was charged is
// charged when it is settled, and a report fills the bucket at most.
func TestRefundOfBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := small(t, weir.Spec{Algorithm: weir.GCRA})
		spec.Debt, spec.Burst = 0, rapid.Int64Range(3, 30).Draw(t, "burst")
		l := makeLimit(t, spec)
		rate := big.NewRat(spec.Count, spec.Period.Microseconds())
		settleAtRandom(t, l, outcomes{more: true, report: true}, func(s weir.State, now weir.Instant, all []*kept) {
			level, at := new(big.Rat), weir.Instant(0)
			drain := func(to weir.Instant) {
				level.Sub(level, new(big.Rat).Mul(rate, big.NewRat(int64(to-at), 1)))
				level, at = later(level, new(big.Rat)), to
			}
			for _, k := range all {
				drain(k.at)
				full := new(big.Rat).Set(later(level, big.NewRat(spec.Burst, 1)))
				if level.Add(level, big.NewRat(k.cost, 1)); k.reported && level.Cmp(full) > 0 {
					level = full
				}
			}
			drain(now)
			remaining, _ := l.Standing(s, now)
			if most := new(big.Rat).Sub(big.NewRat(spec.Burst, 1), level); remaining > 0 && big.NewRat(remaining, 1).Cmp(most) > 0 {
				t.Fatalf("%s at %d: %d remain, but what is still charged leaves only %s", l, now, remaining, most.FloatString(3))
			}
		})
	})
}

// TestRefundAtOnceIsWhole: what is given back in the same instant was never
// taken.
func TestRefundAtOnceIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := makeLimit(t, drawSpec(t))
		s, now := used(t, l)
		before, _ := l.Standing(s, now)
		s, d := take(l, s, now, weir.Ask{Cost: drawCost(t, l.Spec()), Receipt: 7})
		if !d.Charged {
			return
		}
		s, err := l.Settle(s, now, 0, &weir.Settlement{Receipt: d.Receipt})
		if err != nil {
			t.Fatal(err)
		}
		after, _ := l.Standing(s, now)
		if after != before && l.Spec().Algorithm != weir.WarmUp {
			t.Fatalf("%s: %d remained before a charge of %d, %d after giving it back", l, before, d.Cost, after)
		}
	})
}

// TestRefundOfQueue: a queue whose slots are given back still lets events go one
// by one.
func TestRefundOfQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := small(t, weir.Spec{Algorithm: weir.LeakyQueue})
		l := makeLimit(t, spec)
		settleAtRandom(t, l, outcomes{more: true, report: true}, func(_ weir.State, _ weir.Instant, all []*kept) {
			var went []passed
			for _, k := range all {
				if k.cost > 0 && !k.forced {
					went = append(went, passed{int64(k.goes), k.cost})
				}
			}
			slices.SortFunc(went, func(a, b passed) int { return int(a.at - b.at) })
			for _, width := range []int64{1, 2, scale(spec)} {
				checkBound(t, l, went, width, 4)
			}
		})
	})
}

// TestRefundOfWindow: a fixed window counts exactly what is still charged to it,
// however far beyond its count, and a log never less.
func TestRefundOfWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		algorithm := rapid.SampledFrom([]weir.Algorithm{weir.FixedWindow, weir.SlidingLog}).Draw(t, "algorithm")
		spec := small(t, weir.Spec{Algorithm: algorithm})
		l := makeLimit(t, spec)
		p := spec.Period.Microseconds()
		settleAtRandom(t, l, outcomes{more: true, report: true}, func(s weir.State, now weir.Instant, all []*kept) {
			want, beyond := spec.Count, false
			for _, k := range all {
				beyond = beyond || k.forced
				inWindow := int64(k.at)/p == int64(now)/p
				if algorithm == weir.SlidingLog {
					inWindow = int64(k.at) > int64(now)-p
				}
				if inWindow {
					want -= k.cost
				}
			}
			want = max(want, 0)
			if got, _ := l.Standing(s, now); got > want || got < want && (algorithm == weir.FixedWindow || !beyond) {
				t.Fatalf("%s at %d: %d remain, want %d", l, now, got, want)
			}
		})
	})
}

// TestReceiptOfAnotherLimit: after the limit has changed, its receipts give
// nothing back.
func TestReceiptOfAnotherLimit(t *testing.T) {
	old, changed := weir.MustParseLimit("10/min"), weir.MustParseLimit("20/min")
	s, d := take(old, nil, 0, weir.Ask{Cost: 10, Receipt: 1})
	s = changed.Adopt(s, old, 0)
	before, _ := changed.Standing(s, 0)
	s, err := changed.Settle(s, 0, 0, &weir.Settlement{Receipt: d.Receipt})
	if err != nil {
		t.Fatal(err)
	}
	if after, _ := changed.Standing(s, 0); before != 10 || after != before {
		t.Errorf("%d remained before, %d after, want 10 and 10", before, after)
	}
}

// TestRefundsUnderAClockThatSteppedBack: however much is given back, a bucket is kept for
// as long as receipts may remember it.
func TestRefundsUnderAClockThatSteppedBack(t *testing.T) {
	const day = weir.Instant(24 * time.Hour / time.Microsecond)
	l := weir.MustParseLimit("1048576/day")
	var s weir.State
	var receipts []*weir.Receipt
	for i := range weir.Instant(10) {
		var d weir.Decision
		s, d = take(l, s, i*day, weir.Ask{Cost: 1048576, Receipt: uint64(i + 1)})
		receipts = append(receipts, d.Receipt)
	}
	for _, r := range receipts {
		var err error
		if s, err = l.Settle(s, 0, 0, &weir.Settlement{Receipt: r}); err != nil {
			t.Fatal(err)
		}
		if kept := l.FreshAfter(s, 0); kept < 10*24*time.Hour || kept > 11*24*time.Hour {
			t.Fatalf("it is kept for %v, want 10 days", kept)
		}
	}
}
