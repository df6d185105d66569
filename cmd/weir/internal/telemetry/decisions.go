package telemetry

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weir-limit/weir"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/rules"
)

// Decisions are of what rules decide. Labels come from the rule files,
// and from requests only where a rule says so.
//
// The numbers of a rule are made into metrics when they are collected: kept as
// metrics, they would take 5 KB a rule, three quarters of all its memory.
type Decisions struct {
	decisions, cost, near *prometheus.Desc
	values                *prometheus.CounterVec
	unknown               prometheus.Counter
	throttled             [3]atomic.Uint64 // by weir.Outcome: what CL.THROTTLE decides, as a rule of no domain

	mu   sync.Mutex
	sums map[labels]*sums // of active rules
}

// throttled is the name that CL.THROTTLE counts by, as a rule of no domain.
const throttled = "CL.THROTTLE"

// sums are the numbers of one rule, or of several with the same labels. Like
// those of Prometheus, they begin again at 0 behind the largest.
type sums struct {
	decisions, cost [3]atomic.Uint64 // by weir.Outcome
	nearLimit       atomic.Uint64
	nearCost        atomic.Uint64 // what of the costs of such requests was used near the limit
}

// NewDecisions makes the metrics of what rules decide.
func NewDecisions() *Decisions {
	names := func(more ...string) []string { return slices.Concat([]string{"domain", "rule", "shadow"}, more) }
	return &Decisions{
		decisions: prometheus.NewDesc("weir_decisions_total",
			"Decisions of each rule by itself, without peeks; a rule with shadow=true is not enforced.", names("outcome"), nil),
		cost: prometheus.NewDesc("weir_cost_total",
			"Sum of the costs of the requests that weir_decisions_total counts.", names("outcome"), nil),
		near: prometheus.NewDesc("weir_near_limit_total",
			"Decisions that allowed a request and left more than 80 % of the limit used.", names(), nil),
		values: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_value_decisions_total",
			Help: "Decisions of rules with detailed_metric or value_to_metric, by value; after the first 100 values of a rule, the label is other.",
		}, names("value", "outcome")),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_unknown_domain_total", Help: "Requests for domains that have no rules; they pass.",
		}),
		sums: map[labels]*sums{},
	}
}

func (m *Decisions) collectors() []prometheus.Collector {
	return []prometheus.Collector{m, m.values, m.unknown}
}

// of is the sums of a rule, from now on or as they were before.
func (m *Decisions) of(l labels) *sums {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sums[l]
	if s == nil {
		s = new(sums)
		m.sums[l] = s
	}
	return s
}

// drop forgets the sums of a rule.
func (m *Decisions) drop(l labels) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sums, l)
}

// Describe sends the descriptions, for prometheus.Collector.
func (m *Decisions) Describe(to chan<- *prometheus.Desc) {
	to <- m.decisions
	to <- m.cost
	to <- m.near
}

// Collect sends the sums, for prometheus.Collector.
func (m *Decisions) Collect(to chan<- prometheus.Metric) {
	var outcomes [3]*dto.LabelPair
	for i := range outcomes {
		outcomes[i] = label("outcome", weir.Outcome(i).String())
	}
	shadow := map[bool]*dto.LabelPair{false: label("shadow", "false"), true: label("shadow", "true")}
	for i := range m.throttled {
		to <- sumOf(m.decisions, &m.throttled[i], label("domain", ""), outcomes[i], label("rule", throttled), shadow[false])
	}
	for l, s := range m.all() {
		domain, rule := label("domain", l.domain), label("rule", l.rule)
		for i, outcome := range outcomes {
			decisions := sumOf(m.decisions, &s.decisions[i], domain, outcome, rule, shadow[l.shadow])
			to <- decisions
			to <- sumOf(m.cost, &s.cost[i], decisions.labels...)
		}
		to <- sumOf(m.near, &s.nearLimit, domain, rule, shadow[l.shadow])
	}
}

// sum is a metric that is collected. There are seven of each rule: they share
// their labels, which those of package prometheus would each make anew.
type sum struct {
	desc   *prometheus.Desc
	n      float64
	labels []*dto.LabelPair // by name
}

func sumOf(desc *prometheus.Desc, n *atomic.Uint64, labels ...*dto.LabelPair) *sum {
	return &sum{desc, float64(n.Load()), labels}
}

func label(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// Desc is for prometheus.Metric.
func (s *sum) Desc() *prometheus.Desc { return s.desc }

// Write is for prometheus.Metric.
func (s *sum) Write(to *dto.Metric) error {
	to.Label, to.Counter = s.labels, &dto.Counter{Value: &s.n}
	return nil
}

// all is the sums of all rules: their collector may be slow.
func (m *Decisions) all() map[labels]*sums {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.sums)
}

// labels tell the counters of rules apart.
type labels struct {
	domain, rule string
	shadow       bool
}

func labelsOf(r *rules.Rule) labels { return labels{r.Domain, r.Name, r.Shadow} }

func (l labels) id() offenders.ID {
	return offenders.ID{Domain: l.domain, Rule: l.rule, Shadow: l.shadow}
}

// values are label values in the order of NewDecisions.
func (l labels) values(more ...string) []string {
	return append([]string{l.domain, l.rule, strconv.FormatBool(l.shadow)}, more...)
}
