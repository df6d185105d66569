package daemon

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// meter is a rules.Limiter that counts what its rules decide.
type meter struct {
	*rules.Limiter

	decisions *prometheus.CounterVec
	counters  atomic.Pointer[counters]
	changing  sync.Mutex // held to make and drop counters
}

// labels tell the counters of rules apart.
type labels struct {
	domain, rule string
	shadow       bool
}

func labelsOf(r *rules.Rule) labels { return labels{r.Domain, r.Name, r.Shadow} }

// outcomes are the counters of one rule, by weir.Outcome.
type outcomes [3]prometheus.Counter

// counters are those of all rules in force, looked up once: by labels it would
// take longer than to decide.
type counters struct {
	rules   map[*rules.Rule]*outcomes
	labels  map[labels]*outcomes
	domains map[string]bool
	// overrides are by domain, made when they are needed: each override is a
	// rule of its own, but all of a domain have one name.
	overrides sync.Map
}

func newMeter(l *rules.Limiter, decisions *prometheus.CounterVec) *meter {
	m := &meter{Limiter: l, decisions: decisions}
	m.counters.Store(&counters{})
	return m
}

// replace changes the rules, and what is counted with them: the counters of
// rules that are gone go too.
func (m *meter) replace(set *rules.Set) {
	m.changing.Lock()
	defer m.changing.Unlock()
	old := m.counters.Load()
	c := &counters{rules: map[*rules.Rule]*outcomes{}, labels: map[labels]*outcomes{}, domains: map[string]bool{}}
	for _, domain := range set.Domains() {
		c.domains[domain] = true
	}
	for _, r := range set.Rules() {
		if r.Unlimited {
			continue
		}
		l := labelsOf(r)
		if c.labels[l] == nil {
			c.labels[l] = m.outcomes(l)
		}
		c.rules[r] = c.labels[l]
	}
	old.overrides.Range(func(l, o any) bool {
		if c.domains[l.(labels).domain] {
			c.overrides.Store(l, o)
		} else {
			m.drop(l.(labels))
		}
		return true
	})
	m.counters.Store(c)
	m.Limiter.Replace(set)
	for l := range old.labels {
		if c.labels[l] == nil {
			m.drop(l)
		}
	}
}

func (m *meter) values(l labels, o weir.Outcome) []string {
	return []string{l.domain, l.rule, strconv.FormatBool(l.shadow), o.String()}
}

func (m *meter) outcomes(l labels) *outcomes {
	o := new(outcomes)
	for i := range o {
		o[i] = m.decisions.WithLabelValues(m.values(l, weir.Outcome(i))...)
	}
	return o
}

func (m *meter) drop(l labels) {
	for i := range (outcomes{}) {
		m.decisions.DeleteLabelValues(m.values(l, weir.Outcome(i))...)
	}
}

// Check is that of rules.Limiter.
func (m *meter) Check(ctx context.Context, r *rules.Request) (*rules.Answer, error) {
	a, err := m.Limiter.Check(ctx, r)
	if err != nil || r.Peek {
		return a, err
	}
	c := m.counters.Load()
	for i := range a.Decisions {
		d := &a.Decisions[i]
		if o := m.of(c, d.Rule); o != nil {
			o[d.Outcome].Inc()
		}
	}
	return a, nil
}

// of is the counters of a rule, or nil when it went while it decided.
func (m *meter) of(c *counters, rule *rules.Rule) *outcomes {
	if rule.Override {
		return m.override(c, labelsOf(rule))
	}
	if o := c.rules[rule]; o != nil {
		return o
	}
	return c.labels[labelsOf(rule)] // of the rule that came in its place
}

func (m *meter) override(c *counters, l labels) *outcomes {
	if o, ok := c.overrides.Load(l); ok {
		return o.(*outcomes)
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	c = m.counters.Load() // it may be another by now
	if !c.domains[l.domain] {
		return nil
	}
	o, ok := c.overrides.Load(l)
	if !ok {
		o, _ = c.overrides.LoadOrStore(l, m.outcomes(l))
	}
	return o.(*outcomes)
}
