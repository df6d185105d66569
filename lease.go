package weir

import "time"

// MaxLease is the longest Policy.Lease: longer ones count as this.
const MaxLease = 10 * time.Second

// Prepaid is how many events of a charge may pass so long after it was made, though none
// has passed yet: with them no interval holds more than if each had been charged when it
// passes. Who takes events beforehand spends no more than this, and the limit then holds
// whatever becomes of the rest.
//
// A bucket refills from the charge on, and could give out again what the charge still holds.
// So a charge melts at the limit's pace. A window's charge lasts until the window ends, and a
// sliding window's until its sub-window ends: until then the store counts an event alike,
// whenever it passes. It is 0 for limits that are Unleasable.
func (l *Limit) Prepaid(r *Receipt, after time.Duration) int64 {
	us := max(micros(after), 0)
	now := (r.Taken + Instant(us)).clamp()
	switch a := l.algo.(type) {
	case *gcra:
		if a.burst > 0 {
			return max(r.Cost-a.pace.eventsUp(moment{us: us}), 0)
		}
	case *fixedWindow:
		if now < a.end(Instant(r.Mark[0])) {
			return r.Cost
		}
	case *slidingWindow:
		if int64(now)/a.sub <= int64(r.Mark[0]) {
			return r.Cost
		}
	}
	return 0
}

// Melts is how many events of a charge melt in a time, as Prepaid has it: 0 for windows, whose
// charges last.
func (l *Limit) Melts(in time.Duration) int64 {
	if g, ok := l.algo.(*gcra); ok && g.burst > 0 {
		return g.pace.eventsUp(moment{us: max(micros(in), 0)})
	}
	return 0
}

// Unleasable says why a process can't take events of l beforehand, and what to take instead;
// empty when it can.
func (l *Limit) Unleasable() string {
	switch s := &l.spec; {
	case s.Anchored:
		return "anchored: the window would begin before the key's first event; take fixed-window, or leave lease out"
	case s.CountDenied:
		return "count-denied: a process that denies by itself would not count it; leave lease out"
	case s.Debt > 0:
		return "debt: a portion would use up the debt, which is for single requests; leave debt or lease out"
	case s.Algorithm == SlidingWindow && s.Mode == Relaxed:
		return "relaxed: a portion may be as large as the limit, whatever is left; take sliding-window, or leave lease out"
	case s.Algorithm == SlidingLog:
		return "sliding-log: each event has its own time in the store; take sliding-window, or leave lease out"
	case s.Algorithm == LeakyQueue:
		return "leaky-queue: each waiting request has a place in one line; take gcra, or leave lease out"
	case s.Algorithm == WarmUp:
		return "warm-up: it works in memory only; take gcra, or leave lease out"
	case s.Algorithm == Concurrent:
		return "concurrent: a permit is held in one place; leave lease out"
	}
	return ""
}
