package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// MaxSpans is how many spans wait to be sent, or are on their way. More are
// dropped, and counted.
const MaxSpans = 2048

// Stats are what became of spans.
type Stats struct {
	Sent    int64
	Failed  int64 // the collector did not take them
	Dropped int64 // MaxSpans were waiting
}

// Stats is what became of the spans so far.
func (t *Tracer) Stats() Stats {
	return Stats{t.outlet.sent.Load(), t.outlet.failed.Load(), t.outlet.dropped.Load()}
}

// outlet counts what goes to the collector.
type outlet struct {
	sdktrace.SpanExporter

	log                            *slog.Logger
	waiting, sent, failed, dropped atomic.Int64
	broken                         bool // used by the one goroutine that exports
}

// ExportSpans sends spans. It counts the spans that it can't send, and logs when failures begin.
func (o *outlet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	n := int64(len(spans))
	err := o.SpanExporter.ExportSpans(ctx, spans)
	o.waiting.Add(-n)
	if err != nil {
		o.failed.Add(n)
		if !o.broken {
			o.log.Warn("traces can't be sent; decisions go on without", "error", err)
		}
	} else {
		o.sent.Add(n)
		if o.broken {
			o.log.Info("traces are sent again")
		}
	}
	o.broken = err != nil
	return nil // it is told
}

// gate lets so many spans to the processor that it never drops one by itself,
// where nobody could count them.
type gate struct {
	sdktrace.SpanProcessor

	out *outlet
}

// OnEnd takes a span, unless too many wait.
func (g *gate) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if g.out.waiting.Add(1) > MaxSpans {
		g.out.waiting.Add(-1)
		g.out.dropped.Add(1)
		return
	}
	g.SpanProcessor.OnEnd(s)
}
