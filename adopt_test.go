package weir_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// TestAdoptKeepsWhatWasUsed: whatever a limit changes into, what was used stays
// used, at most as much as the new one passes at once.
func TestAdoptKeepsWhatWasUsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := drawSpec(t), drawSpec(t)
		if from.Algorithm == weir.Concurrent || to.Algorithm == weir.Concurrent {
			return // permits are no events
		}
		if from.Algorithm == weir.SlidingLog && to.Algorithm == weir.SlidingLog {
			to.Period = from.Period // else the log knows better than to keep what is long ago
		}
		from.Mode, from.Initial, to.Initial = weir.DefaultMode, nil, nil
		if to.Mode == weir.Relaxed {
			to.Mode = weir.DefaultMode
		}
		old, l := makeLimit(t, from), makeLimit(t, to)
		s, now := used(t, old)
		remaining, _ := old.Standing(s, now)
		usedBefore := most(old) - remaining
		s = l.Adopt(s, old, now)
		left, _ := l.Standing(s, now)
		if usedNow := most(l) - left; usedNow < min(usedBefore, most(l)) {
			t.Fatalf("%s used %d, %s counts %d of it", old, usedBefore, l, usedNow)
		}
	})
}

// most is what a fresh key may take at once.
func most(l *weir.Limit) int64 {
	remaining, _ := l.Standing(nil, 0)
	return remaining
}

// TestAdoptItself: the same limit keeps its state to the bit.
func TestAdoptItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := makeLimit(t, drawSpec(t))
		again := weir.MustParseLimit(l.String())
		s, now := used(t, l)
		kept := again.Adopt(s, l, now)
		for i := range s {
			if kept[i] != s[i] {
				t.Fatalf("%s: word %d of the state changed", l, i)
			}
		}
	})
}

// TestAdoptPermits: permits stay out when their number changes.
func TestAdoptPermits(t *testing.T) {
	old, l := weir.MustParseLimit("10 concurrent"), weir.MustParseLimit("4 concurrent")
	s, d := take(old, nil, 0, weir.Ask{Cost: 6, Receipt: 1})
	s = l.Adopt(s, old, 0)
	if _, d := take(l, s, 0, weir.Ask{Cost: 1}); d.Outcome != weir.Denied {
		t.Errorf("6 of 4 permits are out, and one more is %v", d.Outcome)
	}
	s, err := l.Settle(s, 0, 0, &weir.Settlement{Receipt: d.Receipt})
	if err != nil {
		t.Fatal(err)
	}
	if remaining, _ := l.Standing(s, 0); remaining != 4 {
		t.Errorf("%d permits are free after all came back, want 4", remaining)
	}
}

// TestAdoptWarmUp: another warm-up keeps the next slot and its share of warmth.
func TestAdoptWarmUp(t *testing.T) {
	old, l := weir.MustParseLimit("10/s warm-up 4s"), weir.MustParseLimit("20/s warm-up 8s")
	s, _ := take(old, nil, 0, weir.Ask{Cost: 40}) // uses the idle time up
	s = l.Adopt(s, old, 0)
	_, reset := l.Standing(s, 0)
	// 40 intervals of 0.1 s and a surcharge of 2 s, then 8 s to be cold again.
	if want := 14 * time.Second; reset != want {
		t.Errorf("reset after %v, want %v", reset, want)
	}
}
