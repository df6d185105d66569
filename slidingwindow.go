package weir

import (
	"math"
	"math/bits"
	"time"
)

// slidingWindow counts events in sub-windows aligned to 1970 and estimates
// from them how many lie within the last period: the whole sub-windows, and of
// the oldest the part that the period still covers, as if its events were
// spread evenly.
//
//	word 0   the newest sub-window: instants since 1970 / sub-window
//	word 1…  counts, two a word, the newest in the low half of word 1
//
// Strict tests the estimate with the event, relaxed before adding it, and
// conservative counts the oldest sub-window in full.
//
// A state has n + 1 counts for n sub-windows a period: a period that ends in the middle
// of a sub-window begins in the middle of another. The estimate
//
//	whole + oldest × (sub − offset) / sub
//
// is a fraction with denominator sub. It is compared by a product of 128 bits and the
// remainder of its division, so it is never rounded. That events of the oldest
// sub-window are spread evenly is the only thing that is not exact here.
type slidingWindow struct {
	count       int64 // events a period, 0…MaxCount
	sub         int64 // microseconds of a sub-window
	n           int   // sub-windows of a period, 1…MaxSubWindows
	mode        Mode  // never DefaultMode, which is filled in as Strict
	countDenied bool
}

// maxSubCount is where the count of a sub-window stops growing. All that receipts of
// it can give back leaves more than any limit, so no refund meets what was lost.
const maxSubCount = 1<<32 - 1

func newSlidingWindow(s *Spec) algorithm {
	return &slidingWindow{
		count: s.Count, sub: int64(s.Period/time.Microsecond) / s.SubWindows,
		n: int(s.SubWindows), mode: s.Mode, countDenied: s.CountDenied,
	}
}

func (w *slidingWindow) words() int  { return 1 + (w.n+2)/2 }
func (w *slidingWindow) most() int64 { return w.count }

// subCounts is a state unpacked and brought up to now: counts of sub-windows that are
// over have been moved on or dropped. It is an array, so that it needs no memory of
// its own.
type subCounts struct {
	estimate

	// index is that of the newest sub-window, instants since 1970 / sub. It is the one
	// that holds now, or a later one that was counted in before the clock stepped back.
	index int64
	// counts are from the newest, 0, to the oldest, n, of which only a part weighs.
	counts [MaxSubWindows + 1]uint32
}

// estimate is what the estimate follows from.
type estimate struct {
	// offset is that of now in the newest sub-window, 0…sub − 1 microseconds; 0 while
	// now is before it, so that the oldest weighs in full.
	offset int64
	whole  int64 // sum of all counts but the oldest
	oldest int64 // count of the oldest, below 2^32
}

// unpack fills c, which must be zero, from s.
func (w *slidingWindow) unpack(s State, now Instant, c *subCounts) {
	c.index = int64(now) / w.sub
	c.offset = int64(now) % w.sub
	if len(s) < w.words() {
		return
	}
	newest := int64(s[0])
	if newest > c.index { // the clock stepped back
		c.index, c.offset = newest, 0
	}
	for i := c.index - newest; i <= int64(w.n); i++ {
		c.counts[i] = halves(s[1:], uint(i-(c.index-newest)))
	}
	for i := range w.n {
		c.whole += int64(c.counts[i])
	}
	c.oldest = int64(c.counts[w.n])
}

// halves is the i-th of the counts that lie two a word, the low half first.
func halves(words []uint64, i uint) uint32 { return uint32(words[i/2] >> (i % 2 * 32)) }

func (w *slidingWindow) pack(s State, c *subCounts) State {
	s = s.words(w.words())
	s[0] = uint64(c.index)
	for i := 0; i <= w.n; i += 2 {
		s[1+i/2] = uint64(c.counts[i])
		if i < w.n {
			s[1+i/2] |= uint64(c.counts[i+1]) << 32
		}
	}
	return s
}

// weight is what the oldest sub-window adds to the estimate, times sub: a product of a
// count below 2^32 and a time of at most sub, so its quotient by sub fits 32 bits.
func (w *slidingWindow) weight(e *estimate) (hi, lo uint64) {
	left := w.sub - e.offset
	if w.mode == Conservative {
		left = w.sub
	}
	return bits.Mul64(uint64(e.oldest), uint64(left))
}

