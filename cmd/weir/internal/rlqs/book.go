package rlqs

import (
	"time"

	"github.com/weir-limit/weir"
)

// The times of assignments.
const (
	// TTL is for how long an assignment is good at a proxy, in whole seconds. A proxy reports each 5 s, so
	// that one report may be lost.
	TTL = 10 * time.Second
	// Delay is how long a message may be on its way. A proxy counts the TTL from when it hears.
	Delay = 2 * time.Second
	// Slice is for how long pace is booked at a time.
	Slice = 2500 * time.Millisecond

	// perEvent is how much pace one event is in one slice: paces are in events a minute.
	perEvent = int64(time.Minute / Slice)
	// pages is how many slices a book has: those that an assignment may touch, and one before.
	pages = 8
)

// sliceAt is the slice that an instant lies in.
func sliceAt(now weir.Instant) int64 { return int64(now) / int64(Slice/time.Microsecond) }

func after(now weir.Instant, d time.Duration) weir.Instant {
	return now + weir.Instant(d/time.Microsecond)
}

// Terms are what proxies may pass together.
type Terms struct {
	Pace  int64 // events a minute
	Burst int64 // events that their buckets may hold together in one slice
}

// TermsOf are those of a limit whose portions are booked. Book says why Burst is half of the limit's.
func TermsOf(l *weir.Limit) Terms {
	if s := l.Spec(); s.Burst == 0 {
		// A window: what passes in its period is twice the burst, and the pace for so long.
		burst := max(s.Count/windowBurst, 1)
		whole := l.Spec()
		whole.Count -= 2 * burst
		us := int64(whole.Period / time.Microsecond)
		return Terms{max(whole.Count, 0) * int64(time.Minute/time.Microsecond) / max(us, 1), burst}
	}
	return Terms{paceOf(l), l.Spec().Burst / 2}
}

// windowBurst is the part of a window's count that buckets may hold.
const windowBurst = 32

// Book is what is promised of one count, by slices of time. It is pure: what may be promised at all is
// bought from a store, slice by slice, so that several daemons never promise more together.
//
// A slice has room for as many events as the pace passes in it. It is taken up by the pace of all
// buckets that may be in force at some moment of it, and by what new buckets hold in the slice in which they are
// given, since they begin full. Beside that, all buckets that may be in force at some moment of a
// slice hold no more than Burst together.
//
// So any interval passes at most 2 × Burst and the pace. Say that it begins in slice j and ends in slice k. What
// passes comes from what buckets hold that were in force in j, at most Burst; from those given in the
// slices between, which is paid from their pace; from those given in k, at most Burst; and from what fills meanwhile. Pace
// that buckets have together is never more than what is booked in any slice.
type Book struct {
	Terms

	slices [pages]page
}

// page is one slice.
type page struct {
	index  int64
	asked  int64 // pace that was asked of the store
	bought int64 // and that it gave
	pace   int64 // promised
	fresh  int64 // events of buckets that were given in this slice
	burst  int64 // events of buckets that are in force in it
}

// Claim is what a bucket has in a Book. The zero Claim is nothing.
type Claim struct {
	pace, burst, through int64
	// Until this slice the bucket before may be in force, too.
	peak struct{ pace, burst, through int64 }
}

// at is what a claim takes up of a slice.
func (c *Claim) at(slice int64) (pace, burst int64) {
	switch {
	case slice <= c.peak.through:
		return c.peak.pace, c.peak.burst
	case slice <= c.through:
		return c.pace, c.burst
	}
	return 0, 0
}

func (b *Book) page(i int64) *page {
	p := &b.slices[i%pages]
	if p.index != i {
		*p = page{index: i}
	}
	return p
}

// free is the pace of a page that nobody has.
func (p *page) free() int64 { return p.bought - p.pace - p.fresh*perEvent }

// held is what buckets may hold in a page, by what was bought of it.
func (b *Book) held(p *page) int64 {
	if b.Pace == 0 {
		return 0
	}
	return mulDiv(b.Burst, p.bought, b.Pace)
}

// span is the slices that an assignment of now may touch: now and as long as the message may take, and to its end.
func span(now weir.Instant) (first, near, last int64) {
	return sliceAt(now), sliceAt(after(now, Delay)), sliceAt(after(now, Delay+TTL))
}

