package oracle

import (
	"fmt"
	"slices"
)

// Span is when something was by the clock that decides, as far as that is known: in
// microseconds, both instants included.
type Span struct{ Lo, Hi int64 }

// entry is something that passed, or may have.
type entry struct {
	at    Span   // when, and never before what was there
	era   int    // the active limit
	cost  int64  // charged
	least int64  // of it surely in use, but for the time that passed
	most  int64  // may be in use
	back  int64  // of it surely given back, by the active limit
	frees int64  // of permits: by then they are back, by the clock
	local *entry // the same in Count.local, where a fallback let it pass
	late  bool   // the store may hear of it at any later time
}

// Count is the history of one limit and key.
type Count struct {
	eras    []Limit
	asked   int // the last of eras that was asked to charge something
	entries []*entry
	// returned and charged are whether something was given back, and settled for
	// more: after either, how much more comes back is not promised.
	returned, charged bool
	// forced is whether something was charged beyond the limit, or may have been.
	forced bool
	// latest is the latest that the clock had shown when something was kept; stepped is
	// whether it was behind since.
	latest  Span
	stepped bool
	top     int64 // the latest that the clock had shown at all
	behind  bool  // whether it was asked when the clock was behind that
	// hazy counts may have been forgotten: nothing is known but that answers must
	// agree with themselves.
	hazy bool
	// apart counts may change their owner and their limit at once, and then know only the
	// limit that was asked last.
	apart bool
	// local is what fallbacks of one process decided.
	local *Count
}

func (c *Count) limit() *Limit { return &c.eras[len(c.eras)-1] }

func (c *Count) load(l Limit) {
	if len(c.eras) > 0 && c.limit().Text == l.Text {
		return
	}
	goesOn := len(c.eras) > 0 && (l.Algorithm == fixed || l.Algorithm == slide) && l.ordered(c.limit())
	if len(c.eras) > 0 && !goesOn {
		if c.forced {
			c.cap(min(l.most(), c.limit().most()))
		}
		for _, e := range c.entries { // what was given back was given back by one limit alone
			e.most, e.back = e.most+e.back, 0
		}
	}
	c.eras = append(c.eras, l)
}

// cap keeps no more in use than most: of what was charged beyond a limit, another takes
// over no more than fits.
func (c *Count) cap(most int64) {
	for i := len(c.entries) - 1; i >= 0; i-- {
		e := c.entries[i]
		e.least = min(e.least, most)
		most -= e.least
	}
}

// until is when a stretch that ends now ends at the latest: a clock that was ahead before
// has refilled what was dropped then, and may have been forgotten.
func (c *Count) until(at Span) int64 { return max(at.Hi, c.latest.Hi, c.top) }

// later is at, or as late as what was there: a clock that steps back may find that, or may
// find that it was dropped as never used.
func (c *Count) later(at Span) Span { return Span{at.Lo, max(at.Hi, c.latest.Hi)} }

// over is why cost more must not pass, or empty.
func (c *Count) over(at Span, cost int64) string {
	if c.hazy {
		return ""
	}
	if c.limit().Algorithm == permit {
		return c.permitsOver(at, cost)
	}
	if c.limit().Algorithm == logged && cost == 0 {
		return "" // a log holds no more than its count, and so never more than is allowed
	}
	if most := c.limit().most(); cost > most {
		return fmt.Sprintf("a cost of %d, where %d can pass at most", cost, most)
	}
	sum, largest := cost, cost
	for i := len(c.entries) - 1; i >= 0; i-- {
		e := c.entries[i]
		if e.least == 0 {
			continue
		}
		if c.behind && e.era != len(c.eras)-1 {
			break // another limit took it over by a clock that had stepped back, and counts time from then
		}
		sum, largest = sum+e.least, max(largest, e.least)
		if c.forced && !c.limit().holds(e.at.Lo, c.until(at)) {
			break // each window by itself: what is forced into one is nothing to the next
		}
		if lets, by := c.lets(e, at, largest, i == 0); sum > lets {
			return fmt.Sprintf("%d in %dµs, where %s lets %d pass", sum, c.until(at)-e.at.Lo, by, lets)
		}
	}
	return c.estimateOver(at, cost)
}

