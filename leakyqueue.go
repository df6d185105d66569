package weir

// leakyQueue is the leaky bucket as a queue: events leave one by one at an even
// pace, first in, first out. Its slots are virtual: nothing is stored but when
// the next slot is free, and a caller is told how long to wait for its own.
//
//	word 0   the next free slot, whole microseconds since 1970
//	word 1   bits 0–29: its fraction f of f/den µs; bits 30–63: the shift
//
// A charge for work that is done takes slots, too, up to owing intervals ahead. Where there is no
// room for all of a charge, the shift tells it from the charge before, as in gcra.
//
// One event leaves at once and at most queue wait; a cost of n takes n slots
// and goes when its first one comes.
//
// The arithmetic is gcra's with a burst of queue + 1, and exact for the same reason. The
// difference is in the answer: what gcra lets pass at once is here told to wait until
// its slot. The caller has to keep to that, for nothing is delivered to it.
type leakyQueue struct {
	pace interval
	// queue is how many may wait, 0…MaxCount; −1 for a count of 0, which has no slots
	// and lets nothing pass.
	queue int64
	// full is queue + 1 intervals: how far ahead the next free slot may be after a
	// charge, within MaxDrain.
	full moment

	// owing is the slots that may be taken in all, those of work that cost more than
	// was charged among them; lowest is owing intervals.
	owing  int64
	lowest moment
}

func newLeakyQueue(s *Spec) algorithm {
	q := &leakyQueue{pace: s.pace(), queue: *s.Queue}
	if s.Count == 0 {
		q.queue = -1
		return q
	}
	q.full = q.pace.span(q.queue + 1)
	q.owing = q.pace.owing(q.queue + 1)
	q.lowest = q.pace.span(q.owing)
	return q
}

func (q *leakyQueue) words() int  { return 2 }
func (q *leakyQueue) most() int64 { return q.queue + 1 }

// ahead is how long until the next free slot. One that now has passed is free at once.
func (q *leakyQueue) ahead(s State, now Instant) moment {
	if len(s) < 2 || int64(s[0]) < int64(now) {
		return moment{}
	}
	return moment{int64(s[0]) - int64(now), s[1] & fractionMask}
}

// room heeds patience as the longest age: a caller that would be held for longer is turned away at
// once. No patience means as long as the queue is.
func (q *leakyQueue) room(s State, now Instant, patience int64) int64 {
	if q.queue < 0 {
		return 0
	}
	a := q.ahead(s, now)
	if q.full.less(a) {
		return -1
	}
	if patience > 0 && a.ceil() > patience {
		return 0
	}
	return q.pace.events(q.pace.sub(q.full, a))
}

func (q *leakyQueue) wait(s State, now Instant, cost, patience int64) int64 {
	a := q.ahead(s, now)
	var us int64
	if end := q.pace.add(a, q.pace.span(cost)); q.full.less(end) {
		us = q.pace.sub(end, q.full).ceil()
	}
	if patience > 0 && cost > 0 {
		us = max(us, a.ceil()-patience)
	}
	return us
}

// hold is until the first slot of the cost, rounded up to the microsecond: a caller is
// never told to go before its slot.
func (q *leakyQueue) hold(s State, now Instant, cost int64) int64 {
	if cost == 0 {
		return 0
	}
	return q.ahead(s, now).ceil()
}

func (q *leakyQueue) charge(s State, now Instant, cost int64, forced bool, _ uint64) (State, mark) {
	if q.queue < 0 {
		return s, mark{}
	}
	a := q.ahead(s, now)
	next, fits := q.pace.add(a, q.pace.span(min(cost, q.most()))), true
	if forced {
		fits = cost <= q.most() && !q.full.less(next)
		next = capped(next, a, q.full)
	}
	s = q.move(s, now, next, lost(fits))
	return s, mark{s[0], s[1]}
}

// move makes the next free slot run ahead by next, with so many steps more of the
// shift, which matters only while there is somebody in the queue.
func (q *leakyQueue) move(s State, now Instant, next moment, steps uint64) State {
	s = s.words(2)
	shift := steps
	if q.ahead(s, now) != (moment{}) {
		shift += s[1] >> fractionBits
	}
	s[0], s[1] = uint64(int64(now)+next.us), next.f|shift&shiftMask<<fractionBits
	return s
}

func (q *leakyQueue) owe(s State, now Instant, cost int64) (State, int64) {
	if q.queue < 0 {
		return s, 0
	}
	next, counted := q.pace.owe(q.ahead(s, now), q.lowest, cost, q.owing)
	return q.move(s, now, next, lost(counted == cost)), counted
}

func (q *leakyQueue) refuse(s State, _ Instant, _ int64) State { return s }

func (q *leakyQueue) standing(s State, now Instant) (remaining, reset int64) {
	if q.queue < 0 {
		return 0, 0
	}
	a := q.ahead(s, now)
	return max(q.room(s, now, 0), 0), a.ceil()
}

func (q *leakyQueue) newest(s State, _ Instant) mark {
	if len(s) < 2 {
		return mark{}
	}
	return mark{s[0], s[1]}
}

// giveBack frees the last slots of the queue, and no others: callers behind them
// were told when to go, so a slot in the middle that was used again would let
// two go at once. The receipt's mark is the state after its charge: while that is the
// state, its slots are the last.
func (q *leakyQueue) giveBack(s State, now Instant, r *Receipt, events int64) (State, int64) {
	if q.queue < 0 || events <= 0 || len(s) < 2 || s[0] != r.Mark[0] || s[1] != r.Mark[1] {
		return s, 0
	}
	a := q.ahead(s, now)
	if a == (moment{}) {
		return s, 0 // all have gone, so nothing moves: now may be later than what comes next
	}
	back := q.pace.span(min(events, q.most()))
	if a.less(back) {
		back = a
	}
	return q.move(s, now, q.pace.sub(a, back), 0), q.pace.events(back)
}

func (q *leakyQueue) used(s State, now Instant) int64 {
	if q.queue < 0 {
		return 0
	}
	return q.pace.eventsUp(q.ahead(s, now))
}

func (q *leakyQueue) alike(o algorithm) bool {
	p, ok := o.(*leakyQueue)
	return ok && *q == *p
}

func (q *leakyQueue) adopt(s State, from algorithm, now Instant) State {
	p := passedBy(from, s, now, from.used(s, now))
	if p.reset == 0 {
		p.events = min(p.events, q.most())
	}
	return q.hear(nil, now, p)
}

// hear makes the queue as long as what has passed elsewhere, and no shorter than another
// queue whose last slot is still to come.
func (q *leakyQueue) hear(s State, now Instant, p passed) State {
	if q.queue < 0 {
		return s
	}
	next, whole := q.pace.after(p, q.ahead(s, now), q.full)
	if due := (moment{us: p.due}); next.less(due) {
		next = due // else two queues would let go at once
	}
	if next == (moment{}) {
		return s
	}
	return q.move(s, now, next, lost(whole))
}

// bound counts events as they go, after their hold: one an interval, but a
// request's own events together. It has no burst in it: that is what a queue is for.
func (q *leakyQueue) bound(width, largest int64) int64 {
	return paced(q.pace, width, largest)
}
