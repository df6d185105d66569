package weir

import (
	"slices"
	"time"
)

// MaxVersions is how many limits of one rule have a state of a count at a time.
const MaxVersions = 4

// Kept is what is kept of one count: its state by the limit that was asked last
// and, after a rule has changed, by those that were asked before, until they would
// have recovered, but for those that the last one outdoes. Each ask is decided by the
// state of its own limit, and what passes is charged to all. So limits may change back
// and forth, also by turns of several processes: events that one can't hold are there when another
// comes back. The zero Kept is a count never used.
//
// The case to have in mind is a deployment: half of the processes have the rule with
// 100/min and half with 5/s, and ask about the same key by turns. With one state, each
// turn would turn it into the other's terms and lose what those can't say. With a state
// each, both limits count all events.
type Kept struct {
	// Limit decides, and State is by it; nil: nothing is kept, and all else is zero.
	Limit *Limit
	State State
	// Since is the first instant of which charges are in State; receipts from before
	// give nothing back, for their marks are of another state. 0: all give back.
	Since Instant
	// Earlier are at most MaxVersions − 1, in the order in which they were replaced.
	Earlier []Version
}

// Version is the state of a count by an earlier limit of its rule. Events that pass by any limit
// are charged to it too, so that it is right when its limit decides again.
type Version struct {
	Limit *Limit
	State State
	Since Instant // as in Kept
	// Until is when it would have recovered, had nothing passed since another limit took
	// over. From then on it is dropped: all that its own limit let pass is over.
	Until Instant
}

// Alike is whether l and o keep the same states, so that one takes the place of the
// other and nothing is lost: windows of the same times, whatever their counts, and
// permits.
func (l *Limit) Alike(o *Limit) bool { return l == o || l.text == o.text || l.algo.alike(o.algo) }

// Adopt makes a state of l from one that was kept by the limit old: what was
// used stays used, rounded up to whole events. A bucket that follows a bucket counts all
// of it, as debt beyond its burst, but is not in debt for longer than the other would
// have taken to recover. Else no more stays used than l ever passes at once.
func (l *Limit) Adopt(s State, old *Limit, now Instant) State {
	switch {
	case old == nil || old.Alike(l):
		return s
	case old.Fresh(s, now):
		return nil
	}
	return l.algo.adopt(s, old.algo, now.clamp())
}

// Recovers is how long it takes until a count of which all is used at now is as
// never used.
func (l *Limit) Recovers(now Instant) time.Duration {
	s, _ := l.algo.charge(nil, now.clamp(), l.algo.most(), true, 0)
	return l.FreshAfter(s, now)
}

// Clone is a copy that shares no memory with k.
func (k *Kept) Clone() Kept {
	c := *k
	c.State, c.Earlier = slices.Clone(k.State), slices.Clone(k.Earlier)
	for i := range c.Earlier {
		c.Earlier[i].State = slices.Clone(c.Earlier[i].State)
	}
	return c
}

// Become makes limit the one that decides. It is false when MaxVersions others have
// a state: then the one that decided goes on. Aside is events that may still pass by that,
// and are not in its state yet.
//
// It writes to no slice that was there before, so that a copy of k by value stays as
// it was. The limit that decided becomes an earlier one, unless it has recovered or
// the new one outdoes it.
func (k *Kept) Become(limit *Limit, now Instant, aside int64) bool {
	if over := func(v Version) bool { return v.Until <= now }; slices.ContainsFunc(k.Earlier, over) {
		k.Earlier = slices.DeleteFunc(slices.Clone(k.Earlier), over)
	}
	if k.Limit == nil || k.Limit.Alike(limit) {
		k.Limit = limit
		return true
	}
	all := k.State
	if aside > 0 {
		all = k.Limit.Charge(slices.Clone(all), now, aside)
	}
	until := now + Instant(micros(k.Limit.FreshAfter(all, now)))
	before, at := Version{k.Limit, k.State, k.Since, until}, k.find(limit)
	switch {
	case at >= 0:
		k.State, k.Since = k.Earlier[at].State, k.Earlier[at].Since
		k.Earlier = slices.Delete(slices.Clone(k.Earlier), at, at+1)
	case until <= now && len(k.Earlier) == 0:
		k.State = nil
	case until > now && len(k.Earlier) >= MaxVersions-1:
		return false
	default:
		k.State, k.Since = k.View(limit, now), now
	}
	if k.Limit = limit; until > now && !limit.outdoes(before.Limit) {
		k.Earlier = append(slices.Clip(k.Earlier), before)
	}
	return true
}

// outdoes is whether l counts all that o has counted, and lets pass no less than o: then
// a state by o tells nothing that matters.
func (l *Limit) outdoes(o *Limit) bool {
	switch a := l.algo.(type) {
	case *gcra:
		b, ok := o.algo.(*gcra)
		return ok && b.burst > 0 && a.pace.fast(b.pace) && a.burst >= b.burst && a.debt >= b.debt
	case *leakyQueue:
		b, ok := o.algo.(*leakyQueue)
		return ok && b.queue >= 0 && a.pace.fast(b.pace) && a.queue >= b.queue
	case *slidingLog:
		b, ok := o.algo.(*slidingLog)
		return ok && a.period == b.period && a.count >= b.count
	}
	return false
}

