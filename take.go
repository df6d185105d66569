package weir

// Take decides about cost events and charges them: what Decide, Resolve and
// Commit do with an Ask of nothing but a cost. It overwrites d and returns the
// state to keep, which may share memory with s.
func (l *Limit) Take(s State, now Instant, cost int64, d *Decision) State {
	switch algo := l.algo.(type) {
	case *gcra:
		if algo.take(s, now.clamp(), cost, d) {
			return s
		}
	case *fixedWindow:
		if algo.take(s, now.clamp(), cost, d) {
			return s
		}
	case *slidingWindow:
		if algo.take(s, now.clamp(), cost, d) {
			return s
		}
	case *concurrent:
		if next, ok := algo.take(s, now.clamp(), cost, d); ok {
			return next
		}
	case *slidingLog:
		if next, ok := algo.take(s, now.clamp(), cost, d); ok {
			return next
		}
	}
	asks := [1]Ask{{Limit: l, Cost: cost}}
	out := [1]Decision{l.Decide(s, now, &asks[0])}
	Resolve(asks[:], out[:])
	s = l.Commit(s, now, &asks[0], &out[0])
	*d = out[0]
	return s
}

// Peek fills in d with what Take would answer if it charged nothing, as for an Ask with
// Peek. It knows only the states of two words that Take decides in one go, and says whether
// this is one. It gets a copy of the state, so a store may call it without the lock of the
// key.
func (l *Limit) Peek(s [2]uint64, now Instant, cost int64, d *Decision) (known bool) {
	now = now.clamp()
	before := s // take writes the state that it is given
	switch algo := l.algo.(type) {
	case *gcra:
		if known = algo.take(s[:], now, cost, d); known && d.Charged {
			d.withhold(algo.standing(before[:], now))
		}
	case *fixedWindow:
		if known = algo.take(s[:], now, cost, d); known && d.Charged {
			d.withhold(algo.standing(before[:], now))
		}
	}
	return known
}

// withhold makes d the decision of a limit that allows and is not charged. As much as d
// asks for remains, so there is no time to wait for the next event.
func (d *Decision) withhold(remaining, reset int64) {
	d.Charged, d.Remaining, d.NextAfter, d.ResetAfter = false, remaining, 0, duration(reset)
}

// take does in one go what the rest of gcra does in steps, for the state that
// almost every key is in: no shift and no horizon in its words, so the words are the
// arrival time as they stand. It says whether it has.
//
// It writes the state only when it allows: a denial leaves a copy of the state good.
func (g *gcra) take(s State, now Instant, cost int64, d *Decision) bool {
	if !g.plain || len(s) < 2 || cost < 1 || cost > g.burst || s[0]>>arrivalBits|s[1]>>fractionBits != 0 {
		return false
	}
	span := g.one
	if cost > 1 {
		span = g.pace.span(cost)
	}
	var a moment
	if us := int64(s[0]); us >= int64(now) {
		a = moment{us - int64(now), s[1]}
	}
	next := g.pace.add(a, span)
	if g.full.less(next) {
		g.deny(a, next, cost, d)
		return true
	}
	s[0], s[1] = uint64(int64(now)+next.us), next.f
	*d = Decision{Outcome: Allowed, Charged: true, Cost: cost, ResetAfter: duration(next.ceil())}
	if then := g.pace.add(next, g.one); g.full.less(then) {
		d.NextAfter = duration(g.pace.sub(then, g.full).ceil())
	} else {
		d.Remaining = g.pace.events(g.pace.sub(g.full, next))
	}
	return true
}

// deny fills in d for a bucket whose time runs ahead by a, and would by next.
func (g *gcra) deny(a, next moment, cost int64, d *Decision) {
	*d = Decision{Cost: cost, RetryAfter: duration(g.pace.sub(next, g.full).ceil()), ResetAfter: duration(a.ceil())}
	switch {
	case cost == 1:
		d.NextAfter = d.RetryAfter
	case g.full.less(g.pace.add(a, g.one)):
		d.NextAfter = duration(g.pace.sub(g.pace.add(a, g.one), g.full).ceil())
	default:
		d.Remaining = g.pace.events(g.pace.sub(g.full, a))
	}
}