// lets is the most that passes since an entry: by the limit that lets most of those in
// force meanwhile, where each of them knows what the other limits have let pass. Else the bounds
// add up, once for each limit.
func (c *Count) lets(since *entry, at Span, largest int64, first bool) (lets int64, by string) {
	var all []*Limit
	ordered := true
	for i := range c.eras[since.era:] {
		l := &c.eras[since.era+i]
		if slices.ContainsFunc(all, func(o *Limit) bool { return o.Text == l.Text }) {
			continue
		}
		for _, o := range all {
			ordered = ordered && l.ordered(o)
		}
		all = append(all, l)
	}
	sum, most, refill := int64(0), int64(0), int64(0)
	for i, l := range all {
		n := l.lets(since.at.Lo, c.until(at), largest, first && i == 0)
		sum += n
		if n >= lets {
			lets, by = n, l.Text
		}
		if l.Algorithm == queue { // who was told a time keeps it
			most, refill = max(most, l.most()), max(refill, l.refill(c.until(at)-since.at.Lo))
		}
	}
	if !ordered || c.apart {
		return sum, by
	}
	return max(lets, most+refill), by
}

// estimateOver is what a sliding window estimates, beside what it promises.
func (c *Count) estimateOver(at Span, cost int64) string {
	l := c.limit()
	if l.Algorithm != slide || len(c.eras) > 1 || c.stepped || at.Lo < c.latest.Lo {
		return ""
	}
	sub := l.Period / l.Subs
	now := at.Hi / sub
	if at.Lo/sub != now {
		return ""
	}
	whole, oldest := cost, int64(0)
	for _, e := range c.entries {
		switch age := now - e.at.Hi/sub; {
		case e.at.Lo/sub != e.at.Hi/sub:
		case age < l.Subs:
			whole += e.least
		case age == l.Subs:
			oldest += e.least
		}
	}
	weighs := scaled(oldest, sub-at.Hi%sub, sub)
	switch l.Mode {
	case "conservative":
		weighs = oldest
	case "relaxed":
		whole -= cost // it is tested before it is added
		if whole+weighs >= l.Count && cost > 0 {
			return fmt.Sprintf("the estimate is %d before", whole+weighs)
		}
		return ""
	}
	if whole+weighs > l.Count {
		return fmt.Sprintf("the estimate is %d", whole+weighs)
	}
	return ""
}

// due is whether cost must pass.
func (c *Count) due(at Span, cost int64) bool {
	if len(c.eras) > 1 && (c.stepped || c.behind || at.Hi < c.latest.Lo) {
		return false // to a clock that stepped back more was used, and that is what another limit takes over
	}
	return !c.hazy && c.dueBy(c.limit(), at, cost)
}

func (c *Count) dueBy(l *Limit, at Span, cost int64) bool {
	if l.Algorithm == permit {
		return c.permitsDue(l, at, cost)
	}
	room := l.Count
	if l.Algorithm == bucket || l.Algorithm == queue {
		room = l.Burst
	}
	if l.Count == 0 || cost > room {
		return false
	}
	alike := c.alike()
	sum := cost
	if len(c.eras) > 1 && slices.ContainsFunc(c.eras, func(l Limit) bool { return l.Algorithm == queue }) {
		return false // who waits goes when it was told, which is more events to a faster limit
	}
	if (l.Algorithm == bucket || l.Algorithm == queue) && c.latest.Hi > at.Lo {
		return false // a clock that stepped back makes it look emptier
	}
	for i := len(c.entries) - 1; i >= 0; i-- {
		e := c.entries[i]
		if e.most == 0 {
			continue
		}
		since := at.Lo - e.at.Hi
		back := int64(0)
		switch {
		case l.Algorithm == queue && len(c.eras) > 1 && e.era != len(c.eras)-1:
			return false // who waits goes when it was told
		case !alike:
		case l.Algorithm == bucket || l.Algorithm == queue:
			back = c.slowest(since)
		case l.Algorithm == fixed && !l.Anchored:
			if _, end := l.window(e.at.Hi); end <= at.Lo {
				continue
			}
		case l.Algorithm == slide && since >= l.Period+l.Period/l.Subs,
			(l.Algorithm == logged || l.Anchored) && since >= l.Period:
			continue
		}
		sum += e.most
		if sum+int64(len(c.eras)-1-e.era) > room+back {
			return false
		}
	}
	return true
}

// slowest is what comes back by the slowest limit so far. Earlier limits hear of the events, too: when
// the state by the active limit has recovered and its place is given away, theirs tell what is used.
func (c *Count) slowest(since int64) int64 {
	least := c.limit().refill(since)
	for _, l := range c.eras {
		least = min(least, l.refill(since))
	}
	return least
}

// alike is whether all limits so far cut time in the same way.
func (c *Count) alike() bool {
	for i := range c.eras {
		a, b := &c.eras[i], c.limit()
		if a.Algorithm != b.Algorithm || a.Anchored != b.Anchored || a.Algorithm != bucket && a.Period != b.Period || a.Subs != b.Subs {
			return false
		}
	}
	return true
}

// permitsOver is over for permits: how many are out.
func (c *Count) permitsOver(at Span, cost int64) string {
	out, most := cost, c.limit().Count
	for _, e := range c.entries {
		if e.frees > c.until(at) {
			out += e.least
		}
	}
	if cost > 0 && out > most {
		return fmt.Sprintf("%d permits out of %d", out, most)
	}
	return ""
}

