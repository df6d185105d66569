package rlqs

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// bucket is what proxies ask quotas of: the counts of the rules that a bucket id meets, and those who hold
// something of them.
type bucket struct {
	name   string // in the table
	server *Server

	mu      sync.Mutex
	set     *rules.Set
	read    weir.Instant // when the rules were
	counts  []*count
	holders map[*holder]struct{}
	touched weir.Instant
	plan    plan
}

// count is the count of one rule.
type count struct {
	rule *rules.Rule
	key  string
	way  rules.Quota
	book Book

	// Of a count whose portions are prepaid: what remained in the store when it was asked last, when its window
	// ends, and what a portion costs beside its events.
	left  int64
	known bool
	end   weir.Instant
	melts int64
	// failed is until when the store is not asked again.
	failed weir.Instant
	heard  weir.Instant // when the store said so
	// Of a pace that daemons share: the slice in which this one learned last what all ask for; the period of which it knows
	// what others asked for in the one before, and what it tells in it; the period in which it has told; and the part of
	// the pace that is for its proxies.
	told, period, others, tells, toldIn, part int64
}

// plan is how the counts of a bucket are shared, until it is made anew.
type plan struct {
	made    weir.Instant
	level   int64 // the most that one gets: pace, or events of a lump
	wanted  int64 // by all together
	spread  int64 // by how many hundredths of its demand one gets, while there is room
	keep    int64 // thousandths of the pace that are kept for newcomers
	holders int64
	lumps   bool // events, not paces
	room    int64
	came    weir.Instant // the last newcomer
	moved   weir.Instant // when a demand was last another than before
	waiting int64        // holders that have nothing, and are asked for it
	turn    weir.Instant // whoever had something last by then has its turn
	crowded weir.Instant // when the last one found none
}

// holder is a proxy that has reported usage of a bucket, by one stream.
type holder struct {
	bucket  *bucket
	heard   weir.Instant
	counted weir.Instant // since when pending is counted
	pending int64        // events that were asked for since
	demand  int64        // events a minute
	reports int
	idle    int // reports in a row without demand
	given   assignment
	since   weir.Instant // when it began to hold what it has
	served  weir.Instant // when it last got a lump
	claims  [1]Claim     // by booked count; several are in more
	more    []Claim
	// What is charged for it beforehand, what it told that passed of that, and what may still pass: of its present lump, and
	// together with those before, since it may not have heard yet.
	charged, passed, lump, out int64
	lumped                     weir.Instant // when it got the lump
	ends                       weir.Instant // of the window in which charged counts
}

// strategy is what an assignment has a proxy do.
type strategy uint8

// The strategies.
const (
	nothing strategy = iota
	allowAll
	denyAll
	fill
	abandon
)

// assignment is what a proxy was told.
type assignment struct {
	strategy               strategy
	holds, fills, interval int64 // a bucket of tokens: its size, and how many tokens come each so many seconds
	ttl                    int64 // whole seconds
	sent                   weir.Instant
}

// surely is whether the proxy follows it still when it hears what is sent now.
func (a *assignment) surely(now weir.Instant) bool {
	return after(now, Delay) <= after(a.sent, time.Duration(a.ttl)*time.Second)
}

// The words of a plan.
const (
	newcomerKeeps = 100 // thousandths that are kept while proxies come
	calmKeeps     = 5
	calm          = 15 * time.Second // after the last newcomer
	idleReports   = 3                // without demand
	maxSpread     = 115              // hundredths of its demand that one gets at most
	changeTenth   = 10               // a pace that is off by a tenth is changed
	yieldAfter    = TTL              // a bucket is held for so long at least, where there are fewer than proxies
	crowdedFor    = 6 * time.Second  // after somebody found no room
	abandonAfter  = 5 * time.Minute  // without demand
	lumpFor       = 6 * time.Second  // of demand
	longTTL       = 60               // seconds, of lumps that do not melt
	lumpLife      = 30 * time.Minute // a lump is then given anew: so that what fills meanwhile is no event
	lumpInterval  = 7200
	margin        = 3 * time.Second // before a window ends, for the delay and whole seconds
)

// claim is the holder's claim of the i-th count.
func (h *holder) claim(i int) *Claim {
	if i < len(h.claims) {
		return &h.claims[i]
	}
	for len(h.more) <= i-len(h.claims) {
		h.more = append(h.more, Claim{})
	}
	return &h.more[i-len(h.claims)]
}

