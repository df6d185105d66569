package daemon

import (
	"context"
	"errors"
	"net/http"
	"os"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"

	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/cmd/weir/internal/tracing"
)

// readTraces is what the environment says of traces; nil: there are none. It is
// that of the process, because OpenTelemetry reads it by itself.
func readTraces() (*tracing.Settings, error) {
	s, err := tracing.Read(os.Getenv)
	return s, envFault(err)
}

// readMetrics is what it says of metrics; nil: /metrics alone has them.
func readMetrics() (*tracing.MetricSettings, error) {
	s, err := tracing.ReadMetrics(os.Getenv)
	return s, envFault(err)
}

// openCollector makes the tracer of the listeners, and begins to send metrics, where the environment says so.
func (d *Daemon) openCollector(ctx context.Context) error {
	o := tracing.Options{Version: d.config.Version, Log: d.config.Log}
	var closes []func(context.Context) error
	d.closing.push("some traces, or the last metrics, are lost", func(ctx context.Context) error {
		var both errgroup.Group // a collector that hangs costs its time once
		for _, f := range closes {
			both.Go(func() error { return f(ctx) })
		}
		return both.Wait()
	})
	if d.sending != nil {
		m, err := d.sending.Open(ctx, o, d.registry)
		if err != nil {
			return envFault(err)
		}
		closes = append(closes, m.Close)
		d.registry.MustRegister(telemetry.Exports(m))
	}
	if d.traces != nil {
		t, err := d.traces.Open(ctx, o)
		if err != nil {
			return envFault(err)
		}
		d.tracer = t
		closes = append(closes, t.Close)
		d.registry.MustRegister(telemetry.Traces(t))
	}
	return nil
}

func envFault(err error) error {
	if bad, ok := errors.AsType[*tracing.EnvError](err); ok {
		return &ConfigError{bad.Variable, bad.Text}
	}
	return err
}

// decider is what the HTTP and gRPC listeners ask: the limiter itself when there are
// no traces.
func (d *Daemon) decider() httpapi.Limiter {
	if d.tracer == nil {
		return d.limiter
	}
	return telemetry.Traced{Meter: d.limiter}
}

// traceHooks are what the listeners call; nil when there are no traces.
func (d *Daemon) traceHooks() (
	http func(*http.Request, string) (*http.Request, func(int)), grpc func(context.Context) (context.Context, func(codes.Code)),
) {
	if d.tracer == nil {
		return nil, nil
	}
	return d.tracer.HTTP, d.tracer.GRPC
}