// free is the count less the estimate, rounded down, or −1 when less than 0.
// Rounded says that the estimate is no whole number. A cost is a whole number, so it
// fits under the exact difference if and only if it fits under the rounded one.
func (w *slidingWindow) free(e *estimate) (events int64, rounded bool) {
	left := w.count - e.whole
	hi, lo := w.weight(e)
	q, r := bits.Div64(hi, lo, uint64(w.sub)) // the oldest count is below 2^32
	events = left - int64(q)
	if r > 0 {
		events--
	}
	return max(events, -1), r > 0
}

func (w *slidingWindow) room(s State, now Instant, _ int64) int64 {
	var c subCounts
	w.unpack(s, now, &c)
	return w.fits(&c.estimate)
}

// fits is the largest cost that may pass.
func (w *slidingWindow) fits(e *estimate) int64 { return w.fitting(w.free(e)) }

func (w *slidingWindow) fitting(events int64, rounded bool) int64 {
	if w.mode != Relaxed {
		return events
	}
	if events > 0 || events == 0 && rounded {
		return w.count // whatever it costs: the estimate is still below the count
	}
	return events
}

// wait looks for the first instant at which cost fits, one sub-window after
// the other, as the oldest weighs less and less and then drops out. Within a sub-window
// the estimate never rises, and the next begins with one no larger: so the first
// offset that fits is the first instant. After n + 1 steps all counts are 0.
func (w *slidingWindow) wait(s State, now Instant, cost, _ int64) int64 {
	var c subCounts
	w.unpack(s, now, &c)
	begin := c.index*w.sub - int64(now) // of the newest sub-window, from now
	for range w.n + 2 {
		if at, ok := w.passes(&c, cost); ok {
			return begin + at
		}
		begin += w.sub
		w.roll(&c)
	}
	return 0 // an empty window takes every cost up to the count
}

// passes is the first offset in the newest sub-window, from now on, at which
// cost fits: when old × (sub − offset) ≤ left × sub, and less when below. Solved for the
// offset that is sub − ⌊left × sub / old⌋: rounding the quotient down rounds the offset
// up, to the first whole microsecond at which it holds. For "less" the product is
// smaller by one before the division.
func (w *slidingWindow) passes(c *subCounts, cost int64) (offset int64, ok bool) {
	below := w.mode == Relaxed && cost > 0 // the estimate must be below the count before adding
	left := w.count - c.whole
	if !below {
		left -= cost
	}
	old := c.oldest
	switch {
	case left < 0 || below && left == 0:
		return 0, false
	case old < left || old == 0 || old == left && !below:
		return c.offset, true
	case w.mode == Conservative:
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(left), uint64(w.sub))
	if below {
		var borrow uint64
		lo, borrow = bits.Sub64(lo, 1, 0)
		hi -= borrow
	}
	q, _ := bits.Div64(hi, lo, uint64(old)) // old ≥ left, so it is at most sub
	offset = max(w.sub-int64(q), c.offset)
	return offset, offset < w.sub
}

// roll moves on to the next sub-window: each count is one older, and the oldest drops out.
func (w *slidingWindow) roll(c *subCounts) {
	c.whole -= int64(c.counts[w.n-1])
	copy(c.counts[1:w.n+1], c.counts[:w.n])
	c.counts[0], c.oldest = 0, int64(c.counts[w.n])
	c.index++
	c.offset = 0
}

func (w *slidingWindow) hold(State, Instant, int64) int64 { return 0 }

func (w *slidingWindow) charge(s State, now Instant, cost int64, _ bool, _ uint64) (State, mark) {
	var c subCounts
	w.unpack(s, now, &c)
	c.counts[0] = uint32(min(int64(c.counts[0])+cost, maxSubCount))
	return w.pack(s, &c), mark{uint64(c.index)}
}

