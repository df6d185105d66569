package sim

import (
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/sim/textbook"
)

// book is what the textbooks' form of l believes of the last period, when it counts
// all that came before.
func book(l *weir.Limit, before []Request, now weir.Instant) int64 {
	s := l.Spec()
	sum := func(from weir.Instant) (n int64) {
		for _, r := range before {
			if r.At >= from {
				n += r.Cost
			}
		}
		return n
	}
	period := weir.Instant(s.Period / time.Microsecond)
	switch s.Algorithm {
	case weir.FixedWindow:
		return sum(now - now%period)
	case weir.SlidingLog:
		return sum(now - period + 1)
	default:
		w := &textbook.SubWindows{Count: 1 << 40, Period: s.Period, Parts: s.SubWindows, Mode: s.Mode}
		if s.Mode == weir.Relaxed {
			w.Mode = weir.Strict // which would not count more than its count
		}
		for _, r := range before {
			w.Take(r.At, r.Cost)
		}
		estimate := w.Estimate(now)
		n, rest := new(big.Int).QuoRem(estimate.Num(), estimate.Denom(), new(big.Int))
		return n.Int64() + int64(rest.Sign())
	}
}

// TestBeliefs: what windows and logs believe is what the textbooks' forms do, whoever
// is denied, and errors and alarms are counted against what was asked for.
func TestBeliefs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t)
		s := l.Spec()
		traffic := drawTraffic(t, 1, 3)
		w, err := Recorded("drawn", traffic)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Of(l)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), w, []Contender{c}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		f := r.Trials[0].Figures
		window := s.Algorithm == weir.FixedWindow || s.Algorithm == weir.SlidingWindow || s.Algorithm == weir.SlidingLog
		if f.Believes != window {
			t.Errorf("%s believes: %v", l, f.Believes)
		}
		if !window || s.Anchored {
			return
		}
		want, errors := Figures{}, int64(0)
		for i, q := range traffic {
			truth := int64(0)
			for _, before := range traffic[:i] {
				if before.At > q.At-weir.Instant(s.Period/time.Microsecond) {
					truth += before.Cost
				}
			}
			believed := book(l, traffic[:i], q.At)
			off := max(believed-truth, truth-believed)
			errors += off
			want.WorstError = max(want.WorstError, off)
			if over, really := believed+q.Cost > s.Count, truth+q.Cost > s.Count; over && !really {
				want.FalsePositives++
			} else if really && !over {
				want.FalseNegatives++
			}
		}
		want.MeanError = share(errors, f.Asked)
		got := Figures{MeanError: f.MeanError, WorstError: f.WorstError, FalsePositives: f.FalsePositives, FalseNegatives: f.FalseNegatives}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: (-book +got)\n%s", l, d)
		}
		for i, believed := range r.Trials[0].Series.Believed {
			at := r.Start + weir.Instant(r.Step/time.Microsecond)*weir.Instant(i)
			before := 0
			for before < len(traffic) && traffic[before].At < at {
				before++
			}
			if want := book(l, traffic[:before], at); believed != want {
				t.Fatalf("%s: step %d, at %v, believes %d, the book %d", l, i, at.Time(), believed, want)
			}
		}
	})
}
