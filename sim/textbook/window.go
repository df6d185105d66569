package textbook

import (
	"math/big"
	"time"

	"github.com/weir-limit/weir"
)

// FixedWindow counts the events of each period from 1970 on, as a counter in a
// store does whose key holds the number of the period. It keeps all counters;
// the literature lets them expire.
//
// It never passes more than Count in one of its windows, and twice as many
// around the edge of two.
type FixedWindow struct {
	Count  int64
	Period time.Duration

	counts map[int64]int64
}

// Fits is whether cost events fit into the window of now.
func (w *FixedWindow) Fits(now weir.Instant, cost int64) bool {
	return w.counts[int64(now)/micros(w.Period)]+cost <= w.Count
}

// Take is whether cost events fit into the window of now, and counts them if so.
func (w *FixedWindow) Take(now weir.Instant, cost int64) bool {
	if !w.Fits(now, cost) {
		return false
	}
	if w.counts == nil {
		w.counts = map[int64]int64{}
	}
	w.counts[int64(now)/micros(w.Period)] += cost
	return true
}

// SlidingLog keeps the time of every event ever, and counts those of the last
// period, (now − Period, now].
//
// It is right, and the definition of right for "no more than Count in any
// period". It is often told as too big to be of use because it keeps a stamp
// of every request; but the last Count stamps decide alike.
type SlidingLog struct {
	Count  int64
	Period time.Duration
	// CountDenied stamps what is turned away, too, as the form does that adds
	// the stamp first and counts then. A client that never pauses is never let in again.
	CountDenied bool

	stamps []weir.Instant
}

// Fits is whether cost events more are at most Count in the period up to now.
func (l *SlidingLog) Fits(now weir.Instant, cost int64) bool {
	recent := int64(0)
	for _, at := range l.stamps {
		if int64(now-at) < micros(l.Period) {
			recent++
		}
	}
	return recent+cost <= l.Count
}

// Take is whether cost events more are at most Count in the period up to now,
// and stamps them if so.
func (l *SlidingLog) Take(now weir.Instant, cost int64) bool {
	fits := l.Fits(now, cost)
	if fits || l.CountDenied {
		for range cost {
			l.stamps = append(l.stamps, now)
		}
	}
	return fits
}

// SlidingCounter estimates the last period from two fixed windows, as the well
// known article of a large network has it: the count of this window, and of the
// one before it the share that the period still covers. It computes in floats
// and tests the estimate before the event is added.
//
// It is cheap and good on average. It takes the events of the last window to
// be spread evenly, so it passes up to twice the count when they were not, and
// costs of more than one pass beyond that. Floats decide unlike exact numbers,
// and unlike other floats, where the estimate comes close to the count.
type SlidingCounter struct {
	Count  int64
	Period time.Duration
	Strict bool // test the estimate with the event added

	counts map[int64]int64
}

// Estimate is how many events the last period holds, if those of the window
// before were spread evenly.
func (c *SlidingCounter) Estimate(now weir.Instant) float64 {
	index, elapsed := int64(now)/micros(c.Period), int64(now)%micros(c.Period)
	share := 1 - float64(elapsed)/float64(micros(c.Period))
	// The conversion keeps machines that can from adding without rounding before.
	return float64(float64(c.counts[index-1])*share) + float64(c.counts[index])
}

// Take is whether the estimate is below the count, and counts the cost if so.
func (c *SlidingCounter) Take(now weir.Instant, cost int64) bool {
	estimate := c.Estimate(now)
	if c.Strict && estimate+float64(cost) > float64(c.Count) || !c.Strict && estimate >= float64(c.Count) {
		return false
	}
	if c.counts == nil {
		c.counts = map[int64]int64{}
	}
	c.counts[int64(now)/micros(c.Period)] += cost
	return true
}

// SubWindows is the sliding counter in exact fractions and with the period cut
// into Parts: the whole parts count in full and the oldest by the share that
// the period still covers.
//
// It is right as an estimate. Its promise about any period depends on how the
// estimate is tested; docs/algorithms.md has the proofs.
type SubWindows struct {
	Count  int64
	Period time.Duration
	Parts  int64     // divides the period
	Mode   weir.Mode // Strict when zero

	counts map[int64]int64
}

// Estimate is how many events the last period holds.
func (w *SubWindows) Estimate(now weir.Instant) *big.Rat {
	part := micros(w.Period) / w.Parts
	index, elapsed := int64(now)/part, int64(now)%part
	if w.Mode == weir.Conservative {
		elapsed = 0
	}
	oldest := big.NewRat(part-elapsed, part)
	estimate := oldest.Mul(oldest, whole(w.counts[index-w.Parts]))
	for i := range w.Parts {
		estimate.Add(estimate, whole(w.counts[index-i]))
	}
	return estimate
}

// Fits is whether cost events may pass now.
func (w *SubWindows) Fits(now weir.Instant, cost int64) bool {
	estimate := w.Estimate(now)
	if w.Mode == weir.Relaxed {
		return cost <= w.Count && estimate.Cmp(whole(w.Count)) < 0
	}
	return estimate.Add(estimate, whole(cost)).Cmp(whole(w.Count)) <= 0
}

// Take is whether cost events may pass now, and counts them if so.
func (w *SubWindows) Take(now weir.Instant, cost int64) bool {
	if !w.Fits(now, cost) {
		return false
	}
	if w.counts == nil {
		w.counts = map[int64]int64{}
	}
	w.counts[int64(now)/(micros(w.Period)/w.Parts)] += cost
	return true
}

// OneByOne asks several limits one after the other and stops at the first that
// denies, as separate calls do.
//
// The charges of the first ones stay: an hour's limit is used up by requests that the second's
// limit turned away. Asked in another order, it passes other requests.
type OneByOne []Model

// Take is whether all limits allow the cost, and charges each up to the first
// that does not.
func (s OneByOne) Take(now weir.Instant, cost int64) bool {
	for _, m := range s {
		if !m.Take(now, cost) {
			return false
		}
	}
	return true
}