// take is the whole of a take, for a limit whose denials leave no trace. It writes the
// state only when it allows, as gcra's does.
func (w *fixedWindow) take(s State, now Instant, cost int64, d *Decision) bool {
	if len(s) < 2 || cost < 1 || cost > w.count || w.countDenied {
		return false
	}
	begin, end, used := w.window(s, now)
	*d = Decision{Cost: cost, ResetAfter: duration(int64(end - now))}
	if cost <= w.count-used {
		used += cost
		s[0], s[1] = uint64(begin), uint64(used)
		d.Outcome, d.Charged = Allowed, true
	} else {
		d.RetryAfter = d.ResetAfter
	}
	if d.Remaining = max(w.count-used, 0); d.Remaining == 0 {
		d.NextAfter = d.ResetAfter
	}
	return true
}

// take unpacks the counts once for the whole decision, where Decide and Commit would
// do it several times.
func (w *slidingWindow) take(s State, now Instant, cost int64, d *Decision) bool {
	if len(s) < w.words() || cost < 1 || cost > w.count || w.countDenied {
		return false
	}
	if int64(s[0]) == int64(now)/w.sub && w.add(s, now, cost, d) {
		return true
	}
	var c subCounts
	w.unpack(s, now, &c)
	*d = Decision{Cost: cost}
	events, rounded := w.free(&c.estimate)
	if cost <= w.fitting(events, rounded) {
		events = max(events-cost, -1)
		c.counts[0] += uint32(cost) // which fits: both are at most 2^30
		w.pack(s, &c)
		d.Outcome, d.Charged = Allowed, true
	} else {
		d.RetryAfter = duration(w.wait(s, now, cost, 0))
	}
	remaining, reset := w.stands(&c, now, events, rounded)
	d.Remaining, d.ResetAfter = remaining, duration(reset)
	if remaining == 0 {
		d.NextAfter = duration(w.wait(s, now, 1, 0))
	}
	return true
}

// add takes in the sub-window of the last take, if cost fits and leaves more:
// then only the sums of the counts matter. It adds two counts a word without unpacking
// them, and writes the low half of the second word, which is the newest count.
func (w *slidingWindow) add(s State, now Instant, cost int64, d *Decision) bool {
	sum := int64(0)
	for _, two := range s[1:w.words()] {
		sum += int64(uint32(two)) + int64(two>>32)
	}
	oldest := int64(halves(s[1:], uint(w.n)))
	e := estimate{offset: int64(now) % w.sub, whole: sum - oldest, oldest: oldest}
	events, rounded := w.free(&e)
	if cost >= events {
		return false
	}
	s[1] += uint64(cost)
	end := (int64(s[0]) + int64(w.n) + 1) * w.sub // of the newest sub-window's time
	*d = Decision{Outcome: Allowed, Charged: true, Cost: cost, Remaining: events - cost, ResetAfter: duration(end - int64(now))}
	if rounded && w.mode == Relaxed {
		d.Remaining++
	}
	return true
}

// take searches the ring once. After it has added, all stamps left are live: add has
// dropped the others.
func (l *slidingLog) take(s State, now Instant, cost int64, d *Decision) (State, bool) {
	if cost < 1 || cost > l.count || l.countDenied {
		return s, false
	}
	r, oldest := l.live(s, now)
	*d = Decision{Cost: cost}
	if cost <= l.count-int64(r.n-oldest) {
		s, _ = l.add(s, r, oldest, now, cost)
		d.Outcome, d.Charged = Allowed, true
		r, oldest = l.ring(s), 0
	} else {
		d.RetryAfter = duration(l.wait(s, now, cost, 0))
	}
	d.Remaining = l.count - int64(r.n-oldest)
	d.ResetAfter = duration(int64(r.newest()) + l.period - int64(now))
	if d.Remaining == 0 {
		d.NextAfter = duration(int64(r.at(oldest)) + l.period - int64(now))
	}
	return s, true
}

// take holds permits without an id: without a receipt nobody can return them, so they
// come back by their ttl, or by Limit.Refund.
func (c *concurrent) take(s State, now Instant, cost int64, d *Decision) (State, bool) {
	if cost < 1 || cost > c.count {
		return s, false
	}
	first, held := c.holders(s, now)
	full := len(s)-first >= MaxHolders*holderWords
	*d = Decision{Cost: cost}
	if cost <= c.count-held && !full {
		s = c.insert(c.drop(s, first, held+cost), now, 0, uint64(cost))
		d.Outcome, d.Charged = Allowed, true
		first, held = 1, held+cost
		full = len(s)-first >= MaxHolders*holderWords
	}
	if !full {
		d.Remaining = max(c.count-held, 0)
	}
	if last := len(s) - holderWords; last >= first { // whose time ends last
		d.ResetAfter = duration(int64(s[last]) - int64(now))
	}
	return s, true
}
