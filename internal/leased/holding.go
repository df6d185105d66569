package leased

import (
	"time"

	"github.com/weir-limit/weir"
)

// Holding is what a node has taken of one count beforehand, and what it knows of the rest. Its
// methods read no clock: now is the time since some moment of the node's own, on a clock that
// never steps. The zero Holding has no limit, and needs Begin.
//
// Why nothing passes beyond the limit: the store has charged each event before it passes, and no node
// spends an event that the store may have given out again, which Limit.Prepaid says. The node counts
// the age of a portion from before it asked, and by a 64th faster than its clock, so that its
// clock may be slower than the store's.
type Holding struct {
	limit  *weir.Limit
	lease  time.Duration // of Policy.Lease, at most weir.MaxLease
	nodes  int           // of Policy.Nodes
	whole  int64
	turn   time.Duration // Turn of both
	window bool          // its events don't melt

	// receipt is of the portion; nil: there is none. asked is when the store was asked for it, and spent
	// is how many of its events have passed, less those that the portion before has left it (Keeps).
	receipt *weir.Receipt
	asked   time.Duration
	spent   int64
	before  *weir.Receipt // of the portion that left it some; meant while spent is below 0
	// have is what was left of it when Decide looked last, less what has been spent since.
	have int64
	// drained is when a bucket of nothing but the portion's events that have passed, each at its time, would
	// be empty.
	drained time.Duration

	// What the store said last: what remained, when it would be as never used, and when that was.
	remaining int64
	reset     time.Duration
	heard     time.Duration

	// wanted is the events that were asked for since, whatever became of them. demand is that, by
	// the time that a portion lasts.
	wanted int64
	since  time.Duration
	demand int64

	// denied is the least cost that is denied until then, without asking the store; 0: none. free is
	// when the store lets it pass, if nobody asks.
	denied      int64
	until, free time.Duration
	seen        weir.Evidence // how the count stood then, with the portion
}

// Begin has h hold events of l by p from now on. What it held must have been given back.
func (h *Holding) Begin(now time.Duration, l *weir.Limit, p *weir.Policy) {
	*h = Holding{
		limit: l, lease: span(p.Lease), nodes: p.Nodes, whole: whole(l), turn: Turn(l, p.Lease),
		window: l.Melts(weir.MaxLease) == 0, since: now, heard: now,
	}
	h.remaining, _ = l.Standing(nil, 0)
}

// Fits is whether h holds events of this limit, by this policy. The text tells: rules that are loaded
// anew have other Limits of the same text.
func (h *Holding) Fits(l *weir.Limit, p *weir.Policy) bool {
	return h.limit != nil && (h.limit == l || h.limit.String() == l.String()) &&
		h.lease == span(p.Lease) && h.nodes == p.Nodes
}

// Left is how many events of the portion may still pass.
func (h *Holding) Left(now time.Duration) int64 {
	if h.receipt == nil {
		return 0
	}
	good := h.receipt.Limit.Prepaid(h.receipt, aged(now-h.asked))
	if good == 0 { // spent may be below 0
		return 0
	}
	return max(good-h.spent, 0)
}

// Has is whether the portion is this one, and all its events that were spent could pass now.
func (h *Holding) Has(now time.Duration, r *weir.Receipt) bool {
	good := r.Limit.Prepaid(r, aged(now-h.asked))
	return h.receipt == r && good > 0 && good >= h.spent
}

// aged is an age by a clock that may be slower than another.
func aged(age time.Duration) time.Duration { return age + age/64 }

// Verdict is who answers an ask.
type Verdict uint8

// The verdicts.
const (
	ByNode  Verdict = iota
	Short           // the node could, with a portion that is large enough
	ByStore         // the node never can
)

// Wants counts events that are asked for, whatever becomes of them.
func (h *Holding) Wants(cost int64) { h.wanted = min(h.wanted+cost, mostCounted) }

// Decide is what h says of a cost; Commit completes it.
func (h *Holding) Decide(now time.Duration, cost int64, d *weir.Decision) Verdict {
	h.have = h.Left(now)
	switch {
	case cost > h.whole:
		return ByStore
	case h.have >= cost:
		*d = weir.Decision{Outcome: weir.Allowed, Cost: cost}
	case h.denied > 0 && cost >= h.denied && now < h.until:
		if h.have > 0 {
			return ByStore // it may be denied for what h holds
		}
		*d = weir.Decision{Outcome: weir.Denied, Cost: cost, RetryAfter: micros(max(h.until, h.free) - now)}
	default:
		return Short
	}
	return ByNode
}

