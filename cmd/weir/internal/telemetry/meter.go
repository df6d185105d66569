package telemetry

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/usagelog"
	"github.com/weir-limit/weir/rules"
)

// Meter is a rules.Limiter that counts what its rules decide.
type Meter struct {
	*rules.Limiter

	metrics *Decisions
	Book    *offenders.Book
	// nearFrom is how much of a limit is used, in millionths, when a request that passes is near it.
	nearFrom int64
	usage    *usagelog.Log // nil: usage is not logged
	// throttled counts what CL.THROTTLE decides in it.
	throttled *usagelog.Rule
	counters  atomic.Pointer[counters]
	changing  sync.Mutex // held to make and drop counters
}

// counted is what counts for a rule.
type counted struct {
	*tally

	near int64 // a request that passes and leaves less than this is near the limit
}

// counters are those of all active rules, looked up once: by labels it would
// take longer than to decide.
type counters struct {
	rules   map[*rules.Rule]counted
	labels  map[labels]*tally
	domains map[string]bool
	// overrides are by domain, made when they are needed: each override is a
	// rule of its own, but all of a domain have one name.
	overrides sync.Map
	// places are the rules by the place of their counts, which receipts tell; empty where
	// usage is not logged. brought are the overrides' by domain, as their places have it.
	places  map[string]placed
	brought sync.Map
}

// placed is a rule, and what counts for it.
type placed struct {
	*tally

	rule *rules.Rule
}

// NewMeter makes a meter of a limiter, which has no rules yet.
func NewMeter(l *rules.Limiter, metrics *Decisions) *Meter {
	m := &Meter{Limiter: l, metrics: metrics, Book: offenders.NewBook(), nearFrom: DefaultNearLimit}
	m.counters.Store(&counters{})
	return m
}

// DefaultNearLimit is how much of a limit is used, in millionths, when a request that passes is near it.
const DefaultNearLimit = 800_000

// NearFrom has requests count as near a limit when more than so many millionths of it are used. It is called before the
// first rules are there.
func (m *Meter) NearFrom(millionths int64) { m.nearFrom = millionths }

// LogUsage has what is decided and settled told to a log of usage. It is called before the first
// rules are there.
func (m *Meter) LogUsage(l *usagelog.Log) {
	m.usage = l
	m.throttled = l.Open(usagelog.ID{Rule: throttled})
	m.TellSettled(m.settled)
}

// Replace changes the rules, and what is counted with them: the counters of
// rules that are gone go too.
func (m *Meter) Replace(set *rules.Set) {
	m.changing.Lock()
	defer m.changing.Unlock()
	old := m.counters.Load()
	c := m.countersOf(set, old)
	old.overrides.Range(func(l, t any) bool {
		if c.domains[l.(labels).domain] {
			c.overrides.Store(l, t)
		} else {
			m.drop(l.(labels), t.(*tally))
		}
		return true
	})
	old.brought.Range(func(place, of any) bool {
		if c.domains[of.(placed).rule.Domain] {
			c.brought.Store(place, of)
		}
		return true
	})
	for l, t := range old.labels {
		// A rule that is opened, or no more, keeps what was counted before: that is
		// asked for in an incident.
		if c.labels[l] == nil && c.labels[labels{l.domain, l.rule, !l.shadow}] != nil {
			c.labels[l] = t
		}
	}
	m.counters.Store(c)
	m.Limiter.Replace(set)
	for l, t := range old.labels {
		switch now := c.labels[l]; {
		case now == nil:
			m.drop(l, t)
		case t.values != nil && now.values == nil:
			t.values.drop()
		}
	}
}

// countersOf makes the counters of a set, or takes those of rules that stay.
func (m *Meter) countersOf(set *rules.Set, old *counters) *counters {
	c := &counters{
		rules: map[*rules.Rule]counted{}, labels: map[labels]*tally{}, domains: map[string]bool{}, places: map[string]placed{},
	}
	for _, domain := range set.Domains() {
		c.domains[domain] = true
	}
	for _, r := range set.Rules() {
		if r.Unlimited {
			continue
		}
		if known, ok := old.rules[r]; ok { // its domain did not change
			c.rules[r], c.labels[labelsOf(r)] = known, known.tally
			m.place(c, r, known.tally)
			continue
		}
		l := labelsOf(r)
		t := c.labels[l]
		if t == nil {
			t = m.tally(l, r.Limit)
			c.labels[l] = t
		}
		if r.CountsValues() && t.values == nil {
			if before := old.labels[l]; before != nil && before.values != nil {
				t.values = before.values
			} else {
				t.values = newValues(l, r, m.metrics.values, &m.changing)
			}
		}
		c.rules[r] = counted{t, m.nearLimit(r.Limit)}
		m.place(c, r, t)
	}
	return c
}

// place notes what counts for a rule by its place, where usage is logged.
func (m *Meter) place(c *counters, r *rules.Rule, t *tally) {
	if m.usage != nil {
		c.places[r.State("").Rule] = placed{t, r}
	}
}

// tally is what counts for a rule; limit is nil when each request brings its own.
func (m *Meter) tally(l labels, limit *weir.Limit) *tally {
	return &tally{
		sums: m.metrics.of(l), traffic: m.Book.Open(l.id(), limit, time.Now()), usage: m.usage.Open(usagelog.ID(l.id())),
	}
}

