// Package tracing sends a span for each call to an OpenTelemetry collector, and the metrics of the
// daemon. It is told how by the standard environment; without an endpoint there, nothing of
// OpenTelemetry runs.
//
// The listeners know no more of it than a hook that is nil otherwise, and the limiter that
// they ask is then one that tells the span what was decided.
package tracing

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Settings are what the environment says of traces. OpenTelemetry reads the rest
// of it by itself: headers, certificates, timeouts, resource, sampler.
type Settings struct {
	grpc bool // else HTTP with protobuf
}

// EnvError says that a variable of the environment can't be meant, and what to
// write instead.
type EnvError struct {
	Variable string
	Text     string
}

func (e *EnvError) Error() string { return e.Variable + ": " + e.Text }

// grpcPort is that of OTLP over gRPC; nobody speaks HTTP there.
const grpcPort = "4317"

// Read is what the environment says of traces, nil when there is no endpoint, or traces
// are turned off. It fails with an *EnvError.
func Read(getenv func(string) string) (*Settings, error) {
	way, err := readWay(getenv, "TRACES")
	if way == nil || err != nil {
		return nil, err
	}
	return &Settings{way.grpc}, checkSampler(getenv)
}

// way is how to reach the collector of a signal.
type way struct{ grpc bool }

// readWay is how the environment says that a signal goes to a collector: TRACES or METRICS. It is nil when that
// does not.
func readWay(getenv func(string) string, signal string) (*way, error) {
	variable := "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT"
	endpoint := getenv(variable)
	if endpoint == "" {
		variable = "OTEL_EXPORTER_OTLP_ENDPOINT"
		endpoint = getenv(variable)
	}
	exporter := strings.TrimSpace(getenv("OTEL_" + signal + "_EXPORTER"))
	if endpoint == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || exporter == "none" {
		return nil, nil
	}
	if exporter != "" && exporter != "otlp" {
		return nil, &EnvError{"OTEL_" + signal + "_EXPORTER", fmt.Sprintf("%q is not there; write otlp, or none for no %s", exporter, strings.ToLower(signal))}
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &EnvError{variable, "it is no URL of a collector; write http://127.0.0.1:4317 or https://HOST:PORT"}
	}
	w := &way{u.Port() == grpcPort}
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch protocol := getenv(variable); protocol {
		case "":
			continue
		case "grpc":
			w.grpc = true
		case "http/protobuf":
			w.grpc = false
		default:
			return nil, &EnvError{variable, fmt.Sprintf("%q is not there; write grpc or http/protobuf", protocol)}
		}
		return w, nil
	}
	return w, nil
}

// checkSampler finds what OpenTelemetry would pass over and sample all calls
// instead.
func checkSampler(getenv func(string) string) error {
	const variable = "OTEL_TRACES_SAMPLER"
	samplers := []string{"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"}
	sampler := strings.ToLower(strings.TrimSpace(getenv(variable)))
	if sampler == "" {
		return nil
	}
	if !slices.Contains(samplers, sampler) {
		return &EnvError{variable, fmt.Sprintf("%q is not there; write one of %s", sampler, strings.Join(samplers, ", "))}
	}
	arg := strings.TrimSpace(getenv(variable + "_ARG"))
	if !strings.HasSuffix(sampler, "traceidratio") || arg == "" {
		return nil
	}
	if ratio, err := strconv.ParseFloat(arg, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
		return &EnvError{variable + "_ARG", fmt.Sprintf("%q is no ratio; write a number from 0 to 1, as 0.01", arg)}
	}
	return nil
}