// lift takes a claim out of the slices from first on, or with sign 1 puts it back.
func (b *Book) lift(c *Claim, first, sign int64) {
	for s := first; s <= max(c.through, c.peak.through); s++ {
		p := b.page(s)
		pace, burst := c.at(s)
		p.pace += sign * pace
		p.burst += sign * burst
	}
}

// Extend promises a bucket for as long as an assignment of now lasts, at the pace that it has. It says no, and
// changes nothing, where there is no room.
func (b *Book) Extend(now weir.Instant, c *Claim) bool {
	first, _, last := span(now)
	for s := max(first, c.through+1); s <= last; s++ {
		p := b.page(s)
		pace, burst := c.at(s)
		if p.free() < c.pace-pace || b.held(p)-p.burst < c.burst-burst {
			return false
		}
	}
	b.lift(c, first, -1)
	c.through = max(c.through, last)
	b.lift(c, first, 1)
	return true
}

// Give promises a new bucket in place of the one that the claim is of: up to so much pace, and so many events that it
// holds, at least 1 of each. A part of the pace, keep of 1000, is left for others, but for what the claim had. It says no, and
// changes nothing, where there is no room.
func (b *Book) Give(now weir.Instant, c *Claim, pace, holds, keep int64) (gotPace, gotHolds int64, ok bool) {
	first, near, last := span(now)
	b.lift(c, first, -1)
	var before Claim
	for s := first; s <= near; s++ {
		pace, burst := c.at(s)
		before.pace, before.burst = max(before.pace, pace), max(before.burst, burst)
	}
	gotPace, gotHolds = pace, holds
	for s := first; s <= last; s++ {
		p := b.page(s)
		gotPace = min(gotPace, max(p.free()-p.bought*keep/1000, min(c.pace, p.free())))
		// Half of what buckets may hold is for the time in which two of one proxy may be in force, and for those who come.
		hold := max(b.held(p)/2-p.burst, min(1, b.held(p)-p.burst))
		if s <= near {
			hold = b.held(p) - p.burst - before.burst
			hold = min(hold, max(hold/2, 1))
			// Of what is left beside the bucket before, half is for what the new one begins with, or less where it gives
			// up pace, so that others can soon do so, too.
			room, parts := p.free()-before.pace, int64(2)
			if pace < before.pace {
				parts = 4
			}
			hold = min(hold, room/perEvent, max(room/parts/perEvent, 1))
		}
		gotHolds = min(gotHolds, hold)
	}
	for s := first; s <= near; s++ {
		gotPace = min(gotPace, max(b.page(s).free()-gotHolds*perEvent, 0))
	}
	if gotPace < 1 || gotHolds < 1 {
		b.lift(c, first, 1)
		return 0, 0, false
	}
	*c = Claim{pace: gotPace, burst: gotHolds, through: last}
	c.peak.pace, c.peak.burst, c.peak.through = max(before.pace, gotPace), before.burst+gotHolds, near
	b.lift(c, first, 1)
	for s := first; s <= near; s++ {
		b.page(s).fresh += gotHolds
	}
	return gotPace, gotHolds, true
}

// Fit lowers the pace of a bucket that Give has just promised to what the message can say.
func (b *Book) Fit(now weir.Instant, c *Claim, pace int64) {
	first, _, _ := span(now)
	b.lift(c, first, -1)
	c.pace = min(c.pace, pace)
	b.lift(c, first, 1)
}

// Drop ends a bucket that its proxy is told to forget: from when it must have heard.
func (b *Book) Drop(now weir.Instant, c *Claim) {
	first, near, _ := span(now)
	b.lift(c, first, -1)
	was := *c
	*c = Claim{}
	for s := first; s <= near; s++ {
		pace, burst := was.at(s)
		c.peak.pace, c.peak.burst = max(c.peak.pace, pace), max(c.peak.burst, burst)
	}
	c.peak.through = near
	b.lift(c, first, 1)
}

// Left is the pace that nobody has in the slices of an assignment of now.
func (b *Book) Left(now weir.Instant) int64 {
	first, _, last := span(now)
	left := b.Pace
	for s := first; s <= last; s++ {
		left = min(left, b.page(s).free())
	}
	return left
}