// newcomer is whether the demand of a holder is not known yet.
func (h *holder) newcomer() bool { return h.reports < 2 }

// tells takes note of a report. moved tells that the demand is another than before.
func (h *holder) tells(now weir.Instant, allowed, denied int64) (moved bool) {
	if h.reports == 0 {
		h.counted = now
	}
	h.heard = now
	h.passed = min(h.passed+allowed, most)
	h.pending = min(h.pending+allowed+denied, most)
	h.out = max(h.out-allowed, 0)
	h.lump = min(h.lump, h.out)
	if now >= after(h.lumped, 2*Delay) { // nothing of an earlier lump passes any more
		h.out = h.lump
	}
	us := int64(now - h.counted)
	if us < int64(time.Second/time.Microsecond) {
		if h.reports == 0 {
			h.reports = 1
		}
		return false
	}
	if h.idle++; h.pending > 0 {
		h.idle = 0
	}
	told := mulDivUp(h.pending, int64(time.Minute/time.Microsecond), us)
	if h.reports > 1 {
		told, moved = smoothed(h.demand, told, mulDivUp(h.demand, us, int64(time.Minute/time.Microsecond)), h.pending)
	}
	h.demand, h.pending, h.counted = told, 0, now
	h.reports++
	return moved
}

// most is the most events that one holder is reckoned with.
const most = int64(1) << 30

// mulDivUp is a × b / c, rounded up, and most at most, for times b and c of a day or less.
func mulDivUp(a, b, c int64) int64 { return min((min(a, most)*b/1000+c/1000-1)/max(c/1000, 1), most) }

// booked is whether a pace of some count is booked.
func (b *bucket) booked() bool {
	for _, c := range b.counts {
		if c.way == rules.QuotaBooked {
			return true
		}
	}
	return false
}

// prepaid is whether portions of some count are charged beforehand.
func (b *bucket) prepaid() bool {
	for _, c := range b.counts {
		if c.way == rules.QuotaPrepaid {
			return true
		}
	}
	return false
}

// wants is what a holder would have if there were enough for all: a pace, or the events of a lump.
func (b *bucket) wants(h *holder, pace, n int64) int64 {
	switch {
	case b.plan.lumps && (h.newcomer() || h.idle >= idleReports):
		return 1
	case b.plan.lumps:
		return (h.demand+h.demand/32)*int64(lumpFor)/int64(time.Minute) + 1
	case h.newcomer():
		return max(pace/(4*n), 1)
	case h.idle >= idleReports:
		return max(pace/(100*n), 1)
	}
	return h.demand + h.demand/64 + 1
}

// share makes the plan anew where it is due.
func (b *bucket) share(now weir.Instant) {
	p := &b.plan
	n := int64(len(b.holders))
	every := min(max(time.Duration(n)*20*time.Millisecond, 200*time.Millisecond), 2500*time.Millisecond)
	if now < after(p.made, every) && p.holders > 0 && now >= p.made {
		if n <= p.holders || n < 2*p.holders && now < after(p.made, every/4) {
			return
		}
	}
	p.lumps = !b.booked()
	pace, room := unbounded, unbounded
	for _, c := range b.counts {
		if c.way == rules.QuotaBooked {
			pace = min(pace, c.part)
		} else if p.lumps {
			room = min(room, c.lumpRoom(now))
		}
	}
	if now < after(p.came, calm) {
		p.keep = newcomerKeeps
	} else {
		p.keep = calmKeeps
	}
	if !p.lumps {
		room = pace - pace*p.keep/1000
	}
	wants := b.server.scratch(int(n))
	p.wanted = 0
	waits := b.server.scratch(0)
	for h := range b.holders {
		if !h.has() && h.idle == 0 {
			waits = append(waits, int64(h.served))
		}
		w := b.wants(h, pace, n)
		wants = append(wants, w)
		p.wanted = min(p.wanted+w, unbounded)
	}
	p.level, p.spread = level(wants, max(room, 0)), 100
	if !p.lumps && p.wanted < room && now >= after(p.moved, calm) {
		p.spread = min(maxSpread, 100*room/max(p.wanted, 1))
	}
	b.server.scratched(wants)
	p.waiting, p.turn = int64(len(waits)), weir.Instant(unbounded)
	if many := b.places(max(room, 1)); many < p.waiting {
		slices.Sort(waits)
		p.turn = weir.Instant(waits[many-1])
	}
	b.server.scratched(waits)
	p.made, p.holders, p.room = now, n, room
}

