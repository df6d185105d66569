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
}

// outcomes are the counters of one rule, by weir.Outcome.
type outcomes [3]prometheus.Counter

// counters are those of all rules in force, looked up once: by labels it would
// take longer than to decide.
type counters struct {
	rules map[*rules.Rule]*outcomes
	// overrides are by domain, made when they are needed: each override is a
	// rule of its own, but all of a domain have one name.
	overrides sync.Map
}

func newMeter(l *rules.Limiter, decisions *prometheus.CounterVec) *meter {
	m := &meter{Limiter: l, decisions: decisions}
	m.counters.Store(&counters{})
	return m
}

// replace changes the rules, and what is counted with them.
func (m *meter) replace(set *rules.Set) {
	c := &counters{rules: map[*rules.Rule]*outcomes{}}
	for _, r := range set.Rules() {
		if !r.Unlimited {
			c.rules[r] = m.outcomes(r)
		}
	}
	m.counters.Store(c)
	m.Limiter.Replace(set)
}

func (m *meter) outcomes(r *rules.Rule) *outcomes {
	o := new(outcomes)
	for i := range o {
		o[i] = m.decisions.WithLabelValues(r.Domain, r.Name, strconv.FormatBool(r.Shadow), weir.Outcome(i).String())
	}
	return o
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
		m.of(c, d.Rule)[d.Outcome].Inc()
	}
	return a, nil
}

func (m *meter) of(c *counters, rule *rules.Rule) *outcomes {
	if rule.Override {
		o, ok := c.overrides.Load(rule.Domain)
		if !ok {
			o, _ = c.overrides.LoadOrStore(rule.Domain, m.outcomes(rule))
		}
		return o.(*outcomes)
	}
	if o := c.rules[rule]; o != nil {
		return o
	}
	return m.outcomes(rule) // it was replaced while it decided
}