func (w *slidingWindow) owe(s State, now Instant, cost int64) (State, int64) {
	var c subCounts
	w.unpack(s, now, &c)
	cost = min(cost, maxSubCount-int64(c.counts[0]))
	s, _ = w.charge(s, now, cost, true, 0)
	return s, cost
}

func (w *slidingWindow) refuse(s State, now Instant, cost int64) State {
	if w.countDenied {
		s, _ = w.charge(s, now, cost, true, 0)
	}
	return s
}

func (w *slidingWindow) standing(s State, now Instant) (remaining, reset int64) {
	var c subCounts
	w.unpack(s, now, &c)
	events, rounded := w.free(&c.estimate)
	return w.stands(&c, now, events, rounded)
}

// stands is standing, given what is free. The window is as never used when its newest
// events have become the oldest sub-window and that is over, n + 1 sub-windows after
// theirs began.
func (w *slidingWindow) stands(c *subCounts, now Instant, events int64, rounded bool) (remaining, reset int64) {
	if w.mode == Relaxed && rounded {
		events++
	}
	for i := range w.n + 1 {
		if c.counts[i] == 0 {
			continue
		}
		end := (c.index + int64(w.n+1-i)) * w.sub
		return max(events, 0), end - int64(now)
	}
	return max(events, 0), 0
}

// newest is the newest sub-window with events, or the oldest when no newer one has any.
func (w *slidingWindow) newest(s State, now Instant) mark {
	var c subCounts
	w.unpack(s, now, &c)
	age := 0
	for age < w.n && c.counts[age] == 0 {
		age++
	}
	return mark{uint64(c.index - int64(age))}
}

// giveBack returns events to the sub-window they were charged to, while it is
// remembered. Events of other charges in it are worth the same, and it never has less
// than none.
func (w *slidingWindow) giveBack(s State, now Instant, r *Receipt, events int64) (State, int64) {
	var c subCounts
	w.unpack(s, now, &c)
	age := c.index - int64(r.Mark[0])
	if age < 0 || age > int64(w.n) {
		return s, 0
	}
	back := min(int64(c.counts[age]), events)
	c.counts[age] -= uint32(back)
	return w.pack(s, &c), back
}

func (w *slidingWindow) used(s State, now Instant) int64 {
	var c subCounts
	w.unpack(s, now, &c)
	hi, lo := w.weight(&c.estimate)
	q, r := bits.Div64(hi, lo, uint64(w.sub))
	used := c.whole + int64(q)
	if r > 0 {
		used++
	}
	return used
}

func (w *slidingWindow) alike(o algorithm) bool {
	old, ok := o.(*slidingWindow)
	return ok && old.sub == w.sub && old.n == w.n
}

// adopt keeps the number of what is used, counted now.
func (w *slidingWindow) adopt(s State, from algorithm, now Instant) State {
	return w.hear(nil, now, passed{events: min(from.used(s, now), w.count)})
}

func (w *slidingWindow) hear(s State, now Instant, p passed) State {
	s, _ = w.charge(s, now, p.events, true, 0)
	return s
}

// bound: see docs/algorithms.md for the proofs. It takes the least of several bounds: one
// is tighter for short intervals, another for long ones.
func (w *slidingWindow) bound(width, largest int64) int64 {
	period := w.sub * int64(w.n)
	periods := ceilDiv(width, period)
	if w.mode == Conservative {
		return times(w.count, periods)
	}
	once, twice := w.count, plus(w.count, w.count-1)
	if w.mode == Relaxed {
		once = plus(w.count, largest-1)
		twice = times(2, once)
	}
	most := times(twice, periods)
	if w.n == 1 { // no sub-window holds more than once
		most = min(most, times(once, plus(ceilDiv(width-1, w.sub), 1)))
	} else {
		most = min(most, times(once, ceilDiv(width, period-w.sub)))
	}
	if w.n == 1 && w.mode == Strict {
		hi, lo := bits.Mul64(uint64(w.count), uint64(width))
		if hi < uint64(period) {
			share, _ := bits.Div64(hi, lo, uint64(period))
			most = min(most, plus(w.count, int64(min(share, math.MaxInt64))))
		}
	}
	return most
}