// Covers is whether l is at least as loose as o: of whatever events o would let pass, each of them, l lets pass each, too, also
// with events in between that both deny. So no Bound of l is less than that of o. It is false where that is not proved: of two
// algorithms, and of windows of other times.
func (l *Limit) Covers(o *Limit) bool {
	a, b := &l.spec, &o.spec
	switch {
	case l.text == o.text || b.Count == 0:
		return true
	case a.CountDenied:
		return false
	case a.Algorithm.bucket():
		return l.outdoes(o) && (*a.Initial == a.Burst || *a.Initial >= b.Burst)
	case a.Algorithm == LeakyQueue, a.Algorithm == SlidingLog:
		return l.outdoes(o)
	}
	return l.Alike(o) && a.Count >= b.Count && a.Mode == b.Mode && a.TTL <= b.TTL
}

// fast is whether events of v come no later than those of o.
func (v interval) fast(o interval) bool {
	return v.den > 0 && !wider(int64(v.num), o.den, int64(o.num), v.den)
}

// find is the earlier version whose state limit understands, or −1.
func (k *Kept) find(limit *Limit) int {
	return slices.IndexFunc(k.Earlier, func(v Version) bool { return v.Limit.Alike(limit) })
}

// View is the state that limit would decide on, for the caller to change: its own, else
// what follows from the one by which the most is used.
func (k *Kept) View(limit *Limit, now Instant) State {
	if k.Limit == nil || k.Limit.Alike(limit) {
		return slices.Clone(k.State)
	}
	if at := k.find(limit); at >= 0 && k.Earlier[at].Until > now {
		return slices.Clone(k.Earlier[at].State)
	}
	view := limit.Adopt(slices.Clone(k.State), k.Limit, now)
	for _, v := range k.Earlier {
		if v.Until <= now {
			continue
		}
		if other := limit.Adopt(slices.Clone(v.State), v.Limit, now); limit.Used(other, now) > limit.Used(view, now) {
			view = other
		}
	}
	return view
}

// Decide is what a's limit says. One that did not become the one that decides, though
// it is to charge, lets pass only what that lets pass, too.
func (k *Kept) Decide(now Instant, a *Ask) Decision {
	view := k.State
	if k.Limit != nil && !k.Limit.Alike(a.Limit) {
		view = k.View(a.Limit, now)
	}
	d := a.Limit.Decide(view, now, a)
	if k.tells(a) || d.Outcome != Allowed {
		return d
	}
	if own := k.Limit.Decide(k.State, now, a); own.Outcome != Allowed || own.Cost < d.Cost {
		return own
	}
	return d
}

// tells is whether a's limit alone decides.
func (k *Kept) tells(a *Ask) bool { return !a.Charges() || k.Limit == nil || k.Limit.Alike(a.Limit) }

// Charges is whether a would be charged if it were allowed.
func (a *Ask) Charges() bool { return !a.Peek && a.Cost > 0 }

// Commit carries out what Resolve decided, and fills in the rest of d by a's limit. The
// receipt is of the limit that has decided.
func (k *Kept) Commit(now Instant, a *Ask, d *Decision) {
	if a.Charges() && k.Limit == nil {
		k.Limit = a.Limit
	}
	if !a.Charges() || !k.Limit.Alike(a.Limit) {
		own := *d
		a.Limit.Commit(k.View(a.Limit, now), now, a, d)
		if !a.Charges() {
			return
		}
		k.State = k.Limit.Commit(k.State, now, a, &own)
		d.Receipt = own.Receipt
	} else {
		k.State = k.Limit.Commit(k.State, now, a, d)
	}
	d.Date(k.Since)
	if d.Charged {
		k.Hear(now, k.Limit, k.State, d.Cost)
	}
}

// Charge counts events that have passed already, as Limit.Charge does, by all limits that
// k has; it must have one.
func (k *Kept) Charge(now Instant, events int64) {
	if events <= 0 {
		return
	}
	k.State = k.Limit.Charge(k.State, now, events)
	k.Hear(now, k.Limit, k.State, events)
}

// Hear charges all limits but one with events that this has let pass; its is its state
// after them. Permits are no events. It keeps the promise of Kept: each limit's state
// counts what passed by any of them.
func (k *Kept) Hear(now Instant, by *Limit, its State, events int64) {
	if by.spec.Algorithm == Concurrent {
		return
	}
	now = now.clamp()
	p := passedBy(by.algo, its, now, events)
	if k.Limit != by {
		k.State = k.Limit.algo.hear(k.State, now, p)
	}
	for i := range k.Earlier {
		if v := &k.Earlier[i]; v.Limit != by {
			v.State = v.Limit.algo.hear(v.State, now, p)
		}
	}
}

// Settle settles a receipt as Limit.Settle does, by the limit that made it if that has a
// state, else by the one that decides. Use beyond the charge is charged to all.
func (k *Kept) Settle(now Instant, st *Settlement) error {
	if k.Limit == nil {
		k.Limit = st.Receipt.Limit
	}
	limit, state, since := k.Limit, &k.State, k.Since
	if at := k.find(st.Receipt.Limit); at >= 0 && !limit.Alike(st.Receipt.Limit) {
		v := &k.Earlier[at]
		limit, state, since = v.Limit, &v.State, v.Since
	}
	s, err := limit.Settle(*state, now, since, st)
	*state = s
	if more := st.Charged - st.Receipt.Cost; err == nil && more > 0 {
		k.Hear(now, limit, s, more)
	}
	return err
}

// Reset makes k as never used.
func (k *Kept) Reset(now Instant) {
	k.State, k.Since, k.Earlier = nil, max(k.Since, now+1), nil
}

// FreshAfter is how long k has to be kept: until all its limits have recovered.
func (k *Kept) FreshAfter(now Instant) time.Duration {
	if k.Limit == nil {
		return 0
	}
	after := k.Limit.FreshAfter(k.State, now)
	for _, v := range k.Earlier {
		after = max(after, (v.Until - now).Duration())
	}
	return after
}
