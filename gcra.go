package weir

import "time"

// gcra is the generic cell rate algorithm (ITU-T I.371), which is also the
// token bucket and the leaky bucket as a meter: the three decide alike.
//
// Its state is the theoretical arrival time: when all that was let through so
// far would have passed at an even pace.
//
//	word 0   bits 0–52: whole microseconds since 1970; bits 53–63: the horizon
//	word 1   bits 0–29: the fraction f of f/den µs; bits 30–63: the shift
//
// While that time runs ahead of now by a, the bucket holds burst − a/interval
// tokens. Each event moves it on by one interval. A cost of n fits while
// a + n × interval is at most burst × interval: that is one comparison of exact
// moments, so no decision depends on rounding. A time that now has passed is as good
// as now: the bucket is full, and nothing is kept of how long it has been so.
//
// A refund moves it back. Then the stretches that other receipts remember lie
// later than where their events really are now. The shift tells by how much:
// it counts the events given back, in units of 2^-16 of the bucket. The horizon
// is the latest instant that any receipt's stretch may still reach to, on a
// coarse grid; before it, a bucket that was refunded must not be forgotten,
// even if it is full.
//
// A charge for work that is done moves the time on whole, up to owing intervals ahead. Where there
// is no room for all of a charge, the shift moves on so far that no receipt from before gives
// anything back: it would free what was lost.
type gcra struct {
	pace interval
	// burst and debt are the limit's, in events. A count of 0 has burst 0, and then no
	// other field is set: every method tests that first.
	burst int64
	debt  int64
	// full is burst intervals. A time that runs ahead by more is a bucket with less
	// than nothing in it.
	full moment
	// reach is burst + debt intervals, how far a charge may move the time ahead of now.
	// Spec.drains keeps it within MaxDrain.
	reach moment
	// owing is the events that the time may run ahead by, where work is settled for
	// more than it was charged: MaxCount beyond the burst, within MaxDrain. lowest is
	// owing intervals.
	owing  int64
	lowest moment
	// head is what a key never seen has already used: burst − initial intervals.
	head moment
	// unseen is how many microseconds after it was full a key is as never seen again: a
	// period. It is 0 when initial is burst, since full and never seen are then one.
	unseen int64
	// unit is the events of one step of the shift, at least 1. 2^16 steps are at least
	// all that the bucket holds.
	unit int64
	// grid is the microseconds of one step of the horizon, at least 2^27, about two
	// minutes. The horizon is rounded up to it, so a bucket is kept longer, never shorter.
	grid int64
	// one is the interval, which most takes need, so that they need not divide.
	one moment
	// plain says that there is no debt, and that keys never seen start with all of their
	// burst: then take decides in one go what the methods here decide in steps.
	plain bool
}

// The cut of the two words. A time is below 2^53, see MaxDrain; a fraction is
// below 2^30, see moment. The bits that are left hold the horizon and the shift.
const (
	arrivalBits  = 53
	arrivalMask  = 1<<arrivalBits - 1
	horizonSteps = 1<<(64-arrivalBits) - 1
	fractionBits = 30
	fractionMask = 1<<fractionBits - 1
	shiftMask    = 1<<(64-fractionBits) - 1
	// stale is a shift since a receipt by which nothing of it is left: 16 times what a
	// bucket holds. It takes 2^14 charges without room to come round.
	stale = 1 << 20
)

func newGCRA(s *Spec) algorithm {
	g := &gcra{pace: s.pace(), burst: s.Burst, debt: s.Debt}
	if s.Count == 0 {
		g.burst = 0
		return g
	}
	g.full = g.pace.span(g.burst)
	g.reach = g.pace.span(g.burst + g.debt)
	g.owing = g.pace.owing(g.burst)
	g.lowest = g.pace.span(g.owing)
	if *s.Initial < s.Burst {
		g.head = g.pace.span(s.Burst - *s.Initial)
		g.unseen = micros(s.Period)
	}
	g.one = g.pace.span(1)
	g.plain = g.debt == 0 && g.unseen == 0
	g.unit = ceilDiv(g.most(), 1<<16)
	// The horizon of a full bucket and MaxWait is below 2^11 steps ahead.
	g.grid = max(g.reach.us/1024+1, 1<<27)
	return g
}

