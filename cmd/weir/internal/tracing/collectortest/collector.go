// Package collectortest is an OpenTelemetry collector for tests: it receives
// traces and metrics by OTLP over gRPC and HTTP, and keeps them.
package collectortest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	gauges "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Collector is a collector that has come up.
type Collector struct {
	collector.UnimplementedTraceServiceServer

	// GRPC and HTTP are its endpoints.
	GRPC, HTTP string

	mu       sync.Mutex
	spans    []*traces.Span
	metrics  map[string]*metrics.Metric // the last of each name
	resource map[string]string
	hang     chan struct{} // nil: it answers
	began    chan struct{}
}

// Start makes a collector that ends with the test. When it hangs it takes what
// it is sent and answers nothing until the test ends.
func Start(t *testing.T, hangs bool) *Collector {
	t.Helper()
	c := &Collector{resource: map[string]string{}, metrics: map[string]*metrics.Metric{}, began: make(chan struct{}, 1)}
	if hangs {
		c.hang = make(chan struct{})
	}
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, c)
	gauges.RegisterMetricsServiceServer(s, &measures{of: c})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	web := httptest.NewServer(http.HandlerFunc(c.serveHTTP))
	t.Cleanup(func() {
		if c.hang != nil {
			close(c.hang)
		}
		s.Stop()
		web.Close()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	c.GRPC, c.HTTP = "http://"+l.Addr().String(), web.URL
	return c
}

// Export receives spans.
func (c *Collector) Export(_ context.Context, q *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	select {
	case c.began <- struct{}{}:
	default:
	}
	if c.hang != nil {
		<-c.hang
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range q.ResourceSpans {
		for _, a := range r.Resource.Attributes {
			c.resource[a.Key] = Text(a.Value)
		}
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// measures receives metrics.
type measures struct {
	gauges.UnimplementedMetricsServiceServer

	of *Collector
}

// Export receives metrics.
func (m *measures) Export(_ context.Context, q *gauges.ExportMetricsServiceRequest) (*gauges.ExportMetricsServiceResponse, error) {
	c := m.of
	if c.hang != nil {
		<-c.hang
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range q.ResourceMetrics {
		for _, a := range r.Resource.Attributes {
			c.resource[a.Key] = Text(a.Value)
		}
		for _, s := range r.ScopeMetrics {
			for _, one := range s.Metrics {
				c.metrics[one.Name] = one
			}
		}
	}
	return &gauges.ExportMetricsServiceResponse{}, nil
}

func (c *Collector) serveHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var answer proto.Message
	switch r.URL.Path {
	case "/v1/traces":
		var q collector.ExportTraceServiceRequest
		if err = errors.Join(err, proto.Unmarshal(body, &q)); err == nil {
			answer, err = c.Export(r.Context(), &q)
		}
	case "/v1/metrics":
		var q gauges.ExportMetricsServiceRequest
		if err = errors.Join(err, proto.Unmarshal(body, &q)); err == nil {
			answer, err = (&measures{of: c}).Export(r.Context(), &q)
		}
	default:
		err = errors.New("no such signal")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out, err := proto.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(out) // the sender may be gone
}

// Began waits until something was sent.
func (c *Collector) Began(t *testing.T) {
	t.Helper()
	select {
	case <-c.began:
	case <-t.Context().Done():
		t.Error("nothing was sent")
	}
}

// Spans are all that were received.
func (c *Collector) Spans() []*traces.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans
}

// Metric is what was received last of a name; nil: nothing was.
func (c *Collector) Metric(name string) *metrics.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metrics[name]
}

// Resource is who sent them.
func (c *Collector) Resource() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resource
}

// Attributes are those of a span, as texts.
func Attributes(s *traces.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[a.Key] = Text(a.Value)
	}
	return all
}

// Text is a value as text.
func Text(v *common.AnyValue) string {
	if s, ok := v.GetValue().(*common.AnyValue_StringValue); ok {
		return s.StringValue
	}
	return v.String()
}