// Commit carries out what weir.Resolve said of a decision, and fills in the rest of it.
func (h *Holding) Commit(now time.Duration, d *weir.Decision) {
	if d.Charged {
		h.spent += d.Cost
		h.have -= d.Cost
		h.pass(now, d.Cost)
	}
	h.tell(now, d)
}

// tell fills in what a decision says of the count: what this node may still pass, and what remained in
// the store. What the portion loses as it melts is what comes back there.
func (h *Holding) tell(now time.Duration, d *weir.Decision) {
	d.Remaining = h.have
	if d.Outcome == weir.Allowed && h.receipt != nil {
		d.Remaining = min(h.remaining+h.receipt.Cost-h.spent, h.whole)
	}
	d.ResetAfter = micros(max(h.heard+h.reset-now, 0))
	if d.Remaining == 0 {
		d.NextAfter = max(d.RetryAfter, h.next(now))
	}
	d.ResetAfter = max(d.ResetAfter, d.NextAfter)
}

// next is how long until one event passes when none remains, as far as is known.
func (h *Holding) next(now time.Duration) time.Duration {
	if us, part, of := h.limit.Span(1); of > 0 {
		if part > 0 {
			us++
		}
		return time.Duration(us) * time.Microsecond
	}
	return micros(max(h.heard+h.reset-now, time.Microsecond))
}