func (g *gcra) words() int  { return 2 }
func (g *gcra) most() int64 { return g.burst + g.debt }

// line is a state unpacked.
type line struct {
	at moment // theoretical arrival time, since 1970
	// shift is how many steps were given back since the key was unused, modulo 2^34.
	// Only differences of two shifts mean something.
	shift uint64
	// horizon is the latest instant that a receipt's stretch may reach to, in
	// microseconds since 1970; 0 when none reaches beyond at.
	horizon int64
}

// load unpacks s. The horizon was stored as its step modulo horizonSteps. It is never
// before the arrival time and less than horizonSteps steps after it, which near sees to:
// so the first step from the arrival time on with that remainder is the one.
func (g *gcra) load(s State) line {
	if len(s) < 2 {
		return line{}
	}
	l := line{at: moment{int64(s[0] & arrivalMask), s[1] & fractionMask}, shift: s[1] >> fractionBits}
	if h := int64(s[0] >> arrivalBits); h > 0 {
		step := l.at.us / g.grid
		step += ((h-1-step)%horizonSteps + horizonSteps) % horizonSteps
		l.horizon = step * g.grid
	}
	return l
}

func (g *gcra) save(s State, l line) State {
	s = s.words(2)
	s[0], s[1] = uint64(l.at.us), l.at.f|l.shift<<fractionBits
	if l.horizon > l.at.ceil() {
		s[0] |= uint64(1+ceilDiv(l.horizon, g.grid)%horizonSteps) << arrivalBits
	}
	return s
}

// open is whether a receipt may still have something outstanding at now.
func (l *line) open(now Instant) bool { return max(l.horizon, l.at.ceil()) > int64(now) }

// fresh is whether s is as never used, for the state that almost every key is
// in; else it is not known.
func (g *gcra) fresh(s State, now Instant) (is, known bool) {
	if len(s) < 2 || s[0]>>arrivalBits|s[1]>>fractionBits != 0 || !g.plain {
		return false, false
	}
	return (&moment{int64(s[0]), s[1]}).ceil() <= int64(now), true
}

// never is whether s is a key never seen, and not one that has recovered.
func (s State) never() bool { return len(s) < 2 || s[0]|s[1] == 0 }

// arrival is the theoretical arrival time that s stands for.
func (g *gcra) arrival(s State, now Instant) moment {
	if s.never() {
		return g.first(now)
	}
	at := moment{int64(s[0] & arrivalMask), s[1] & fractionMask}
	if g.unseen > 0 && int64(now) >= at.ceil()+g.unseen {
		return g.first(now)
	}
	return at
}

func (g *gcra) first(now Instant) moment {
	return moment{int64(now) + g.head.us, g.head.f}
}

// ahead is how far the arrival time runs ahead of now; never less than zero, so that a rest
// longer than it takes to recover earns nothing.
func (g *gcra) ahead(s State, now Instant) moment {
	at := g.arrival(s, now)
	if at.us < int64(now) {
		return moment{}
	}
	return moment{at.us - int64(now), at.f}
}

// room: a reservation may go when it fits patience from now, when the time runs ahead
// by so much less. So patience simply makes the bucket deeper for this one check.
func (g *gcra) room(s State, now Instant, patience int64) int64 {
	if g.burst == 0 {
		return 0
	}
	a := g.ahead(s, now)
	full := moment{g.full.us + patience, g.full.f}
	if full.less(a) {
		return -1
	}
	if g.debt == 0 {
		// Patience lets a cost wait, not one that never fits.
		return min(g.pace.events(g.pace.sub(full, a)), g.burst)
	}
	if full.less(g.pace.add(a, g.pace.span(1))) {
		return 0 // debt is for those who find one whole event left
	}
	reach := moment{g.reach.us + patience, g.reach.f}
	return min(g.pace.events(g.pace.sub(reach, a)), g.most())
}

