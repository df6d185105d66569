package daemon

import (
	"context"
	"errors"
	"net/http"
	"os"

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

// openTraces makes the tracer of the listeners, or none.
func (d *Daemon) openTraces(ctx context.Context) error {
	if d.traces == nil {
		return nil
	}
	t, err := d.traces.Open(ctx, tracing.Options{Version: d.config.Version, Log: d.config.Log})
	if err != nil {
		return envFault(err)
	}
	d.tracer = t
	d.closing.push("some traces are lost", t.Close)
	d.registry.MustRegister(telemetry.Traces(t))
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