// places is for how many at a time there is something, where there is less than one event for each.
func (b *bucket) places(room int64) int64 {
	if !b.plan.lumps {
		for _, c := range b.counts {
			if c.way == rules.QuotaBooked {
				room = min(room, max(c.book.Burst/2, 1))
			}
		}
		return room
	}
	if !b.lasting() {
		return 1
	}
	return room
}

// turn is whether a holder is among those whose turn it is: those who had something the longest time ago.
func (b *bucket) turn(h *holder) bool { return h.served <= b.plan.turn }

// lumpRoom is how many events may be given as lumps now, as far as is known.
func (c *count) lumpRoom(now weir.Instant) int64 {
	if c.end == 0 { // a bucket, or a window of which nothing is used
		return max(c.left/8, min(c.left, 1))
	}
	left := max((c.end-now).Duration()-margin, lumpFor)
	return min(c.left, mulDiv(max(c.left, 0), int64(lumpFor), int64(left))+1)
}

// decide is what to tell a holder that has reported; ok is false where there is nothing to tell.
func (b *bucket) decide(ctx context.Context, now weir.Instant, h *holder) (a assignment, ok bool) {
	switch {
	case len(b.counts) == 0:
		if h.given.strategy == allowAll && now < after(h.given.sent, longTTL*time.Second/2) {
			return a, false
		}
		return assignment{strategy: allowAll, ttl: longTTL}, true
	case h.idle > 0 && now >= after(h.since, abandonAfter) && h.idle >= int(abandonAfter/(5*time.Second)):
		b.drop(now, h)
		return assignment{strategy: abandon}, true
	}
	if !b.ask(ctx, now) {
		return a, false // what it has runs out
	}
	b.share(now)
	if b.plan.lumps {
		return b.decideLump(ctx, now, h)
	}
	return b.decidePace(ctx, now, h)
}

// drop takes back what a holder has, from when its proxy must have heard.
func (b *bucket) drop(now weir.Instant, h *holder) {
	for i, c := range b.counts {
		if c.way == rules.QuotaBooked {
			c.book.Drop(now, h.claim(i))
		}
	}
	h.lump = 0 // out stays: it may not hear in time
}

// deny has a proxy deny all, as long as nothing better can come.
func (b *bucket) deny(now weir.Instant, h *holder, ttl int64) (a assignment, ok bool) {
	b.plan.crowded = now
	if g := &h.given; g.strategy == denyAll && after(now, Delay+5*time.Second) < after(g.sent, time.Duration(g.ttl)*time.Second) {
		return a, false
	}
	b.drop(now, h)
	return assignment{strategy: denyAll, ttl: max(ttl, int64(TTL/time.Second))}, true
}

// decidePace tells of a bucket that fills.
func (b *bucket) decidePace(ctx context.Context, now weir.Instant, h *holder) (a assignment, ok bool) {
	pace, n := unbounded, int64(len(b.holders))
	burst := unbounded
	for _, c := range b.counts {
		if c.way == rules.QuotaBooked {
			pace, burst = min(pace, c.part), min(burst, c.book.Burst)
		}
	}
	target := max(min(b.wants(h, pace, n), b.plan.level), 1)
	if !h.newcomer() {
		target = target * b.plan.spread / 100
	}
	holds := target/900 + min(target/300, 4) + 1
	if b.plan.level == unbounded && now >= after(b.plan.came, calm) {
		holds = target/60 + 2
	}
	holds = max(min(holds, burst*7/8/n), 1)
	g := &h.given
	if h.has() && h.reports > 2 && b.plan.crowded != 0 && now < after(b.plan.crowded, crowdedFor) && burst/2 < n &&
		now >= after(h.since, yieldAfter) && b.plan.waiting > 0 {
		b.plan.waiting--
		h.served = now
		return b.deny(now, h, 0)
	}
	if h.idle == 0 && g.strategy == denyAll && now < after(b.plan.crowded, crowdedFor) && !b.turn(h) {
		return b.deny(now, h, 0)
	}
	if g.strategy == fill && g.surely(now) && !b.moves(now, h, target, holds) && b.extend(ctx, now, h) {
		return assignment{fill, g.holds, g.fills, g.interval, int64(TTL / time.Second), 0}, true
	}
	return b.give(ctx, now, h, target, holds)
}