// wait is how far the time would run beyond what it may: each microsecond brings it
// nearer by one. Under a debt both rules of room must hold, so the longer wait counts.
func (g *gcra) wait(s State, now Instant, cost, patience int64) int64 {
	a := g.ahead(s, now)
	over := g.over(g.pace.add(a, g.pace.span(cost)), g.reach)
	if g.debt > 0 {
		over = max(over, g.over(g.pace.add(a, g.pace.span(min(cost, 1))), g.full))
	}
	return max(over-patience, 0)
}

// over is how far a passes limit, in whole microseconds rounded up: after so long it does
// not pass it any more, and a microsecond earlier it still does.
func (g *gcra) over(a, limit moment) int64 {
	if !limit.less(a) {
		return 0
	}
	return g.pace.sub(a, limit).ceil()
}

func (g *gcra) hold(s State, now Instant, cost int64) int64 {
	if g.burst == 0 {
		return 0
	}
	return g.wait(s, now, cost, 0)
}

// charge moves the time on. An unforced one was tested by room, so it has no bound here;
// a forced one ends at reach, and the shift then tells of what is lost.
func (g *gcra) charge(s State, now Instant, cost int64, forced bool, _ uint64) (State, mark) {
	if g.burst == 0 {
		return s, mark{}
	}
	a := g.ahead(s, now)
	next, fits := g.pace.add(a, g.pace.span(min(cost, g.most()))), true
	if forced {
		fits = cost <= g.most() && !g.reach.less(next)
		next = capped(next, a, g.reach)
	}
	return g.move(s, now, next, lost(fits))
}

// move makes the time run ahead by next, with so many steps more of the shift. The
// mark is the end of the charge's stretch, and the shift that was then.
func (g *gcra) move(s State, now Instant, next moment, steps uint64) (State, mark) {
	l := g.load(s)
	if !l.open(now) {
		l = line{}
	}
	l.shift = (l.shift + steps) & shiftMask
	l.at = moment{int64(now) + next.us, next.f}
	return g.save(s, l), mark{uint64(l.at.us), l.at.f | l.shift<<fractionBits}
}

// lost is how many steps the shift moves with a charge, given whether all of it was
// counted.
func lost(whole bool) uint64 {
	if whole {
		return 0
	}
	return stale
}

// owe is charge without a bound at reach: the work is done, so the debt is counted whole,
// up to lowest.
func (g *gcra) owe(s State, now Instant, cost int64) (State, int64) {
	if g.burst == 0 {
		return s, 0
	}
	next, counted := g.pace.owe(g.ahead(s, now), g.lowest, cost, g.owing)
	s, _ = g.move(s, now, next, lost(counted == cost))
	return s, counted
}

// refuse starts the clock of a key never seen: else one that begins with less
// than its first cost would wait for ever.
func (g *gcra) refuse(s State, now Instant, _ int64) State {
	if g.unseen == 0 || g.burst == 0 {
		return s
	}
	l := g.load(s)
	l.at = g.arrival(s, now)
	return g.save(s, l)
}

// standing: a limit with an initial is as never used only when the key is unseen again,
// a period after it was full. Until then a key that is full has more than a new one.
func (g *gcra) standing(s State, now Instant) (remaining, reset int64) {
	if g.burst == 0 {
		return 0, 0
	}
	a := g.ahead(s, now)
	if !g.full.less(a) {
		remaining = g.pace.events(g.pace.sub(g.full, a))
	}
	switch {
	case g.unseen == 0:
		return remaining, a.ceil()
	case s.never():
		return remaining, 0
	}
	l := g.load(s)
	return remaining, max(l.at.ceil()+g.unseen-int64(now), 0)
}

func (g *gcra) newest(s State, _ Instant) mark {
	l := g.load(s)
	return mark{uint64(l.at.us), l.at.f | l.shift<<fractionBits}
}

