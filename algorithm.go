package weir

import "time"

// State is what a limit keeps of one key, as words whose meaning is the
// algorithm's. Nil, and all zeros, is "never used". It holds no pointers and
// no seconds since boot, so that it may be written to a file or a wire.
type State []uint64

// words makes s n words long.
func (s State) words(n int) State {
	if len(s) >= n {
		return s
	}
	longer := make(State, n)
	copy(longer, s)
	return longer
}

// mark is what a receipt remembers of a charge.
type mark = [2]uint64

// algorithm is how one kind of limit counts. Its methods are pure: they read
// no clock, and all but charge, owe, refuse, giveBack and hear leave s alone. Times are
// microseconds. now may run backwards: an event may then be denied for longer,
// never allowed sooner.
type algorithm interface {
	// words is the length of a state, or 0 when it grows.
	words() int
	// most is the largest cost that can ever fit.
	most() int64
	// room is the largest cost that fits now when waiting up to patience is
	// fine; −1 when more than the limit is used.
	room(s State, now Instant, patience int64) int64
	// wait is how long until cost, at most most, fits; 0 when that is not known.
	wait(s State, now Instant, cost, patience int64) int64
	// hold is how long a cost that fits has to wait before it goes.
	hold(s State, now Instant, cost int64) int64
	// charge counts cost events, even beyond the limit when forced, but in a bucket
	// not below its debt. The state it returns may share memory with s.
	charge(s State, now Instant, cost int64, forced bool, id uint64) (State, mark)
	// owe counts cost events of work that is done, as debt as far below the limit as
	// a state can stand, and says how many it could count.
	owe(s State, now Instant, cost int64) (State, int64)
	// refuse notes a denied ask, where a denial leaves a trace.
	refuse(s State, now Instant, cost int64) State
	// standing is how many events would pass one by one, and how long until s is
	// as never used.
	standing(s State, now Instant) (remaining, reset int64)
	// giveBack takes back events of the receipt, as far as its stretch is still
	// outstanding, and says how many whole ones.
	giveBack(s State, now Instant, r *Receipt, events int64) (State, int64)
	// newest is the mark of the newest events in use, for giveBack.
	newest(s State, now Instant) mark
	// used is the events in use, rounded up.
	used(s State, now Instant) int64
	// alike is whether states of o are states of this one as they stand.
	alike(o algorithm) bool
	// adopt makes a state of s, kept so far by the algorithm from.
	adopt(s State, from algorithm, now Instant) State
	// hear counts what has passed by another limit, as charge does when forced. A
	// bucket is not beyond its burst for longer than the other takes to recover.
	hear(s State, now Instant, p passed) State
	// bound is the most that can pass in any interval of this width.
	bound(width, largest int64) int64
}

// Words is the length of a state of l, or 0 when states of l grow with use.
func (l *Limit) Words() int { return l.algo.words() }

// Decide is what l alone says to a, given the state of a's key. It changes
// nothing. It leaves Charged, Remaining, NextAfter, ResetAfter and Receipt of the decision to
// Commit, for they depend on what the other limits of the take say.
func (l *Limit) Decide(s State, now Instant, a *Ask) Decision {
	now = now.clamp()
	if a.After {
		return l.decideAfter(s, now, a)
	}
	patience := a.patience()
	room := l.algo.room(s, now, patience)
	d := Decision{Cost: a.Cost}
	if a.AtLeast > 0 && room < a.Cost {
		d.Cost = max(a.AtLeast, room)
	}
	switch {
	case d.Cost <= room:
		d.Outcome = Allowed
		d.Hold = duration(l.algo.hold(s, now, d.Cost))
	case d.Cost > l.algo.most():
		d.Outcome = Impossible
	default:
		d.RetryAfter = duration(l.algo.wait(s, now, d.Cost, patience))
	}
	return d
}