// drop forgets what counted for a rule; changing is held.
func (m *Meter) drop(l labels, t *tally) {
	m.metrics.drop(l)
	if t.values != nil {
		t.values.drop()
	}
	m.Book.Close(l.id())
	m.usage.Close(usagelog.ID(l.id()))
}

// nearLimit is how many events a limit has left, of those that may pass at once,
// when over nearFrom of them are used.
func (m *Meter) nearLimit(l *weir.Limit) int64 {
	const whole = 1_000_000
	most := l.Spec().Burst
	if most == 0 {
		most, _ = l.Standing(weir.State{}, 0)
	}
	return most - most/whole*m.nearFrom - most%whole*m.nearFrom/whole
}

// Check is that of rules.Limiter.
func (m *Meter) Check(ctx context.Context, r *rules.Request) (*rules.Answer, error) {
	a, err := m.Limiter.Check(ctx, r)
	if err == nil && !r.Peek {
		m.count(r, a)
	}
	return a, err
}

// CheckInto is that of rules.Limiter.
func (m *Meter) CheckInto(ctx context.Context, r *rules.Request, a *rules.Answer) error {
	err := m.Limiter.CheckInto(ctx, r, a)
	if err == nil && !r.Peek {
		m.count(r, a)
	}
	return err
}

// Throttled counts what CL.THROTTLE decides about a key.
func (m *Meter) Throttled(key string, d *weir.Decision) {
	m.metrics.throttled[d.Outcome].Add(1)
	m.throttled.Throttled(key, d)
}

// settled counts what was settled, in the log of usage alone.
func (m *Meter) settled(all []weir.Settlement) {
	c := m.counters.Load()
	for i := range all {
		s := &all[i]
		place := unmarked(s.Receipt.State.Rule)
		by, known := c.places[place]
		if !known {
			if of, ok := c.brought.Load(broughtTo(place)); ok {
				by, known = of.(placed), true
			}
		}
		if known {
			by.usage.Settled(s, by.rule)
			continue
		}
		domain, _, _ := strings.Cut(strings.TrimPrefix(place, weir.Brought), "/")
		domain, _, _ = strings.Cut(domain, "#")
		if text, err := url.PathUnescape(domain); err == nil {
			domain = text
		}
		m.usage.Gone(usagelog.ID{Domain: domain, Rule: place}).Settled(s, nil)
	}
}

// unmarked is a place without what is put before it in the receipts of a fallback, and of nodes that each
// decide by themselves, up to a byte that no place has.
func unmarked(place string) string { return place[strings.LastIndexByte(place, 0)+1:] }

// broughtTo is what the places of all overrides of a domain have in common.
func broughtTo(place string) string {
	common, _, _ := strings.Cut(place, "/")
	return common
}

func (m *Meter) count(r *rules.Request, a *rules.Answer) {
	c := m.counters.Load()
	if len(a.Decisions) == 0 && !c.domains[r.Domain] {
		m.metrics.unknown.Inc()
	}
	for i := range a.Decisions {
		d := &a.Decisions[i]
		by := m.of(c, d.Rule)
		if by.tally == nil {
			continue
		}
		by.decisions[d.Outcome].Add(1)
		by.cost[d.Outcome].Add(uint64(d.Cost))
		near := uint64(0)
		if d.Outcome == weir.Allowed && d.Remaining < by.near {
			by.nearLimit.Add(1)
			near = uint64(min(d.Cost, by.near-d.Remaining))
			by.nearCost.Add(near)
			by.traffic.Near()
		}
		entries := r.Descriptors[d.Descriptor].Entries
		by.usage.Decided(d, entries)
		if d.Outcome == weir.Allowed {
			by.traffic.Pass()
		} else {
			var room [offenders.MaxName]byte
			name := d.Rule.AppendKeyName(room[:0], entries)
			if a.Allowed { // it is in shadow, or denies beside a quota that does not
				by.traffic.Deny(name)
			} else {
				by.traffic.Refuse(name, d.RetryAfter)
			}
		}
		if by.values != nil && d.Rule.CountsValues() {
			by.values.count(d, entries, near)
		}
	}
}

// of is what counts for a rule; nothing does when it went while it decided.
func (m *Meter) of(c *counters, rule *rules.Rule) counted {
	if rule.Override {
		return counted{m.override(c, rule), m.nearLimit(rule.Limit)}
	}
	if rule.Usual != nil { // an exception counts for its rule
		by := m.of(c, rule.Usual)
		by.near = m.nearLimit(rule.Limit)
		return by
	}
	if by, ok := c.rules[rule]; ok {
		return by
	}
	return counted{c.labels[labelsOf(rule)], 0} // of the rule that came in its place
}

func (m *Meter) override(c *counters, rule *rules.Rule) *tally {
	l := labelsOf(rule)
	if t, ok := c.overrides.Load(l); ok {
		return t.(*tally)
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	c = m.counters.Load() // it may be another by now
	if !c.domains[l.domain] {
		return nil
	}
	t, ok := c.overrides.Load(l)
	if !ok {
		t, _ = c.overrides.LoadOrStore(l, m.tally(l, nil))
		c.brought.Store(broughtTo(rule.State("").Rule), placed{t.(*tally), rule})
	}
	return t.(*tally)
}

// tally is what counts for one rule, or for several with the same labels.
type tally struct {
	*sums

	traffic *offenders.Traffic
	values  *values        // nil when the rule does not count values
	usage   *usagelog.Rule // nil when usage is not logged
}