// giveBack moves the arrival time back by what is outstanding of the charge's
// stretch. The stretch ended where the mark says, less what was given back
// since, so no more is returned than dropping the charge from history would
// free: docs/algorithms.md has the proof.
//
// Each rounding is to the side of giving back less: the shift moves on by whole units,
// rounded up, and the events that are reported are whole ones, rounded down.
func (g *gcra) giveBack(s State, now Instant, r *Receipt, events int64) (State, int64) {
	a := g.ahead(s, now)
	if g.burst == 0 || a == (moment{}) || events <= 0 {
		return s, 0
	}
	l := g.load(s)
	since := (l.shift - r.Mark[1]>>fractionBits) & shiftMask
	if since >= stale {
		return s, 0
	}
	end := moment{int64(r.Mark[0]), r.Mark[1] & fractionMask}
	gone := g.pace.add(moment{us: int64(now)}, g.spanLong(int64(since)))
	if !gone.less(end) {
		return s, 0
	}
	back := g.pace.sub(end, gone)
	if most := g.pace.span(min(events, g.most())); most.less(back) {
		back = most
	}
	l.horizon = max(l.horizon, l.at.ceil())
	// The time stays so near to the horizon that its steps can tell.
	if most := g.near(a, now, l.horizon); most.less(back) {
		back = most
	}
	l.shift = (l.shift + uint64(ceilDiv(g.pace.eventsUp(back), g.unit))) & shiftMask
	left := g.pace.sub(a, back)
	l.at = moment{int64(now) + left.us, left.f}
	return g.save(s, l), g.pace.events(back)
}

// near is how far a time that runs ahead of now by a may go back: to now, and only
// so far from the horizon as can be kept.
func (g *gcra) near(a moment, now Instant, horizon int64) moment {
	least := horizon - (horizonSteps-2)*g.grid - int64(now)
	switch {
	case least <= 0:
		return a
	case a.us < least:
		return moment{}
	}
	return moment{a.us - least, a.f}
}

// spanLong is the span of so many units, which may be far beyond what a bucket
// holds; it saturates beyond every state.
func (g *gcra) spanLong(units int64) moment {
	n := times(units, g.unit)
	if wider(n, g.pace.num, int64(lastInstant), g.pace.den) {
		return moment{us: int64(lastInstant)}
	}
	return g.pace.span(n)
}

func (g *gcra) used(s State, now Instant) int64 {
	if g.burst == 0 {
		return 0
	}
	return g.pace.eventsUp(g.ahead(s, now))
}

func (g *gcra) alike(o algorithm) bool {
	b, ok := o.(*gcra)
	return ok && *g == *b
}

func (g *gcra) adopt(s State, from algorithm, now Instant) State {
	if g.burst == 0 {
		return nil
	}
	p := passedBy(from, s, now, from.used(s, now))
	if p.reset == 0 {
		p.events = min(p.events, g.burst)
	}
	ahead, _ := g.pace.after(p, moment{}, g.reach)
	if _, permits := from.(*concurrent); ahead == (moment{}) && (g.unseen == 0 || permits) {
		return nil
	}
	// A key of which nothing is in use was seen all the same.
	return g.save(nil, line{at: moment{int64(now) + ahead.us, ahead.f}})
}

func (g *gcra) hear(s State, now Instant, p passed) State {
	if g.burst == 0 {
		return s
	}
	next, whole := g.pace.after(p, g.ahead(s, now), g.reach)
	s, _ = g.move(s, now, next, lost(whole))
	return s
}

// bound: burst + debt at once, and what the pace adds from the first instant of
// the interval to its last. An interval [t, t + width) has width instants, and its last is
// width − 1 after its first: hence the one less.
func (g *gcra) bound(width, _ int64) int64 {
	return plus(g.most(), g.pace.eventsIn(width-1))
}

// owing is how many events a state may count in all, with those that are owed
// beyond a bucket of burst: MaxCount of them, and no more than drain in MaxDrain. The bound
// is what keeps an instant below 2^53; work beyond it passes uncounted, which
// Settlement.Charged tells.
func (v interval) owing(burst int64) int64 {
	return min(burst+MaxCount, v.eventsIn(int64(MaxDrain/time.Microsecond)))
}
