package sim

import (
	"cmp"
	"math/big"
	"math/bits"
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

// one is the share of everything, as a fixed-point number.
//
// A share is a number from 0 to one. It is 2^63 and not 2^64, so that one itself can be written.
const one = 1 << 63

// ticks are 2^16 a microsecond: gaps between requests are rounded to them.
//
// At the highest rate requests are a microsecond apart on average: gaps in whole microseconds
// would make the rate wrong by their rounding. The sum of gaps is kept in ticks, and only the
// moment of a request is rounded, down.
const ticks = 1 << 16

// asker draws who asks, and at what cost.
//
// It draws nothing for a moment that is not kept.
type asker struct {
	draw        *draw
	who         *ranks
	least, span uint64 // of the cost
}

func newAsker(s *settings, seed uint64) *asker {
	return &asker{newDraw(seed, 'a'), newRanks(int(s.clients), s.skew), uint64(s.least), uint64(s.most-s.least) + 1}
}

func (a *asker) asks(at weir.Instant) Request {
	r := Request{At: at, Client: int32(a.who.pick(a.draw)), Cost: int64(a.least)}
	// A cost that is always the same needs no draw.
	if a.span > 1 {
		r.Cost += int64(a.draw.below(a.span))
	}
	return r
}

// moments gives the moments of a Poisson process of pace p, from Start. share, if
// not nil, thins it: the share of one that is kept of the pace at a moment, so
// many microseconds after Start (Lewis and Shedler, 1979). A moment that is not kept is for no
// client.
func moments(p pace, d *draw, share func(us int64) uint64) func() (at weir.Instant, kept, ok bool) {
	if p.count == 0 {
		return func() (weir.Instant, bool, bool) { return 0, false, false }
	}
	// A period is at most 2^45 microseconds, so the product stays below 2^61.
	mean := uint64(p.period.Microseconds()) * ticks / uint64(p.count)
	var now uint64
	return func() (at weir.Instant, kept, ok bool) {
		whole, part := d.exponential()
		over, gap := bits.Mul64(whole, mean)
		fraction, _ := bits.Mul64(part, mean)
		if over > 0 || gap >= one-now || fraction >= one-now-gap {
			return 0, false, false // long after MaxDuration
		}
		now += gap + fraction
		us := int64(now / ticks)
		return Start + weir.Instant(us), share == nil || d.pcg.Uint64()>>1 < share(us), true
	}
}

// at makes requests of moments.
//
// A moment that is not kept becomes a request of nobody, instead of being skipped here: where a
// share is 0 for long, the caller must be able to stop.
func (a *asker) at(moments func() (at weir.Instant, kept, ok bool)) source {
	return func() (Request, bool) {
		at, kept, ok := moments()
		if !kept {
			return Request{At: at, Client: nobody}, ok
		}
		return a.asks(at), true
	}
}

func poisson(s *settings, seed uint64) source {
	return newAsker(s, seed).at(moments(s.rate, newDraw(seed, 'm'), nil))
}

// between draws moments at a pace that goes up and down between low and rate:
// curve is how far up it is at a moment, 0…one.
//
// Moments come at the higher pace of the two, and each is kept by a share of it. So the draw of
// the moments is the same for every curve, and a rate that changes within a gap is met exactly.
func between(s *settings, seed uint64, curve func(us int64) uint64) source {
	high, low := s.rate, s.low
	top, floor := uint64(one), ratio(low, high)
	if floor > one { // low is the higher one
		high, floor, top = low, one, ratio(high, low)
	}
	share := func(us int64) uint64 {
		up := curve(us)
		return mul(top, up) + mul(floor, one-up)
	}
	return newAsker(s, seed).at(moments(high, newDraw(seed, 'm'), share))
}

// ratio is a/b of two paces as a share of one, at most one + 1.
//
// More than one tells only that a is the faster, by whatever factor: the caller then turns the two
// round.
func ratio(a, b pace) uint64 {
	if a.count == 0 {
		return 0
	}
	if b.count == 0 {
		return one + 1
	}
	num := new(big.Int).Mul(big.NewInt(a.count), big.NewInt(int64(b.period)))
	den := new(big.Int).Mul(big.NewInt(b.count), big.NewInt(int64(a.period)))
	if num.Cmp(den) > 0 {
		return one + 1
	}
	return num.Lsh(num, 63).Div(num, den).Uint64()
}

// mul is a × b of two shares of one.
func mul(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi<<1 | lo>>63
}

// along is how far us is in a stretch of so many, as a share of one.
//
// Shifted left by 63 bits, the number takes two words. The upper one is below stretch, as Div64
// wants it.
func along(us, stretch int64) uint64 {
	q, _ := bits.Div64(uint64(us%stretch)>>1, uint64(us%stretch)<<63, uint64(stretch))
	return q
}

func square(s *settings, seed uint64) source {
	every := s.every.Microseconds()
	return between(s, seed, func(us int64) uint64 {
		// Where every is odd, the first half has a microsecond more.
		if us%every < (every+1)/2 {
			return one
		}
		return 0
	})
}

func ramp(s *settings, seed uint64) source {
	length := s.duration.Microseconds()
	return between(s, seed, func(us int64) uint64 {
		if us >= length {
			return one
		}
		return along(us, length)
	})
}

// daily rises and falls like a sine, made of two parabolas.
//
// Parabolas need no floats. They are nowhere more than 3 % of the height away from the sine.
func daily(s *settings, seed uint64) source {
	every := s.every.Microseconds()
	return between(s, seed, func(us int64) uint64 {
		x := along(us, every)
		if x > one/2 {
			x = one - x
		}
		if x *= 2; x <= one/2 { // 0 at midnight, one at noon
			return 2 * mul(x, x)
		}
		return one - 2*mul(one-x, one-x)
	})
}

// greedy merges the first client's requests with those of all others.
func greedy(s *settings, seed uint64) source {
	alone := *s
	alone.clients = 1
	first := poisson(&alone, seed)
	if s.clients == 1 {
		return first
	}
	others := *s
	others.rate, others.clients = s.low, s.clients-1
	// Its streams would be those of the first client, so it gets another seed.
	rest := poisson(&others, seed+1)
	return merged(first, func() (Request, bool) {
		r, ok := rest()
		r.Client++
		return r, ok
	})
}

// merged is two sources in the order of their times.
//
// It holds one request of each, taken ahead. At one moment that of a comes first, so the order is
// the same each time.
func merged(a, b source) source {
	ra, oka := a()
	rb, okb := b()
	return func() (r Request, ok bool) {
		if oka && (!okb || ra.At <= rb.At) {
			r, ok = ra, true
			ra, oka = a()
			return r, ok
		}
		r, ok = rb, okb
		if okb {
			rb, okb = b()
		}
		return r, ok
	}
}

// stretches makes requests of one stretch of time after the other: batch gives
// those that begin in the stretch, in the order of their times.
//
// A batch is asked for when the last one is used up, so its maker may use one slice again and
// again. No batch reaches into the next stretch, so the whole is in the order of times.
func stretches(every time.Duration, batch func(begin weir.Instant) []Request) source {
	begin := Start
	var ready []Request
	return func() (Request, bool) {
		for len(ready) == 0 {
			ready = batch(begin)
			begin += weir.Instant(every.Microseconds())
		}
		r := ready[0]
		ready = ready[1:]
		return r, true
	}
}

// The moment is drawn for each stretch, so that bursts meet windows of the same length at any
// place, and not at one edge for ever.
func bursts(s *settings, seed uint64) source {
	asker, when := newAsker(s, seed), newDraw(seed, 'm')
	batch := make([]Request, s.size)
	return stretches(s.every, func(begin weir.Instant) []Request {
		at := begin + weir.Instant(when.below(uint64(s.every.Microseconds())))
		for i := range batch {
			batch[i] = asker.asks(at)
		}
		return batch
	})
}

// It is the traffic that fixed windows promise least for: a full count just before an edge, and
// another at the edge. Pairs are two stretches apart, so each finds the last period empty.
func edge(s *settings, seed uint64) source {
	asker := newAsker(s, seed)
	batch := make([]Request, 2*s.size)
	every := weir.Instant(s.every.Microseconds())
	gap := min(weir.Instant(s.gap.Microseconds()), every)
	return stretches(2*s.every, func(begin weir.Instant) []Request {
		for i := range batch {
			at := begin + every
			if i < len(batch)/2 {
				at -= gap
			}
			batch[i] = asker.asks(at)
		}
		return batch
	})
}

// Clients take turns in the batch before it is sorted by time, so each asks exactly size times.
// The sort is stable: requests of one moment keep that order.
func herd(s *settings, seed uint64) source {
	asker, when := newAsker(s, seed), newDraw(seed, 'm')
	batch := make([]Request, s.size*int64(s.clients))
	gap := min(s.gap, s.every)
	return stretches(s.every, func(begin weir.Instant) []Request {
		for i := range batch {
			batch[i] = asker.asks(begin + weir.Instant(when.below(uint64(gap.Microseconds()))))
			batch[i].Client = int32(i % int(s.clients))
		}
		slices.SortStableFunc(batch, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
		return batch
	})
}