// decideAfter answers a report of work done: would a next event pass?
func (l *Limit) decideAfter(s State, now Instant, a *Ask) Decision {
	d := Decision{Cost: a.Cost}
	next := int64(1)
	if !a.Peek {
		next += a.Cost
	}
	remaining, _ := l.algo.standing(s, now)
	switch {
	case next <= remaining:
		d.Outcome = Allowed
	case l.algo.most() == 0:
		d.Outcome = Impossible
	}
	return d
}

// Commit carries out what Resolve decided: it returns the state to keep and
// fills in the rest of d. The state may share memory with s.
func (l *Limit) Commit(s State, now Instant, a *Ask, d *Decision) State {
	now = now.clamp()
	switch {
	case d.Charged:
		if a.AtLeast > 0 {
			d.Hold = duration(l.algo.hold(s, now, d.Cost)) // others may have been granted less
		}
		var m mark
		s, m = l.algo.charge(s, now, d.Cost, a.After, a.Receipt)
		if a.Receipt != 0 && !a.After {
			d.Receipt = l.receipt(now, a, d, m)
		}
	case d.Outcome == Denied && !a.Peek && d.Cost > 0 && !l.unmet(s, now, a, d):
		s = l.algo.refuse(s, now, d.Cost)
		if l.spec.CountDenied && d.Cost > l.algo.room(s, now, 0) { // what denied it may not be charged
			d.RetryAfter = duration(l.algo.wait(s, now, d.Cost, 0))
		}
	}
	remaining, reset := l.algo.standing(s, now)
	d.Remaining, d.ResetAfter = remaining, duration(reset)
	if remaining == 0 && l.algo.most() > 0 {
		d.NextAfter = duration(l.algo.wait(s, now, 1, 0))
	}
	if a.After && d.Outcome == Denied {
		d.RetryAfter = d.NextAfter
	}
	return s
}

// Charge counts events, 0…MaxCost, that have passed already, within l or not: it returns
// the state that Commit keeps for an Ask of them with After, which is how the rules' charge: after
// counts. Windows hold them past their count, a bucket no more than its debt allows. The state
// may share memory with s. Charge of Kept tells the earlier limits of a count, too.
func (l *Limit) Charge(s State, now Instant, events int64) State {
	if events > 0 {
		s, _ = l.algo.charge(s, now.clamp(), events, true, 0)
	}
	return s
}

// patience is how long the ask is ready to wait, in microseconds.
func (a *Ask) patience() int64 { return micros(min(max(a.MaxHold, 0), MaxWait)) }

// unmet is whether l itself would have allowed what Resolve denied: such a denial
// leaves no trace.
func (l *Limit) unmet(s State, now Instant, a *Ask, d *Decision) bool {
	return a.AtLeast > 0 && !a.After && d.Cost <= l.algo.room(s, now, a.patience())
}

func (l *Limit) receipt(now Instant, a *Ask, d *Decision, m mark) *Receipt {
	life := micros(ReceiptLife) + micros(d.Hold)
	if l.spec.Algorithm == Concurrent {
		life = micros(l.spec.TTL)
	}
	return &Receipt{
		ID: a.Receipt, State: a.State, Limit: l, Cost: d.Cost,
		Taken: now, Expires: now + Instant(life), Mark: m,
	}
}

// Fresh is whether s is as never used, so that it may be dropped.
func (l *Limit) Fresh(s State, now Instant) bool {
	if g, ok := l.algo.(*gcra); ok {
		if is, known := g.fresh(s, now.clamp()); known {
			return is
		}
	}
	return l.FreshAfter(s, now) == 0
}

// FreshAfter is how long s has to be kept: until it is as never used. A bucket
// that was given something back is kept for as long as receipts may remember it.
func (l *Limit) FreshAfter(s State, now Instant) time.Duration {
	now = now.clamp()
	_, reset := l.algo.standing(s, now)
	if g, ok := l.algo.(*gcra); ok && len(s) > 0 {
		reset = max(reset, g.load(s).horizon-int64(now))
	}
	return duration(reset)
}

