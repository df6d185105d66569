package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// MetricSettings are what the environment says of metrics.
type MetricSettings struct {
	grpc bool // else HTTP with protobuf
}

// ReadMetrics is what the environment says of metrics, nil when there is no endpoint, or they are turned off. It fails
// with an *EnvError.
func ReadMetrics(getenv func(string) string) (*MetricSettings, error) {
	way, err := readWay(getenv, "METRICS")
	if way == nil || err != nil {
		return nil, err
	}
	for _, variable := range []string{"OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT"} {
		given := strings.TrimSpace(getenv(variable))
		if n, err := strconv.Atoi(given); given != "" && (err != nil || n <= 0) { // OpenTelemetry would pass it over
			return nil, &EnvError{variable, fmt.Sprintf("%q is no number of milliseconds; write one above 0, as 15000", given)}
		}
	}
	return &MetricSettings{way.grpc}, nil
}

// Metrics sends the metrics of a registry, on a goroutine of its own, each OTEL_METRIC_EXPORT_INTERVAL.
type Metrics struct {
	provider *metric.MeterProvider
	outlet   *metricOutlet
}

// Open begins to send the metrics of a registry. It does not wait for the collector. Close it.
func (s *MetricSettings) Open(ctx context.Context, o Options, from prometheus.Gatherer) (*Metrics, error) {
	var to metric.Exporter
	var err error
	if s.grpc {
		to, err = otlpmetricgrpc.New(ctx)
	} else {
		to, err = otlpmetrichttp.New(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open the way to the collector: %w", err)
	}
	r, err := o.resource(ctx)
	if err != nil {
		return nil, err
	}
	// What it does not return it tells the handler of the process, which would write to stderr in a form of its own.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Log.Warn("OpenTelemetry reports an error", "error", err) }))
	out := &metricOutlet{Exporter: to, log: o.Log}
	reader := metric.NewPeriodicReader(out, metric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(from))))
	return &Metrics{metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(r)), out}, nil
}

// Stats is how often metrics were sent so far. None is dropped: each time all are sent as they are then.
func (m *Metrics) Stats() Stats {
	return Stats{Sent: m.outlet.sent.Load(), Failed: m.outlet.failed.Load()}
}

// Close sends the metrics once more, for FlushTime and until ctx ends.
func (m *Metrics) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, FlushTime)
	defer cancel()
	if err := m.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last metrics: %w", err)
	}
	return nil
}

// metricOutlet counts what goes to the collector.
type metricOutlet struct {
	metric.Exporter

	log          *slog.Logger
	sent, failed atomic.Int64
	broken       bool // used by the one goroutine that exports
}

// Export sends metrics, and logs when failures begin.
func (o *metricOutlet) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	err := o.Exporter.Export(ctx, all)
	if err != nil {
		o.failed.Add(1)
		if !o.broken {
			o.log.Warn("metrics can't be sent to the collector; /metrics has them", "error", err)
		}
	} else {
		o.sent.Add(1)
		if o.broken {
			o.log.Info("metrics are sent again")
		}
	}
	o.broken = err != nil
	return nil // it is told
}