// micros is d in whole microseconds, rounded up.
func micros(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// tellEvidence tells how the count stood when the store was asked last.
func (h *Holding) tellEvidence(e *weir.Evidence) {
	if e != nil && h.seen.Told {
		e.Tell(h.seen.At, h.seen.State)
	}
}

// Low is whether the portion was nearly used up at the last Decide, and more of it is wanted: then the node
// asks before somebody has to wait.
func (h *Holding) Low(now time.Duration) bool {
	return h.receipt != nil && h.receipt.Cost >= lowPart && now >= h.until &&
		h.have <= h.receipt.Cost/lowPart
}

// Need is how many events to ask the store for, and how many at least, so that a request of this cost
// may pass; with 0 at least all of them.
func (h *Holding) Need(now time.Duration, cost int64) (events, least int64) {
	n := need{
		cost: cost, demand: h.reckon(now), whole: h.whole, left: h.left(now), shares: max(leastShares, int64(h.nodes)),
	}
	n.melts = min(h.limit.Melts(Lasts(h.lease)), mostCounted)
	events = n.size()
	if h.window { // what is left stays, if the window does
		events = max(events-h.Left(now), cost)
	}
	if h.denied > 0 || events > n.left/2 {
		return events, cost
	}
	return events, 0
}

// reckon is how many events are asked for while a portion lasts. It grows as soon as more are asked for,
// and falls by half at a time, for it may be a pause. The first request says nothing of the next.
func (h *Holding) reckon(now time.Duration) int64 {
	if h.receipt == nil && h.denied == 0 && h.reset == 0 {
		return 0
	}
	span := max(now-h.since, h.lease)
	demand := min(h.wanted*int64(Lasts(h.lease)/time.Microsecond)/int64(span/time.Microsecond), mostCounted)
	if now-h.since < h.lease {
		return max(demand, h.demand)
	}
	h.demand = max(demand, (demand+h.demand)/2)
	h.wanted, h.since = 0, now
	return h.demand
}

// left is what remains in the store, as far as is known: what it said, and what has come back since.
func (h *Holding) left(now time.Duration) int64 {
	since := now - h.heard
	if h.window && since >= h.reset {
		return h.whole
	}
	return min(h.remaining+h.limit.Melts(since), h.whole)
}

// Keeps is whether the few events that are left of the portion stay beside those of a new one, as both are good
// until the same time. That spares a settlement for each portion.
func (h *Holding) Keeps(now time.Duration, next *weir.Receipt) bool {
	return h.window && h.receipt != nil && next.Mark[0] == h.receipt.Mark[0] && h.Left(now) <= h.receipt.Cost/lowPart
}

// Hear takes note of the store's answer to a Need that was asked at that time for a request of this
// cost. An answer that grants events is of the portion from now on, and those of the request have
// passed. Return must have been called, unless it Keeps.
func (h *Holding) Hear(asked, now time.Duration, events, cost int64, d *weir.Decision, seen *weir.Evidence) {
	h.remaining, h.reset, h.heard = d.Remaining, d.ResetAfter, now
	h.denied, h.seen = 0, *seen
	if d.Outcome == weir.Allowed && d.Receipt != nil {
		h.spent = cost - h.Left(now)
		h.before, h.receipt, h.asked = h.receipt, d.Receipt, asked
		h.drained = 0
		h.pass(now, cost)
	}
	inTurn := h.demand * int64(h.turn/time.Microsecond) / int64(Lasts(h.lease)/time.Microsecond)
	if d.Outcome == weir.Allowed && (d.Cost >= events || d.Cost-cost >= inTurn) {
		return
	}
	h.denied = max(cost, 1)
	again := d.RetryAfter
	if d.Outcome == weir.Allowed { // it has given all that it had
		h.denied, again = 1, d.NextAfter
	}
	h.until, h.free = now+h.turn, asked+again
	if again > h.turn {
		h.until = asked + min(again, remembered)
	}
}

// remembered is how long a denial is remembered at most: what others give back, reset or change is seen
// within it.
const remembered = time.Second

// pass takes note of events of a portion that pass.
func (h *Holding) pass(now time.Duration, cost int64) {
	if us, _, of := h.limit.Span(cost); of > 0 {
		d := time.Duration(us+1) * time.Microsecond
		h.drained = max(h.drained, now) + d + d/64
	}
}

// Returned is that the store has something back of h: it may pass what it denied, and is asked after a turn.
func (h *Holding) Returned(now time.Duration) { h.until = min(h.until, now+h.turn) }

// Unspend gives a request's events back to the portion that they are of: another limit denied it. It says no
// where the portion has gone.
func (h *Holding) Unspend(of *weir.Receipt, cost int64) bool {
	if of != h.receipt {
		return false
	}
	h.spent -= cost
	return true
}

// Back is a portion on its way back to the store.
type Back struct {
	// Now is what can go back at once. Events that passed long after the charge have drained less than the
	// store believes: a charge that is settled for them alone would be taken for drained as if they had
	// passed at once, and as many more would pass. So as much stays charged as has drained since, and has to
	// drain yet.
	Now weir.Settlement
	// All is what can go back After the events have drained, in place of Now; with 0 that is the same, or would
	// take longer than a portion lasts: then the rest of it drains meanwhile, too.
	All   weir.Settlement
	After time.Duration
	// Also can go back at once, beside it: what is left of the portion before. Without a receipt that is nothing.
	Also weir.Settlement
}

// Each calls do with what can go back at once.
func (b *Back) Each(do func(weir.Settlement)) {
	do(b.Now)
	if b.Also.Receipt != nil {
		do(b.Also)
	}
}

// Return takes the portion out of h, to be given back: nothing of it is spent any more. It says no
// where that is not worth a call: all is spent, it has melted and the store has it back, or there
// is so much left that the limit recovers by itself before somebody misses it.
func (h *Holding) Return(now time.Duration) (b Back, worth bool) {
	r := h.receipt
	if r == nil {
		return b, false
	}
	h.receipt = nil
	b.Now = weir.Settlement{Receipt: r, Used: max(h.spent, 0)}
	if h.spent < 0 {
		b.Also = weir.Settlement{Receipt: h.before, Used: h.before.Cost + h.spent}
	}
	b.All = b.Now
	if !h.window && now < h.drained {
		drains := h.limit.Melts(h.drained-now) + h.limit.Melts(aged(now-h.asked))
		b.Now.Used = min(max(h.spent, drains), r.Cost)
		if b.Now.Used > h.spent && h.drained-now < Lasts(h.lease) {
			b.After = h.drained - now + 1
		}
	}
	plenty := !h.window && h.left(now) >= h.whole-h.whole/largestPart
	return b, h.spent < r.Cost && !plenty && now-h.asked < h.outstanding(r)
}

// old is whether the portion is held for so long that it is to go back: its receipt does not live much longer.
func (h *Holding) old(now time.Duration) bool { return now-h.asked >= 2*Lasts(h.lease) }

// outstanding is for how long something of a charge may be outstanding.
func (h *Holding) outstanding(r *weir.Receipt) time.Duration {
	if !h.window {
		return (weir.Instant(r.Mark[0]) + 1 - r.Taken).Duration()
	}
	return h.reset
}