// Standing is how many events would pass now, one by one, and how long until s
// is as never used.
func (l *Limit) Standing(s State, now Instant) (remaining int64, resetAfter time.Duration) {
	n, reset := l.algo.standing(s, now.clamp())
	return n, duration(reset)
}

// Used is how many events of s are in use, rounded up.
func (l *Limit) Used(s State, now Instant) int64 { return l.algo.used(s, now.clamp()) }

// Settle settles a receipt against the state of its key, kept by l, fills in
// st.Charged and returns the state to keep. since is just after the store last forgot something
// of the rule, because it was reset, evicted, or kept by another limit before:
// receipts from before give nothing back, for what they charged may be gone. It
// fails with ErrExpired or ErrNoPermit, and then has changed nothing. That a
// receipt works once is for the store to see to.
func (l *Limit) Settle(s State, now, since Instant, st *Settlement) (State, error) {
	now = now.clamp()
	r := st.Receipt
	if r.IsRefund() {
		return l.refund(s, now, st), nil
	}
	if c, ok := l.algo.(*concurrent); ok {
		return c.settle(s, now, st)
	}
	switch {
	case r.Limit.spec.Algorithm == Concurrent:
		return s, ErrExpired // l is none of permits any more, and has let go of them
	case st.Renew:
		return s, ErrNoPermit
	case now >= r.Expires:
		return s, ErrExpired
	}
	st.Charged = r.Cost
	switch {
	case st.Used > r.Cost:
		var more int64
		s, more = l.algo.owe(s, now, min(st.Used, MaxCost)-r.Cost)
		st.Charged += more
	case r.Taken >= since && r.Limit.Alike(l):
		var back int64
		s, back = l.algo.giveBack(s, now, r, r.Cost-max(st.Used, 0))
		st.Charged -= back
	}
	return s, nil
}

// refund takes back the newest events in use, of any client's charge: what is left is
// as if those had not passed.
func (l *Limit) refund(s State, now Instant, st *Settlement) State {
	st.Charged = st.Receipt.Cost
	for events := st.Receipt.Cost - max(st.Used, 0); events > 0; {
		var back int64
		if s, back = l.algo.giveBack(s, now, &Receipt{Mark: l.algo.newest(s, now)}, events); back == 0 {
			break
		}
		events, st.Charged = events-back, st.Charged-back
	}
	return s
}

// DenialCounts is whether a denial changes the state: with count-denied, and where
// it starts the clock of a key that begins with less than its burst.
func (l *Limit) DenialCounts() bool {
	return l.spec.CountDenied || l.spec.Initial != nil && *l.spec.Initial < l.spec.Burst
}

// Span is the time that so many events, 0…2^31, take at the even pace of l:
// us + part/of microseconds, exactly. It is for the GCRA family, leaky-queue and
// warm-up; of is 0 for others, and for a count of 0.
func (l *Limit) Span(events int64) (us int64, part, of uint64) {
	pace := l.spec.pace()
	switch l.spec.Algorithm {
	case GCRA, TokenBucket, LeakyBucket, LeakyQueue, WarmUp:
		if pace.den > 0 {
			m := pace.span(events)
			return m.us, m.f, pace.den
		}
	case FixedWindow, SlidingLog, SlidingWindow, Concurrent:
	}
	return 0, 0, 0
}

// Bound is the most events that can pass in any interval [t, t+width) when no
// request costs more than largest: what the limit promises. It holds for
// traffic that is neither reported afterwards nor given back. For concurrent
// permits, which bound no rate, it is the largest int64.
func (l *Limit) Bound(width time.Duration, largest int64) int64 {
	us := micros(width)
	if us <= 0 || l.algo.most() == 0 {
		return 0
	}
	return l.algo.bound(us, min(max(largest, 1), l.algo.most()))
}
