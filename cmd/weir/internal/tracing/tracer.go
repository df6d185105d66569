package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/weir-limit/weir/rules"
)

// FlushTime is how long Close waits at most for spans to be sent.
const FlushTime = 2 * time.Second

// Options of a Tracer, and of Metrics.
type Options struct {
	Version string       // of the service
	Log     *slog.Logger // says when sending begins to fail, and works again; not nil
}

// Tracer makes spans and sends them, on a goroutine of its own. Whatever becomes
// of the collector, calls do not wait for it.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	remote   propagation.TraceContext
	outlet   *outlet
}

// Open makes a tracer. It does not wait for the collector. Close it.
func (s *Settings) Open(ctx context.Context, o Options) (*Tracer, error) {
	var client otlptrace.Client
	if s.grpc {
		client = otlptracegrpc.NewClient()
	} else {
		client = otlptracehttp.NewClient()
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("open the way to the collector: %w", err)
	}
	r, err := o.resource(ctx)
	if err != nil {
		return nil, err
	}
	return newTracer(exporter, r, o.Log), nil
}

// resource is who sends. The attributes of the environment override the daemon's own.
func (o *Options) resource(ctx context.Context) (*resource.Resource, error) {
	r, err := resource.New(
		ctx, resource.WithAttributes(attribute.String("service.name", "weir"), attribute.String("service.version", o.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv(),
	)
	if err != nil {
		return nil, &EnvError{"OTEL_RESOURCE_ATTRIBUTES", err.Error() + "; write KEY=VALUE,…"}
	}
	return r, nil
}

func newTracer(to sdktrace.SpanExporter, r *resource.Resource, log *slog.Logger) *Tracer {
	out := &outlet{SpanExporter: to, log: log}
	batch := sdktrace.NewBatchSpanProcessor(out, sdktrace.WithMaxQueueSize(MaxSpans))
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&gate{batch, out}), sdktrace.WithResource(r))
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/weir-limit/weir"), outlet: out}
}

// Close sends what is left, for FlushTime and until ctx ends. Later spans are
// thrown away.
func (t *Tracer) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, FlushTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last spans: %w", err)
	}
	return nil
}

// untraced are routes that decide nothing and are asked all the time.
func untraced(route string) bool {
	return route == "/healthz" || route == "/healthcheck" || route == "/readyz" || route == "other"
}

// HTTP begins the span of a call, below the one that its header names. end is
// nil for calls that have none.
func (t *Tracer) HTTP(r *http.Request, route string) (traced *http.Request, end func(status int)) {
	if untraced(route) {
		return r, nil
	}
	ctx := t.remote.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := t.tracer.Start(ctx, r.Method+" "+route, trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return r, nil
	}
	span.SetAttributes(
		attribute.String("weir.listener", "http"), attribute.String("http.request.method", r.Method), attribute.String("http.route", route),
	)
	return r.WithContext(ctx), func(status int) {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(otelcodes.Error, "")
		}
		span.End()
	}
}

// GRPC begins the span of a call, below the one that its metadata name. end is
// nil for calls that have none.
func (t *Tracer) GRPC(ctx context.Context) (traced context.Context, end func(codes.Code)) {
	const service, method = "envoy.service.ratelimit.v3.RateLimitService", "ShouldRateLimit"
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		parent := propagation.MapCarrier{} // the fields of W3C's trace context
		for _, name := range t.remote.Fields() {
			if values := md.Get(name); len(values) > 0 {
				parent[name] = values[0]
			}
		}
		ctx = t.remote.Extract(ctx, parent)
	}
	traced, span := t.tracer.Start(ctx, service+"/"+method, trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return ctx, nil
	}
	span.SetAttributes(
		attribute.String("weir.listener", "grpc"), attribute.String("rpc.system", "grpc"),
		attribute.String("rpc.service", service), attribute.String("rpc.method", method),
	)
	return traced, func(code codes.Code) {
		span.SetAttributes(attribute.Int("rpc.grpc.status_code", int(code)))
		switch code {
		case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
			span.SetStatus(otelcodes.Error, "")
		default: // the others are the client's, or none
		}
		span.End()
	}
}

// Decided tells the span of ctx, if there is one, what was decided. It tells nothing of a request
// but words that stand in rule files.
func Decided(ctx context.Context, a *rules.Answer) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	outcome := "allowed"
	if a.Decisive >= 0 {
		d := &a.Decisions[a.Decisive]
		outcome = d.Outcome.String()
		span.SetAttributes(attribute.String("weir.rule", d.Rule.Name))
	}
	if len(a.Decisions) > 0 {
		span.SetAttributes(attribute.String("weir.domain", a.Decisions[0].Rule.Domain))
	}
	span.SetAttributes(attribute.String("weir.outcome", outcome), attribute.String("weir.decision.id", a.ID()))
}
