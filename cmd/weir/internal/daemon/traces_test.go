package daemon

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/cmd/weir/internal/tracing/collectortest"
)

// askAll asks each listener that is traced, as a caller that is in a trace of its own.
func askAll(t *testing.T, r *running) {
	t.Helper()
	const parent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	ann := `{"domain":"demo","descriptors":[{"entries":[{"key":"client_id","value":"ann"}]}]}`
	for _, q := range []struct{ method, path, body string }{
		{http.MethodPost, "/v1/check", ann},
		{http.MethodPost, "/json", ann},
		{http.MethodGet, "/auth?domain=demo&e=client_id=ann", ""},
		{http.MethodGet, "/healthz", ""},
	} {
		request, err := http.NewRequestWithContext(t.Context(), q.method, "http://"+r.http+q.path, strings.NewReader(q.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Traceparent", parent)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
			t.Error(q.path, response.Status, err)
		}
	}
	conn, err := grpc.NewClient(r.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = rls.NewRateLimitServiceClient(conn).ShouldRateLimit(metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent), &rls.RateLimitRequest{
		Domain: "demo", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "client_id", Value: "ann"}}}},
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTraces: a span of each call that decides, below that of its caller. What
// is left is sent when the daemon stops.
func TestTraces(t *testing.T) {
	c := collectortest.Start(t, false)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.GRPC)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	r := start(t, Config{Version: "v7"})
	askAll(t, r)
	if _, body := get(t, "http://"+r.admin+"/metrics"); !strings.Contains(body, `weir_trace_spans_total{result="dropped"} 0`) {
		t.Error("spans are not counted")
	}
	r.stop()
	err := <-r.done
	r.done <- err
	spans := c.Spans()
	var names []string
	for _, s := range spans {
		names = append(names, s.Name)
		got := collectortest.Attributes(s)
		if got["weir.domain"] != "demo" || got["weir.rule"] != "demo/client_id" || got["weir.outcome"] != "allowed" || len(got["weir.decision.id"]) != 16 || s.ParentSpanId[0] != 1 {
			t.Error(s)
		}
		if strings.Contains(s.String(), "ann") {
			t.Error("a key is told:", s)
		}
	}
	want := "POST /v1/check, POST /json, GET /auth, envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if who := c.Resource(); who["service.name"] != "weir" || who["service.version"] != "v7" {
		t.Error(who)
	}
}

// TestTracesBroken: a collector that is not there, or hangs, keeps nobody
// waiting but, for a moment, who stops the daemon.
func TestTracesBroken(t *testing.T) {
	hanging := collectortest.Start(t, true)
	for name, endpoint := range map[string]string{"down": "http://127.0.0.1:1", "hanging": hanging.GRPC} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
			t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
			r := start(t, Config{Drain: 50 * time.Millisecond})
			askAll(t, r)
			if name == "hanging" {
				hanging.Began(t)
			}
			askAll(t, r)
			r.stop()
			err := <-r.done
			r.done <- err
		})
	}
}

// TestNoTraces: without an endpoint the listeners have no code of traces at all.
func TestNoTraces(t *testing.T) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(name, "")
	}
	r := start(t, Config{})
	http, grpc := r.daemon.traceHooks()
	if decider, ok := r.daemon.decider().(*telemetry.Meter); http != nil || grpc != nil || !ok || decider != r.daemon.limiter {
		t.Error("calls are traced, though nobody asked for it")
	}
	if _, body := get(t, "http://"+r.admin+"/metrics"); strings.Contains(body, "weir_trace") {
		t.Error("spans are counted")
	}
}

// TestTracesFault: a mistake in the environment is told before a listener opens.
func TestTracesFault(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4317")
	_, err := New(Config{})
	if bad, ok := errors.AsType[*ConfigError](err); !ok || bad.Flag != "OTEL_EXPORTER_OTLP_ENDPOINT" {
		t.Error(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "nonsense")
	d, err := New(Config{HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", Admin: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if bad, ok := errors.AsType[*ConfigError](d.Run(t.Context())); !ok || bad.Flag != "OTEL_RESOURCE_ATTRIBUTES" {
		t.Error(bad)
	}
}
