package daemon

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/weir-limit/weir/cmd/weir/internal/tracing/collectortest"
)

// TestMetricsToCollector: a collector is sent what /metrics has, by both protocols, and once more at the end.
func TestMetricsToCollector(t *testing.T) {
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			c := collectortest.Start(t, false)
			endpoint := c.GRPC
			if protocol != "grpc" {
				endpoint = c.HTTP
			}
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "team=edge")
			d := start(t, Config{})
			ask := func(n int) {
				t.Helper()
				if status, body := do(t, http.MethodPost, "http://"+d.http+"/v1/check", fmt.Sprintf(`{"domain":"demo","descriptors":[{"entries":[{"key":"client_id","value":"%d"}]}]}`, n)); status != 200 {
					t.Fatal(status, body)
				}
			}
			for n := range 3 {
				ask(n)
			}
			for end := time.Now().Add(patience); allowed(c.Metric("weir_decisions_total")) != 3 || c.Metric("go_goroutines") == nil; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%v were sent", c.Metric("weir_decisions_total"))
				}
			}
			of := c.Metric("weir_call_duration_seconds").GetHistogram().GetDataPoints()
			if !slices.ContainsFunc(of, func(p *metrics.HistogramDataPoint) bool {
				return collectortest.Text(p.Attributes[0].Value) == "http" && p.Count == 3 && len(p.ExplicitBounds) == len(p.BucketCounts)-1 && len(p.ExplicitBounds) > 0
			}) {
				t.Errorf("of the time of calls it was sent %v", of)
			}
			if r := c.Resource(); r["service.name"] != "weir" || r["team"] != "edge" {
				t.Errorf("they are of %v", r)
			}
			if _, body := get(t, "http://"+d.admin+"/metrics"); !strings.Contains(body, `weir_metric_exports_total{result="failed"} 0`) || strings.Contains(body, `weir_metric_exports_total{result="sent"} 0`) {
				t.Errorf("it does not count what it sent: %s", body)
			}
			ask(4)
			d.stop()
			err := <-d.done
			if d.done <- nil; err != nil {
				t.Fatal(err)
			}
			if n := allowed(c.Metric("weir_decisions_total")); n != 4 {
				t.Errorf("the last metrics have %v decisions", n)
			}
		})
	}
}

// allowed is the sum of a counter with outcome="allowed".
func allowed(m *metrics.Metric) (sum float64) {
	if !m.GetSum().GetIsMonotonic() {
		return 0
	}
	for _, p := range m.GetSum().DataPoints {
		for _, a := range p.Attributes {
			if a.Key == "outcome" && collectortest.Text(a.Value) == "allowed" {
				sum += p.GetAsDouble()
			}
		}
	}
	return sum
}

// TestMetricsWithoutCollector: a collector that is away costs no decision, and the log says so once.
func TestMetricsWithoutCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "50")
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "10")
	text, log := newLog()
	d := start(t, Config{Log: log})
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		_, body := get(t, "http://"+d.admin+"/metrics")
		if !strings.Contains(body, `weir_metric_exports_total{result="failed"} 0`) && !strings.Contains(body, `weir_metric_exports_total{result="failed"} 1`+"\n") {
			break
		}
		if time.Now().After(end) {
			t.Fatal(body)
		}
	}
	text.mu.Lock()
	defer text.mu.Unlock()
	if n := strings.Count(text.text.String(), "metrics can't be sent"); n != 1 {
		t.Errorf("the log says so %d times: %s", n, text.text.String())
	}
}
