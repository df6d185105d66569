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

// CheckInto is that of meter.
func (t Traced) CheckInto(ctx context.Context, r *rules.Request, a *rules.Answer) error {
	err := t.Meter.CheckInto(ctx, r, a)
	if err == nil {
		tracing.Decided(ctx, a)
	}
	return err
}

// Traces reports what became of spans.
func Traces(t *tracing.Tracer) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s := t.Stats()
		return By(Counter, "weir_trace_spans_total",
			"Trace spans by result: sent, failed because the collector did not take them, or dropped because too many "+
				"waited.",
			"result", map[string]int64{"sent": s.Sent, "failed": s.Failed, "dropped": s.Dropped})
	})
}

// Exports reports how often metrics were sent to a collector.
func Exports(m *tracing.Metrics) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s := m.Stats()
		return By(Counter, "weir_metric_exports_total",
			"How often metrics were sent to the OpenTelemetry collector, by result: sent, or failed because it did not "+
				"take them.",
			"result", map[string]int64{"sent": s.Sent, "failed": s.Failed})
	})
}
