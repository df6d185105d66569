package telemetry

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/rules"
)

// Meter is a rules.Limiter that counts what its rules decide.
type Meter struct {
	*rules.Limiter

	metrics  *Decisions
	Book     *offenders.Book
	counters atomic.Pointer[counters]
	changing sync.Mutex // held to make and drop counters
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
}

// NewMeter makes a meter of a limiter, which has no rules yet.
func NewMeter(l *rules.Limiter, metrics *Decisions) *Meter {
	m := &Meter{Limiter: l, metrics: metrics, Book: offenders.NewBook()}
	m.counters.Store(&counters{})
	return m
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
	c := &counters{rules: map[*rules.Rule]counted{}, labels: map[labels]*tally{}, domains: map[string]bool{}}
	for _, domain := range set.Domains() {
		c.domains[domain] = true
	}
	for _, r := range set.Rules() {
		if r.Unlimited {
			continue
		}
		if known, ok := old.rules[r]; ok { // its domain did not change
			c.rules[r], c.labels[labelsOf(r)] = known, known.tally
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
				t.values = newValues(l, m.metrics.values, &m.changing)
			}
		}
		c.rules[r] = counted{t, nearLimit(r.Limit)}
	}
	return c
}

// tally is what counts for a rule; limit is nil when each request brings its own.
func (m *Meter) tally(l labels, limit *weir.Limit) *tally {
	return &tally{sums: m.metrics.of(l), traffic: m.Book.Open(l.id(), limit, time.Now())}
}

// drop forgets what counted for a rule; changing is held.
func (m *Meter) drop(l labels, t *tally) {
	m.metrics.drop(l)
	if t.values != nil {
		t.values.drop()
	}
	m.Book.Close(l.id())
}

// nearLimit is how many events a limit has left, of those that may pass at once,
// when over 80 % of them are used.
func nearLimit(l *weir.Limit) int64 {
	most := l.Spec().Burst
	if most == 0 {
		most, _ = l.Standing(weir.State{}, 0)
	}
	return most - most/5*4 - most%5*4/5
}

// Check is that of rules.Limiter.
func (m *Meter) Check(ctx context.Context, r *rules.Request) (*rules.Answer, error) {
	a, err := m.Limiter.Check(ctx, r)
	if err != nil || r.Peek {
		return a, err
	}
	m.count(r, a)
	return a, nil
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
		if d.Outcome == weir.Allowed && d.Remaining < by.near {
			by.nearLimit.Add(1)
		}
		entries := r.Descriptors[d.Descriptor].Entries
		if d.Outcome == weir.Allowed {
			by.traffic.Pass()
		} else {
			var room [offenders.MaxName]byte
			by.traffic.Deny(d.Rule.AppendKeyName(room[:0], entries))
		}
		if by.values != nil && d.Rule.CountsValues() {
			by.values.count(d.Rule, entries, d.Outcome)
		}
	}
}

// of is what counts for a rule; nothing does when it went while it decided.
func (m *Meter) of(c *counters, rule *rules.Rule) counted {
	if rule.Override {
		return counted{m.override(c, labelsOf(rule)), nearLimit(rule.Limit)}
	}
	if by, ok := c.rules[rule]; ok {
		return by
	}
	return counted{c.labels[labelsOf(rule)], 0} // of the rule that came in its place
}

func (m *Meter) override(c *counters, l labels) *tally {
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
	}
	return t.(*tally)
}

// tally is what counts for one rule, or for several with the same labels.
type tally struct {
	*sums

	traffic *offenders.Traffic
	values  *values // nil when the rule does not count values
}
