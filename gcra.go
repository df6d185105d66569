package weir

// gcra is the generic cell rate algorithm (ITU-T I.371), which is also the
// token bucket and the leaky bucket as a meter: the three decide alike.
//
// Its state is the theoretical arrival time: when all that was let through so
// far would have passed at an even pace.
//
//	word 0   whole microseconds since 1970
//	word 1   bits 0–29: the fraction f of f/den µs; bits 30–63: events given
//	         back since the bucket was last full
//
// While that time runs ahead of now by a, the bucket holds burst − a/interval
// tokens. Each event moves it on by one interval.
type gcra struct {
	pace   interval
	burst  int64
	debt   int64
	full   moment // burst intervals
	reach  moment // burst + debt intervals
	head   moment // what a key never seen has already used: burst − initial
	unseen int64  // a full key is unseen again after this long; 0 when initial = burst
}

const (
	fractionBits = 30
	fractionMask = 1<<fractionBits - 1
	maxGivenBack = 1<<(64-fractionBits) - 1
)

func newGCRA(s *Spec) algorithm {
	g := &gcra{pace: s.pace(), burst: s.Burst, debt: s.Debt}
	if s.Count == 0 {
		g.burst = 0
		return g
	}
	g.full = g.pace.span(g.burst)
	g.reach = g.pace.span(g.burst + g.debt)
	if *s.Initial < s.Burst {
		g.head = g.pace.span(s.Burst - *s.Initial)
		g.unseen = micros(s.Period)
	}
	return g
}

func (g *gcra) words() int  { return 2 }
func (g *gcra) most() int64 { return g.burst + g.debt }

// arrival is the theoretical arrival time that s stands for.
func (g *gcra) arrival(s State, now Instant) moment {
	if len(s) < 2 || s[0]|s[1] == 0 {
		return g.first(now)
	}
	at := moment{int64(s[0]), s[1] & fractionMask}
	if g.unseen > 0 && int64(now) >= at.ceil()+g.unseen {
		return g.first(now)
	}
	return at
}

func (g *gcra) first(now Instant) moment {
	return moment{int64(now) + g.head.us, g.head.f}
}

// ahead is how far the arrival time runs ahead of now.
func (g *gcra) ahead(s State, now Instant) moment {
	at := g.arrival(s, now)
	if at.us < int64(now) {
		return moment{}
	}
	return moment{at.us - int64(now), at.f}
}

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

func (g *gcra) wait(s State, now Instant, cost, patience int64) int64 {
	a := g.ahead(s, now)
	over := g.over(g.pace.add(a, g.pace.span(cost)), g.reach)
	if g.debt > 0 {
		over = max(over, g.over(g.pace.add(a, g.pace.span(min(cost, 1))), g.full))
	}
	return max(over-patience, 0)
}

// over is how far a passes limit, in whole microseconds rounded up.
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

func (g *gcra) charge(s State, now Instant, cost int64, forced bool, _ uint64) (State, mark) {
	if g.burst == 0 {
		return s, mark{}
	}
	s = s.words(2)
	back := s[1] >> fractionBits
	a := g.ahead(s, now)
	if a == (moment{}) {
		back = 0 // no receipt from before a full bucket has anything outstanding
	}
	next := g.pace.add(a, g.pace.span(min(cost, g.most())))
	if forced && g.reach.less(next) {
		next = g.reach
		if next.less(a) {
			next = a
		}
	}
	s[0] = uint64(int64(now) + next.us)
	s[1] = next.f | back<<fractionBits
	return s, mark{s[0], s[1]}
}

// refuse starts the clock of a key never seen: else one that begins with less
// than its first cost would wait for ever.
func (g *gcra) refuse(s State, now Instant, _ int64) State {
	if g.unseen == 0 || g.burst == 0 {
		return s
	}
	s = s.words(2)
	back := s[1] &^ fractionMask
	at := g.arrival(s, now)
	s[0], s[1] = uint64(at.us), at.f|back
	return s
}

func (g *gcra) standing(s State, now Instant) (remaining, reset int64) {
	if g.burst == 0 {
		return 0, 0
	}
	a := g.ahead(s, now)
	if !g.full.less(a) {
		remaining = g.pace.events(g.pace.sub(g.full, a))
	}
	if g.unseen == 0 {
		return remaining, a.ceil()
	}
	if len(s) < 2 || s[0]|s[1] == 0 {
		return remaining, 0
	}
	at := moment{int64(s[0]), s[1] & fractionMask}
	return remaining, max(at.ceil()+g.unseen-int64(now), 0)
}

// giveBack moves the arrival time back by what lies ahead of the charge's
// stretch. The stretch ended where the mark says; events given back since then
// have moved it earlier by at most as much, so what is returned is never more
// than dropping the charge from history would free.
func (g *gcra) giveBack(s State, now Instant, r *Receipt, events int64) State {
	a := g.ahead(s, now)
	if g.burst == 0 || a == (moment{}) || events <= 0 {
		return s
	}
	before, given := r.Mark[1]>>fractionBits, s[1]>>fractionBits
	if given < before || given == maxGivenBack {
		return s // the bucket was full in between, or lost count
	}
	end := moment{int64(r.Mark[0]), r.Mark[1] & fractionMask}
	shift := g.pace.add(moment{int64(now), 0}, g.spanLong(given-before))
	if !shift.less(end) {
		return s
	}
	back := g.pace.sub(end, shift)
	if most := g.pace.span(min(events, g.most())); most.less(back) {
		back = most
	}
	if a.less(back) {
		back = a
	}
	left := g.pace.sub(a, back)
	given = min(given+uint64(g.pace.eventsUp(back)), maxGivenBack)
	s[0], s[1] = uint64(int64(now)+left.us), left.f|given<<fractionBits
	return s
}

// spanLong is span for counts that may be far beyond what a bucket holds; it
// saturates beyond every state.
func (g *gcra) spanLong(n uint64) moment {
	if wider(int64(n), g.pace.num, int64(lastInstant), g.pace.den) {
		return moment{us: int64(lastInstant)}
	}
	return g.pace.span(int64(n))
}

func (g *gcra) used(s State, now Instant) int64 {
	if g.burst == 0 {
		return 0
	}
	return g.pace.eventsUp(g.ahead(s, now))
}

func (g *gcra) adopt(s State, from algorithm, now Instant) State {
	used := min(from.used(s, now), g.burst)
	if used == 0 || g.burst == 0 {
		return nil
	}
	at := g.pace.span(used)
	// Receipts from before the change must find nothing outstanding, even if
	// the old limit comes back.
	given := uint64(g.most() + 1)
	if _, ok := from.(*gcra); ok && len(s) == 2 {
		given = min(given+s[1]>>fractionBits, maxGivenBack)
	}
	return State{uint64(int64(now) + at.us), at.f | given<<fractionBits}
}

// bound: burst + debt at once, and what the pace adds from the first instant of
// the interval to its last.
func (g *gcra) bound(width, _ int64) int64 {
	return plus(g.most(), g.pace.eventsIn(width-1))
}
