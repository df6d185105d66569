package telemetry

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/tracing"
	"github.com/weir-limit/weir/rules"
)

// Traced tells the spans of calls what was decided.
type Traced struct{ *Meter }

// Check is that of meter.
func (t Traced) Check(ctx context.Context, r *rules.Request) (*rules.Answer, error) {
	a, err := t.Meter.Check(ctx, r)
	if err == nil {
		tracing.Decided(ctx, a)
	}
	return a, err
}

// Traces makes a metric of what became of spans.
func Traces(r prometheus.Registerer, t *tracing.Tracer) {
	for result, of := range map[string]func(tracing.Stats) int64{
		"sent":    func(s tracing.Stats) int64 { return s.Sent },
		"failed":  func(s tracing.Stats) int64 { return s.Failed },
		"dropped": func(s tracing.Stats) int64 { return s.Dropped },
	} {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name:        "weir_trace_spans_total",
			Help:        "Trace spans by result: sent, failed because the collector did not take them, or dropped because too many waited.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(of(t.Stats())) }))
	}
}
