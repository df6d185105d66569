package daemon

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir"
)

// decisionMetrics are of what rules decide. Labels come from the rule files,
// and from requests only where a rule says so.
type decisionMetrics struct {
	decisions, cost, near, values *prometheus.CounterVec
	unknown                       prometheus.Counter
}

func newDecisionMetrics() decisionMetrics {
	vector := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, slices.Concat([]string{"domain", "rule", "shadow"}, more))
	}
	return decisionMetrics{
		decisions: vector("weir_decisions_total", "What the limit of a rule alone said; peeks are not counted. A shadow rule is not enforced.", "outcome"),
		cost:      vector("weir_cost_total", "The events that the requests of weir_decisions_total asked for.", "outcome"),
		near:      vector("weir_near_limit_total", "Decisions that allowed a request, and left over 80 % of what may pass at once used."),
		values: vector("weir_value_decisions_total", "The decisions of a rule with detailed_metric or value_to_metric, by what its first 100 values are; "+
			"all beyond are other.", "value", "outcome"),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_unknown_domain_total", Help: "Requests about domains that have no rules.",
		}),
	}
}

func (m *decisionMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.decisions, m.cost, m.near, m.values, m.unknown}
}

// values are label values in the order of newDecisionMetrics.
func (l labels) values(more ...string) []string {
	return append([]string{l.domain, l.rule, strconv.FormatBool(l.shadow)}, more...)
}

// countersBy looks up the counters of all outcomes.
func countersBy(vector *prometheus.CounterVec, values func(weir.Outcome) []string) *outcomes {
	all := new(outcomes)
	for i := range all {
		all[i] = vector.WithLabelValues(values(weir.Outcome(i))...)
	}
	return all
}

func (m *decisionMetrics) tally(l labels) *tally {
	byOutcome := func(o weir.Outcome) []string { return l.values(o.String()) }
	return &tally{
		decisions: *countersBy(m.decisions, byOutcome),
		cost:      *countersBy(m.cost, byOutcome),
		nearLimit: m.near.WithLabelValues(l.values()...),
	}
}

// drop takes the counters of a rule out of the metrics; a meter's changing is
// held.
func (m *decisionMetrics) drop(l labels, t *tally) {
	for i := range len(outcomes{}) {
		o := weir.Outcome(i).String()
		m.decisions.DeleteLabelValues(l.values(o)...)
		m.cost.DeleteLabelValues(l.values(o)...)
	}
	m.near.DeleteLabelValues(l.values()...)
	if t.values != nil {
		t.values.drop()
	}
}
