package tracing

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/weir-limit/weir/cmd/weir/internal/tracing/collectortest"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

const (
	trace1 = "0123456789abcdef0123456789abcdef"
	span1  = "0123456789abcdef"
)

func open(t *testing.T, env map[string]string) *Tracer {
	t.Helper()
	for name, value := range env {
		t.Setenv(name, value)
	}
	s, err := Read(os.Getenv)
	if err != nil || s == nil {
		t.Fatal(s, err)
	}
	tracer, err := s.Open(t.Context(), Options{Version: "v1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

// call is a traced call of the HTTP listener about a request that is denied.
func call(t testing.TB, tracer *Tracer, l *rules.Limiter, header string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/check", nil)
	if header != "" {
		r.Header.Set("Traceparent", header)
	}
	r, end := tracer.HTTP(r, "/v1/check")
	decide(r.Context(), t, l)
	if end != nil {
		end(429)
	}
}

func decide(ctx context.Context, t testing.TB, l *rules.Limiter) {
	t.Helper()
	a, err := l.Check(ctx, &rules.Request{Domain: "shop", Descriptors: []rules.Descriptor{{Cost: 1, Entries: []rules.Entry{{Key: "user", Value: "secret"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	Decided(ctx, a)
}

func limiter(t testing.TB) *rules.Limiter {
	t.Helper()
	set, err := rules.Parse("f", []byte("domain: shop\ndescriptors: [{key: user, limits: [0/s]}]"))
	if err != nil {
		t.Fatal(err)
	}
	return rules.NewLimiter(memstore.New(memstore.Options{}), set)
}

// TestCollector: both ways to a real collector. A span is below that of its
// caller, and says what was decided, and nothing of whom.
func TestCollector(t *testing.T) {
	for _, way := range []string{"grpc", "http/protobuf"} {
		t.Run(way, func(t *testing.T) {
			c := collectortest.Start(t, false)
			endpoint := map[string]string{"grpc": c.GRPC, "http/protobuf": c.HTTP}[way]
			tracer := open(t, map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": way,
				"OTEL_SERVICE_NAME": "edge", "OTEL_RESOURCE_ATTRIBUTES": "team=a",
			})
			l := limiter(t)
			call(t, tracer, l, "00-"+trace1+"-"+span1+"-01")
			ctx, end := tracer.GRPC(metadata.NewIncomingContext(t.Context(), metadata.Pairs("traceparent", "00-"+trace1+"-"+span1+"-01")))
			decide(ctx, t, l)
			end(codes.Unavailable)
			if err := tracer.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			spans := c.Spans()
			if len(spans) != 2 {
				t.Fatal(spans)
			}
			for i, want := range []map[string]string{
				{"weir.listener": "http", "http.request.method": "POST", "http.route": "/v1/check", "http.response.status_code": "int_value:429"},
				{"weir.listener": "grpc", "rpc.system": "grpc", "rpc.service": "envoy.service.ratelimit.v3.RateLimitService", "rpc.method": "ShouldRateLimit", "rpc.grpc.status_code": "int_value:14"},
			} {
				want["weir.domain"], want["weir.rule"], want["weir.outcome"], want["weir.decision.id"] = "shop", "shop/user", "impossible", "ID"
				got := collectortest.Attributes(spans[i])
				if len(got["weir.decision.id"]) == 16 {
					got["weir.decision.id"] = "ID"
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if parent := string(spans[i].ParentSpanId); hex(spans[i].TraceId) != trace1 || hex([]byte(parent)) != span1 {
					t.Errorf("%x below %x", spans[i].TraceId, parent)
				}
			}
			if spans[0].Name != "POST /v1/check" || spans[0].Status.GetCode() != 0 || spans[1].Status.GetCode() != 2 {
				t.Error(spans)
			}
			if who := c.Resource(); who["service.name"] != "edge" || who["service.version"] != "v1" || who["team"] != "a" {
				t.Error(who)
			}
			if s := tracer.Stats(); s != (Stats{Sent: 2}) {
				t.Error(s)
			}
		})
	}
}

func hex(b []byte) string {
	const digits = "0123456789abcdef"
	var text strings.Builder
	for _, c := range b {
		text.WriteByte(digits[c>>4])
		text.WriteByte(digits[c&15])
	}
	return text.String()
}

// TestNotTraced: what decides nothing has no span, nor what the sampler or the
// caller leave out.
func TestNotTraced(t *testing.T) {
	c := collectortest.Start(t, false)
	tracer := open(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.GRPC, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_TRACES_SAMPLER": "parentbased_always_off"})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil)
	for _, route := range []string{"/healthz", "/healthcheck", "/readyz", "other", "/v1/check"} {
		if same, end := tracer.HTTP(r, route); same != r || end != nil {
			t.Errorf("%s is traced", route)
		}
	}
	if _, end := tracer.GRPC(t.Context()); end != nil {
		t.Error("sampled though off")
	}
	call(t, tracer, limiter(t), "00-"+trace1+"-"+span1+"-00")
	call(t, tracer, limiter(t), "nonsense")
	call(t, tracer, limiter(t), "00-"+trace1+"-"+span1+"-01") // the caller wants this one
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(c.Spans()); n != 1 {
		t.Errorf("%d spans", n)
	}
}

// broken is an exporter whose collector is ill.
type broken struct{ err error }

func (b *broken) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	if b.err == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return b.err
}
func (b *broken) Shutdown(context.Context) error { return nil }

// TestHanging: a collector that hangs costs spans, each counted, and no call
// waits. Close gives up in time. No clock runs but that of the test.
func TestHanging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer := newTracer(&broken{}, resource.Empty(), slog.New(slog.DiscardHandler))
		l := limiter(t)
		start := time.Now()
		const calls = 3 * MaxSpans
		for range calls {
			call(t, tracer, l, "")
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("calls waited %v", took)
		}
		if s := tracer.Stats(); s.Dropped != calls-MaxSpans || s.Sent+s.Failed != 0 {
			t.Errorf("%+v", s)
		}
		start = time.Now()
		if err := tracer.Close(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(start); took != FlushTime {
			t.Errorf("closing took %v", took)
		}
		time.Sleep(5 * time.Minute) // the rest of the spans fail by themselves
		if s := tracer.Stats(); s.Failed != MaxSpans {
			t.Errorf("%+v", s)
		}
	})
}

// TestFailing: what fails is counted, and logged once, until it works again.
func TestFailing(t *testing.T) {
	var log bytes.Buffer
	out := &outlet{SpanExporter: &broken{errors.New("nobody there")}, log: slog.New(slog.NewTextHandler(&log, nil))}
	spans := make([]sdktrace.ReadOnlySpan, 3)
	for range 2 {
		if err := out.ExportSpans(t.Context(), spans); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(log.String(), "nobody there"); n != 1 || out.failed.Load() != 6 || out.waiting.Load() != -6 {
		t.Errorf("logged %d times, %d failed", n, out.failed.Load())
	}
}

// BenchmarkTrace is what a span costs the call that it is of.
func BenchmarkTrace(b *testing.B) {
	for _, c := range []struct{ name, header string }{{"sampled", "00-" + trace1 + "-" + span1 + "-01"}, {"unsampled", "00-" + trace1 + "-" + span1 + "-00"}} {
		b.Run(c.name, func(b *testing.B) {
			tracer := newTracer(&broken{errors.New("away")}, resource.Empty(), slog.New(slog.DiscardHandler))
			r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/check", nil)
			r.Header.Set("Traceparent", c.header)
			a := &rules.Answer{Decisive: -1}
			b.ReportAllocs()
			for b.Loop() {
				r, end := tracer.HTTP(r, "/v1/check")
				Decided(r.Context(), a)
				if end != nil {
					end(200)
				}
			}
		})
	}
}
