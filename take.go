package weir

// Take decides about cost events and charges them: what Decide, Resolve and
// Commit do with an Ask of nothing but a cost. It overwrites d and returns the
// state to keep, which may share memory with s.
func (l *Limit) Take(s State, now Instant, cost int64, d *Decision) State {
	if g, ok := l.algo.(*gcra); ok && g.take(s, now.clamp(), cost, d) {
		return s
	}
	asks := [1]Ask{{Limit: l, Cost: cost}}
	out := [1]Decision{l.Decide(s, now, &asks[0])}
	Resolve(asks[:], out[:])
	s = l.Commit(s, now, &asks[0], &out[0])
	*d = out[0]
	return s
}

// take does in one go what the rest of gcra does in steps, for the state that
// almost every key is in. It says whether it has.
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
