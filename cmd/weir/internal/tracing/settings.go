// Package tracing sends a span for each call to an OpenTelemetry collector. It
// is told how by the standard environment; without an endpoint there, nothing of
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

const (
	endpointVar = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesVar   = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	grpcPort    = "4317" // of OTLP over gRPC; nobody speaks HTTP there
)

// Read is what the environment says, nil when there is no endpoint, or traces
// are turned off. It fails with an *EnvError.
func Read(getenv func(string) string) (*Settings, error) {
	variable, endpoint := tracesVar, getenv(tracesVar)
	if endpoint == "" {
		variable, endpoint = endpointVar, getenv(endpointVar)
	}
	exporter := strings.TrimSpace(getenv("OTEL_TRACES_EXPORTER"))
	if endpoint == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || exporter == "none" {
		return nil, nil
	}
	if exporter != "" && exporter != "otlp" {
		return nil, &EnvError{"OTEL_TRACES_EXPORTER", fmt.Sprintf("%q is not there; write otlp, or none for no traces", exporter)}
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &EnvError{variable, "it is no URL of a collector; write http://127.0.0.1:4317 or https://HOST:PORT"}
	}
	s := &Settings{grpc: u.Port() == grpcPort}
	if err := s.readProtocol(getenv); err != nil {
		return nil, err
	}
	return s, checkSampler(getenv)
}

func (s *Settings) readProtocol(getenv func(string) string) error {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch protocol := getenv(variable); protocol {
		case "":
			continue
		case "grpc":
			s.grpc = true
		case "http/protobuf":
			s.grpc = false
		default:
			return &EnvError{variable, fmt.Sprintf("%q is not there; write grpc or http/protobuf", protocol)}
		}
		return nil
	}
	return nil
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