func (c *Count) permitsDue(l *Limit, at Span, cost int64) bool {
	out := cost
	for _, e := range c.entries {
		if e.at.Hi+l.TTL > at.Lo || e.frees > at.Lo {
			out += e.most
		}
	}
	return out <= l.Count
}

// add keeps what passed: least surely, most perhaps.
func (c *Count) add(at Span, least, most int64) *entry {
	c.stepped = c.stepped || at.Hi < c.latest.Lo
	c.latest = c.later(at)
	e := &entry{at: c.latest, era: len(c.eras) - 1, cost: most, least: least, most: most, frees: at.Lo + c.limit().TTL}
	c.entries = append(c.entries, e)
	return e
}

// addLate keeps what a settlement charged, perhaps. Limits take over from one another when
// they are asked, so until the active limit is, the one that was asked last is charged.
func (c *Count) addLate(at Span, most int64) *entry {
	e := c.add(at, 0, most)
	e.era = c.asked
	return e
}

// settle is that the work of e was worth used. sure is whether the store has said so,
// and nothing has happened since that makes receipts give nothing back.
func (c *Count) settle(e *entry, at Span, used int64, sure bool) {
	if e.local != nil {
		c.local.settle(e.local, at, used, false)
	}
	if c.limit().Algorithm == permit || c.eras[e.era].Algorithm == permit {
		e.least = 0
		if sure {
			e.most = 0
		}
		return
	}
	if more := used - e.cost; more > 0 {
		c.charged, c.forced = true, true
		extra := c.addLate(at, more)
		// Else it is charged by a limit that may have recovered; or to what a fallback let pass, of which
		// the store may have been told already: then only the count of the process has it.
		if sure && e.era == len(c.eras)-1 && e.local == nil {
			extra.least = c.owed(more)
		}
		return
	}
	back := e.cost - used
	e.least = max(e.least-back, 0)
	if sure {
		e.back = min(c.comesBack(e, at, back), e.most)
		e.most -= e.back
	}
	c.returned = true
}

// owed is how much of a debt is remembered: what is paid off within 71 years, and at
// most 2^30 events.
func (c *Count) owed(n int64) int64 {
	l := c.limit()
	switch {
	case l.Algorithm == logged:
		return min(n, l.Count) // it has no room for more
	case l.Algorithm != bucket && l.Algorithm != queue || l.Count == 0:
		return n
	}
	const years = 70 * 365 * 86400e6
	return min(n, 1<<30, l.refill(years))
}

// comesBack is how much of what is given back is promised to be free again.
func (c *Count) comesBack(e *entry, at Span, back int64) int64 {
	l := c.limit()
	last := e == c.entries[len(c.entries)-1]
	switch {
	case c.charged, e.era != len(c.eras)-1:
		return 0
	case l.Algorithm == fixed && !l.Anchored && !l.holds(e.at.Lo, at.Hi), l.Period > 0 && at.Hi-e.at.Lo >= l.Period:
		return 0 // its window is over, and may come back with a clock that steps back
	case l.Algorithm != bucket && l.Algorithm != queue:
		return back
	case c.returned, l.Debt > 0, l.Algorithm == queue && !last, l.Count == 0:
		return 0
	}
	// Events that time has refilled are not refilled again.
	return max(min(back, e.cost-l.refill(max(at.Hi-e.at.Lo, 0))-1), 0)
}

// rewind is that the clock steps back from then.
func (c *Count) rewind(then int64) {
	for _, e := range c.entries {
		recovers := func(l Limit) bool { return l.recovers(e.at.Lo, then, e.least) }
		if slices.ContainsFunc(c.eras[e.era:], recovers) {
			e.least = 0
		}
	}
}

// lose is that the store has lost what it had; what fallbacks keep may still be told.
func (c *Count) lose() {
	for _, e := range c.entries {
		e.least = 0
	}
	c.eras = append(c.eras, *c.limit())
}

// forget is a reset, or a loss that is allowed. The store may hear afterwards of what it had
// not heard yet.
func (c *Count) forget() {
	var late []*entry
	for _, e := range c.entries {
		if e.late {
			late = append(late, e)
		}
	}
	c.entries, c.returned, c.charged, c.forced, c.stepped, c.behind, c.latest = nil, false, false, false, false, false, Span{}
	if c.asked == len(c.eras)-1 {
		c.eras = c.eras[c.asked:]
	} else {
		c.eras = []Limit{c.eras[c.asked], *c.limit()}
	}
	c.asked = 0
	for _, e := range late {
		e.least, e.back, e.era = 0, 0, 0
	}
	c.entries = late
}
