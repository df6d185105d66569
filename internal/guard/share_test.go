package guard_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
)

// TestShare: every limit has a part for each of any number of nodes, of its count and of
// what passes at once.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := weir.Spec{
			Algorithm: rapid.SampledFrom([]weir.Algorithm{
				weir.GCRA, weir.LeakyQueue, weir.FixedWindow, weir.SlidingLog, weir.SlidingWindow, weir.WarmUp, weir.Concurrent,
			}).Draw(t, "algorithm"),
			Count:  rapid.OneOf(rapid.Int64Range(0, 9), rapid.Int64Range(0, weir.MaxCount)).Draw(t, "count"),
			Period: time.Duration(rapid.OneOf(rapid.Int64Range(1, 1e6), rapid.Int64Range(1, weir.MaxPeriod.Microseconds())).Draw(t, "period")) * time.Microsecond,
		}
		switch s.Algorithm {
		case weir.GCRA:
			s.Burst = rapid.OneOf(rapid.Int64Range(0, 9), rapid.Int64Range(0, weir.MaxCount)).Draw(t, "burst")
			s.Debt = rapid.Int64Range(0, 100).Draw(t, "debt")
			if rapid.Bool().Draw(t, "strict") {
				s.Mode, s.Debt, s.Burst = weir.Strict, 0, min(s.Burst, s.Count)
			}
		case weir.LeakyQueue:
			s.Queue = new(rapid.Int64Range(0, 100).Draw(t, "queue"))
		case weir.FixedWindow:
			if s.Calendar = rapid.SampledFrom([]weir.Calendar{weir.NoCalendar, weir.Day, weir.Month}).Draw(t, "calendar"); s.Calendar != weir.NoCalendar {
				s.Period, s.Anchored = 0, rapid.Bool().Draw(t, "anchored")
			}
		case weir.WarmUp:
			s.WarmUp = time.Second
		case weir.Concurrent:
			s.Period = 0
		case weir.SlidingLog, weir.SlidingWindow, weir.TokenBucket, weir.LeakyBucket:
		}
		l, err := s.Limit()
		if err != nil {
			t.Skip(err)
		}
		n := rapid.IntRange(2, 1000).Draw(t, "nodes")
		part := guard.Share(l, n)
		whole := l.Spec()
		if want := max(whole.Count/int64(n), min(whole.Count, 1)); part.Spec().Count != want {
			t.Errorf("a part of %s of %d nodes: %s", l, n, part)
		}
		once := func(l *weir.Limit) int64 { n, _ := l.Standing(nil, 0); return n }
		if most := max(once(l)/int64(n), 1); once(part) > most {
			t.Errorf("a part of %s of %d nodes lets pass %d at once: %s", l, n, once(part), part)
		}
	})
}
