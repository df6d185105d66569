package textbook

import (
	"math/big"
	"time"

	"github.com/weir-limit/weir"
)

// GCRA is the generic cell rate algorithm of ITU-T I.371 in its form "virtual
// scheduling", for events that may cost more than one cell. It keeps the
// theoretical arrival time (TAT): when all that passed would have arrived at an
// even pace. An event may be early by as much as the burst allows.
//
// It is right: the token bucket in one number.
type GCRA struct {
	Rate  Rate
	Burst int64

	tat *big.Rat // microseconds; nil for a key never seen
}

// next is the TAT after cost events.
func (g *GCRA) next(now weir.Instant, cost int64) *big.Rat {
	from := whole(int64(now))
	if g.tat != nil {
		from = larger(from, g.tat) // an idle key earns no more than its burst
	}
	return sum(from, g.Rate.lasting(cost))
}

// Fits is whether cost events conform.
func (g *GCRA) Fits(now weir.Instant, cost int64) bool {
	ahead := difference(g.next(now, cost), whole(int64(now)))
	return ahead.Cmp(g.Rate.lasting(g.Burst)) <= 0
}

// Take is whether cost events conform, and moves the TAT on if so.
func (g *GCRA) Take(now weir.Instant, cost int64) bool {
	fits := g.Fits(now, cost)
	if fits {
		g.tat = g.next(now, cost)
	}
	return fits
}

// LiteralGCRA is GCRA as the well-known prose tells it, taken at its word: an
// event passes unless it comes before the theoretical arrival time less the
// burst, and each that passes moves that time on by one interval.
//
// The prose leaves out two things. The time may not lag behind the clock, so
// the next one is max(now, TAT) + interval: without it, idle time piles up
// without end and passes all at once later. And the burst that may be early
// does not count the event itself: one too many passes.
type LiteralGCRA struct {
	Interval time.Duration // from event to event
	Burst    int64

	used bool
	tat  weir.Instant
}

// Take is whether the event is not too early. A cost counts as so many events.
func (g *LiteralGCRA) Take(now weir.Instant, cost int64) bool {
	if !g.used {
		g.used, g.tat = true, now
	}
	interval := weir.Instant(micros(g.Interval))
	if now < g.tat-weir.Instant(g.Burst)*interval {
		return false
	}
	g.tat += weir.Instant(cost) * interval
	return true
}

// LeakyQueue is the leaky bucket as a queue: events wait in line and leave one
// by one at an even pace. The first leaves at once, at most Queue wait, and
// more are turned away. It is a real line, with the exact time at which each of
// those in it leaves.
//
// It is right, and it is the one rule of this package that delays. A cost of n
// is n events in a row, which go together when the first of them may.
type LeakyQueue struct {
	Rate  Rate
	Queue int

	line []*big.Rat // when each leaves, microseconds; those that have left are dropped
	free *big.Rat   // when the next may leave at the earliest; nil before the first
}

// waiting is how many of the line have not left yet.
func (q *LeakyQueue) waiting(now weir.Instant) int {
	gone := 0
	for gone < len(q.line) && q.line[gone].Cmp(whole(int64(now))) <= 0 {
		gone++
	}
	return len(q.line) - gone
}

// leaves is when one that joins now leaves.
func (q *LeakyQueue) leaves(now weir.Instant) *big.Rat {
	if q.free == nil {
		return whole(int64(now))
	}
	return larger(whole(int64(now)), q.free)
}

// Hold is how long one that joins now waits, in whole microseconds rounded up.
func (q *LeakyQueue) Hold(now weir.Instant) time.Duration {
	wait := difference(q.leaves(now), whole(int64(now)))
	n, part := new(big.Int).QuoRem(wait.Num(), wait.Denom(), new(big.Int))
	if part.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	return time.Duration(n.Int64()) * time.Microsecond
}

// Fits is whether there is room in the line for cost events.
func (q *LeakyQueue) Fits(now weir.Instant, cost int64) bool {
	wait := int64(q.waiting(now)) + cost
	if cost > 0 && q.leaves(now).Cmp(whole(int64(now))) == 0 {
		wait-- // the first leaves at once
	}
	return wait <= int64(q.Queue)
}

// Take is whether there is room in the line for cost events, and lines them up
// if so. The caller goes after the Hold that was before.
func (q *LeakyQueue) Take(now weir.Instant, cost int64) bool {
	fits := q.Fits(now, cost)
	q.line = q.line[len(q.line)-q.waiting(now):]
	if !fits {
		return false
	}
	for range cost {
		at := q.leaves(now)
		q.line = append(q.line, at)
		q.free = sum(at, q.Rate.lasting(1))
	}
	return true
}

// MillisecondPacer spaces events by 1000/PerSecond whole milliseconds, as
// schedulers in milliseconds invite one to.
//
// The division rounds down, so it is too fast wherever it does not come out
// even, and above 1000 a second the interval is 0: everything passes.
type MillisecondPacer struct {
	PerSecond int64

	next weir.Instant
}

// Take is whether the interval since the last event is over.
func (p *MillisecondPacer) Take(now weir.Instant, cost int64) bool {
	if now < p.next {
		return false
	}
	p.next = now + weir.Instant(cost*(1000/p.PerSecond)*1000)
	return true
}