// pace is that of a holder's bucket, 0 where it has none.
func (h *holder) pace() int64 {
	if h.given.strategy != fill || h.given.interval == lumpInterval {
		return 0
	}
	return h.given.fills * 60 / h.given.interval
}

// has is whether a holder has a bucket.
func (h *holder) has() bool { return h.given.strategy == fill }

// moves is whether a holder's bucket is so far off its target that a new one is worth its events, and there is room for
// it.
func (b *bucket) moves(now weir.Instant, h *holder, target, holds int64) bool {
	pace := h.pace()
	off, lower := target-pace, int64(changeTenth)
	if b.plan.level < unbounded { // others want what it has too much
		lower = 3 * changeTenth
	}
	if -off*lower > pace {
		return true
	}
	settled := true
	for i, c := range b.counts {
		if c.way == rules.QuotaBooked {
			left := c.book.Left(now)
			off = min(off, left-c.book.Pace*b.plan.keep/1000)
			holds = min(holds, left/2/perEvent)
			settled = settled && h.claim(i).peak.through < sliceAt(now)
		}
	}
	return off*changeTenth > pace || settled && (off*100 > pace || holds >= 3*h.given.holds)
}

// extend promises a holder for longer what it has.
func (b *bucket) extend(ctx context.Context, now weir.Instant, h *holder) bool {
	for i, c := range b.counts {
		if c.way == rules.QuotaBooked && !c.book.Extend(now, h.claim(i)) {
			return false
		}
	}
	return b.pay(ctx, now, h, h.given.holds, h.pace(), false)
}

// give gives a holder a new bucket.
func (b *bucket) give(ctx context.Context, now weir.Instant, h *holder, target, holds int64) (a assignment, ok bool) {
	keep := b.plan.keep
	if h.newcomer() {
		keep = 0
		b.plan.came = now
	}
	pace := target
	for i, c := range b.counts {
		if c.way != rules.QuotaBooked {
			continue
		}
		p, m, ok := c.book.Give(now, h.claim(i), pace, holds, keep)
		if !ok {
			// What it has goes on for as long as it is promised, or as long as it can be.
			if g := &h.given; g.strategy == fill && g.surely(now) && i == 0 {
				if b.extend(ctx, now, h) {
					return assignment{fill, g.holds, g.fills, g.interval, int64(TTL / time.Second), 0}, true
				}
				b.plan.crowded = now
				return a, false
			}
			return b.deny(now, h, 0)
		}
		pace, holds = p, m
	}
	a = assignment{strategy: fill, holds: holds, ttl: int64(TTL / time.Second)}
	a.fills, a.interval, pace = filled(pace)
	if g := &h.given; g.strategy == fill && a.holds == g.holds && a.fills == g.fills {
		// A proxy that compares sees no difference in whole seconds alone, and would keep the bucket that it has.
		if a.holds > 1 {
			a.holds--
		} else if a.fills > 1 {
			a.fills--
			pace = a.fills * 60 / a.interval
		} else {
			return b.deny(now, h, 0)
		}
	}
	if a.fills < 1 {
		return b.deny(now, h, 0)
	}
	for i, c := range b.counts {
		if c.way == rules.QuotaBooked {
			c.book.Fit(now, h.claim(i), pace)
		}
	}
	if !b.pay(ctx, now, h, a.holds, pace, true) {
		return b.deny(now, h, b.untilEnd(now))
	}
	if !h.has() {
		h.since = now
	}
	return a, true
}

// untilEnd is how many whole seconds there are until the windows of counts end of which nothing is left.
func (b *bucket) untilEnd(now weir.Instant) int64 {
	var ends weir.Instant
	for _, c := range b.counts {
		if c.way == rules.QuotaPrepaid && c.end > now && c.left < 1 {
			ends = max(ends, c.end)
		}
	}
	if ends == 0 {
		return 0
	}
	return int64((ends - now).Duration() / time.Second)
}
