package weir_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// model is how an algorithm is told in words, in big numbers and with the whole
// history at hand. fits says whether cost passes now; pass counts it.
type model interface {
	fits(now, cost *big.Int) bool
	pass(now, cost *big.Int)
}

var one = big.NewInt(1)

func integer(n int64) *big.Int          { return big.NewInt(n) }
func rat(a, b *big.Int) *big.Rat        { return new(big.Rat).SetFrac(a, b) }
func ratOf(n *big.Int) *big.Rat         { return new(big.Rat).SetInt(n) }
func sum(a, b *big.Rat) *big.Rat        { return new(big.Rat).Add(a, b) }
func product(a, b *big.Rat) *big.Rat    { return new(big.Rat).Mul(a, b) }
func difference(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func later(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

// tokens is a bucket by its level and the time of its last change, the
// textbook's token bucket. A clock that went back adds nothing.
type tokens struct {
	spec  weir.Spec
	rate  *big.Rat // tokens a microsecond
	level *big.Rat
	last  *big.Rat
}

func newTokens(s weir.Spec) *tokens {
	rate := rat(integer(s.Count), integer(s.Period.Microseconds()))
	if s.Mode == weir.Strict {
		free := s.Count - s.Burst + 1
		us := (s.Period.Microseconds() + free - 1) / free
		rate = rat(one, integer(us))
	}
	return &tokens{spec: s, rate: rate}
}

// at is the level at now. It is new after a full bucket was left alone for a
// period, when a new one starts with less.
func (m *tokens) at(now *big.Int) *big.Rat {
	t := ratOf(now)
	if m.level == nil {
		return ratOf(integer(*m.spec.Initial))
	}
	burst := ratOf(integer(m.spec.Burst))
	level := sum(m.level, product(m.rate, difference(t, m.last)))
	if level.Cmp(burst) < 0 {
		return level // also for a clock that went back
	}
	if *m.spec.Initial < m.spec.Burst {
		over := new(big.Rat).Quo(difference(level, burst), m.rate) // time since it was full
		fullAt := difference(t, over)
		// whole microseconds, rounded up, are when it counts as full
		fullAt.SetInt(ceil(fullAt))
		if difference(t, fullAt).Cmp(ratOf(integer(m.spec.Period.Microseconds()))) >= 0 {
			return ratOf(integer(*m.spec.Initial))
		}
	}
	return burst
}

func ceil(r *big.Rat) *big.Int {
	q, rem := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if rem.Sign() > 0 {
		q.Add(q, one)
	}
	return q
}

func (m *tokens) fits(now, cost *big.Int) bool {
	level := m.at(now)
	if cost.Sign() == 0 {
		return level.Sign() >= 0
	}
	after := difference(level, ratOf(cost))
	if m.spec.Debt > 0 && level.Cmp(ratOf(one)) < 0 {
		return false
	}
	return after.Cmp(ratOf(integer(-m.spec.Debt))) >= 0
}

func (m *tokens) pass(now, cost *big.Int) {
	m.level = difference(m.at(now), ratOf(cost))
	m.last = ratOf(now)
}

// see is what a denied ask does to a key never seen: it is seen.
func (m *tokens) see(now *big.Int) {
	if *m.spec.Initial < m.spec.Burst {
		m.pass(now, integer(0))
	}
}

// queue is a real queue: the instants at which its events leave.
type queue struct {
	spec  weir.Spec
	space *big.Rat
	next  *big.Rat
}

func newQueue(s weir.Spec) *queue {
	return &queue{spec: s, space: rat(integer(s.Period.Microseconds()), integer(s.Count)), next: new(big.Rat)}
}

// fits is whether the last of cost events finds at most queue others in front
// of it that have not left.
func (m *queue) fits(now, cost *big.Int) bool {
	last := sum(m.slot(now), product(m.space, ratOf(new(big.Int).Sub(cost, one))))
	longest := product(m.space, ratOf(integer(*m.spec.Queue)))
	return difference(last, ratOf(now)).Cmp(longest) <= 0
}

func (m *queue) slot(now *big.Int) *big.Rat { return later(m.next, ratOf(now)) }

func (m *queue) pass(now, cost *big.Int) {
	m.next = sum(m.slot(now), product(m.space, ratOf(cost)))
}

// history is the events that passed, for the algorithms of windows.
type history struct {
	spec  weir.Spec
	times []int64
	costs []*big.Int
}

// latest is now, or the last event when the clock went back behind it.
func (m *history) latest(now *big.Int) int64 {
	t := now.Int64()
	if n := len(m.times); n > 0 {
		t = max(t, m.times[n-1])
	}
	return t
}

func (m *history) pass(now, cost *big.Int) {
	if cost.Sign() > 0 {
		m.times = append(m.times, m.latest(now))
		m.costs = append(m.costs, new(big.Int).Set(cost))
	}
}

// within adds up the events at instants for which in holds.
func (m *history) within(in func(int64) bool) *big.Int {
	total := new(big.Int)
	for i, t := range m.times {
		if in(t) {
			total.Add(total, m.costs[i])
		}
	}
	return total
}

func (m *history) below(used, cost *big.Int) bool {
	return new(big.Int).Add(used, cost).Cmp(integer(m.spec.Count)) <= 0
}

type log struct{ history }

func (m *log) fits(now, cost *big.Int) bool {
	t := m.latest(now)
	used := m.within(func(at int64) bool { return at > t-m.spec.Period.Microseconds() })
	if m.spec.CountDenied && used.Cmp(integer(m.spec.Count)) > 0 {
		used = integer(m.spec.Count) // the log holds no more stamps than the count
	}
	return m.below(used, cost)
}

type anchored struct{ history }

// fits finds the windows from the beginning of history: each opens with the
// first event that the one before does not hold.
func (m *anchored) fits(now, cost *big.Int) bool {
	open, used := int64(-1), new(big.Int)
	for i, t := range m.times {
		if open < 0 || t >= open+m.spec.Period.Microseconds() {
			open, used = t, new(big.Int)
		}
		used.Add(used, m.costs[i])
	}
	if open >= 0 && now.Int64() >= open+m.spec.Period.Microseconds() {
		used = new(big.Int)
	}
	return m.below(used, cost)
}

// pass keeps the instant as it is: an anchored window does not move.
func (m *anchored) pass(now, cost *big.Int) {
	m.history.pass(now, cost)
}

type fixed struct{ history }

func (m *fixed) fits(now, cost *big.Int) bool {
	begin, end := m.window(m.latest(now))
	return m.below(m.within(func(at int64) bool { return at >= begin && at < end }), cost)
}

// window is the naive civil window: it looks for the dates' changes by the hour
// and then by the second.
func (m *fixed) window(t int64) (begin, end int64) {
	if m.spec.Calendar == weir.NoCalendar {
		p := m.spec.Period.Microseconds()
		return t - t%p, t - t%p + p
	}
	at := time.UnixMicro(t)
	return m.edge(at, -1).UnixMicro(), m.edge(at, 1).UnixMicro()
}

// name is the civil period that shows on the wall of the zone.
func (m *fixed) name(t time.Time) string {
	t = t.In(m.spec.Zone)
	switch m.spec.Calendar {
	case weir.Day:
		return t.Format("2006-01-02")
	case weir.Month:
		return t.Format("2006-01")
	case weir.Year:
		return t.Format("2006")
	default:
		y, w := t.ISOWeek()
		return time.Date(y, 1, 1, 0, 0, w, 0, time.UTC).Format("2006-05")
	}
}

// edge is where the period of at begins (back) or ends.
func (m *fixed) edge(at time.Time, way int) time.Time {
	name, step := m.name(at), time.Duration(way)*15*time.Minute
	base := at.Truncate(15 * time.Minute)
	if way < 0 {
		for m.name(base) == name {
			base = base.Add(step)
		}
		for s := base; ; s = s.Add(time.Second) {
			if m.name(s) == name {
				return s
			}
		}
	}
	for m.name(base) == name || !base.After(at) {
		base = base.Add(step)
	}
	s := base.Add(-15 * time.Minute)
	for m.name(s) == name || !s.After(at) {
		s = s.Add(time.Second)
	}
	return s
}

type sliding struct{ history }

func (m *sliding) fits(now, cost *big.Int) bool {
	sub := m.spec.Period.Microseconds() / m.spec.SubWindows
	t := now.Int64()
	if l := m.latest(now); l/sub > t/sub {
		t = l / sub * sub // a clock behind the newest sub-window counts in it
	}
	index := t / sub
	whole := ratOf(m.within(func(at int64) bool { i := at / sub; return i <= index && i > index-m.spec.SubWindows }))
	old := ratOf(m.within(func(at int64) bool { return at/sub == index-m.spec.SubWindows }))
	left := rat(integer(sub-t%sub), integer(sub))
	if m.spec.Mode == weir.Conservative {
		left = ratOf(one)
	}
	estimate := sum(whole, product(old, left))
	count := ratOf(integer(m.spec.Count))
	if m.spec.Mode == weir.Relaxed && cost.Sign() > 0 {
		return estimate.Cmp(count) < 0
	}
	return sum(estimate, ratOf(cost)).Cmp(count) <= 0
}

// permits is the holders by the instants at which they run out.
type permits struct {
	spec  weir.Spec
	until []int64
	costs []int64
}

func (m *permits) fits(now, cost *big.Int) bool {
	held := new(big.Int).Set(cost)
	for i, t := range m.until {
		if t > now.Int64() {
			held.Add(held, integer(m.costs[i]))
		}
	}
	return held.Cmp(integer(m.spec.Count)) <= 0
}

func (m *permits) pass(now, cost *big.Int) {
	if cost.Sign() == 0 {
		return
	}
	// Those whose time was over are gone, even if the clock goes back again.
	for i := range m.until {
		if m.until[i] <= now.Int64() {
			m.until[i], m.costs[i] = 0, 0
		}
	}
	m.until = append(m.until, now.Int64()+m.spec.TTL.Microseconds())
	m.costs = append(m.costs, cost.Int64())
}

func newModel(s weir.Spec) model {
	h := history{spec: s}
	switch s.Algorithm {
	case weir.LeakyQueue:
		return newQueue(s)
	case weir.SlidingLog:
		return &log{h}
	case weir.SlidingWindow:
		return &sliding{h}
	case weir.FixedWindow:
		if s.Anchored {
			return &anchored{h}
		}
		return &fixed{h}
	case weir.Concurrent:
		return &permits{spec: s}
	default:
		return newTokens(s)
	}
}

// TestModels holds every algorithm to its model, decision by decision: nothing
// passes that should not, and what fits is not refused.
func TestModels(t *testing.T) {
	for name, draw := range map[string]func(*rapid.T) weir.Spec{
		"bucket": drawBucket, "queue": drawQueue, "fixed": drawFixed, "log": drawLog, "sliding": drawSliding, "permits": drawPermits,
	} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) { compare(t, makeLimit(t, draw(t))) }))
	}
}

func compare(t *rapid.T, l *weir.Limit) {
	spec := l.Spec()
	m := newModel(spec)
	c := newClock(t, spec)
	var s weir.State
	for range rapid.IntRange(1, 60).Draw(t, "asks") {
		now, cost := c.step(t), drawCost(t, spec)
		at, n := integer(int64(now)), integer(cost)
		want := m.fits(at, n)
		var d weir.Decision
		s, d = take(l, s, now, weir.Ask{Cost: cost})
		if (d.Outcome == weir.Allowed) != want {
			t.Fatalf("%s at %d: cost %d is %v, the model says fits=%v", l, now, cost, d.Outcome, want)
		}
		switch {
		case want && cost > 0:
			m.pass(at, n)
		case !want && d.Outcome == weir.Denied && spec.CountDenied:
			m.pass(at, n)
		case !want && d.Outcome == weir.Denied:
			if b, ok := m.(*tokens); ok {
				b.see(at)
			}
		}
	}
}
