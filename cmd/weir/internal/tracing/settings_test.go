package tracing

import (
	"errors"
	"strings"
	"testing"
)

// TestRead: what the environment may say, and what to write instead.
func TestRead(t *testing.T) {
	for _, c := range []struct {
		env  string
		want string // off, grpc, http, or the variable of the error and some of its text
	}{
		{"", "off"},
		{"OTEL_SERVICE_NAME=weir OTEL_TRACES_SAMPLER=nonsense", "off"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317", "grpc"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", "http"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=https://c", "http"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4318/v1/traces", "http"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=nonsense OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4317", "grpc"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318 OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "grpc"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317 OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "http"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_PROTOCOL=x OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc", "grpc"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_PROTOCOL write grpc or http/protobuf"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=c:4317", "OTEL_EXPORTER_OTLP_ENDPOINT write http://127.0.0.1:4317"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=ftp://c", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT no URL"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=nonsense OTEL_SDK_DISABLED=true", "off"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_SDK_DISABLED=no", "http"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_EXPORTER=none", "off"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_EXPORTER=otlp", "http"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_EXPORTER=zipkin", "OTEL_TRACES_EXPORTER write otlp"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_SAMPLER=always", "OTEL_TRACES_SAMPLER one of always_on, "},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=2", "OTEL_TRACES_SAMPLER_ARG 0.01"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=NaN", "OTEL_TRACES_SAMPLER_ARG 0.01"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_SAMPLER=Traceidratio OTEL_TRACES_SAMPLER_ARG=0.5", "http"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_SAMPLER=always_off OTEL_TRACES_SAMPLER_ARG=x", "http"},
	} {
		env := map[string]string{}
		for v := range strings.FieldsSeq(c.env) {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		s, err := Read(func(name string) string { return env[name] })
		bad, _ := errors.AsType[*EnvError](err)
		variable, text, _ := strings.Cut(c.want, " ")
		switch {
		case text != "":
			if bad == nil || bad.Variable != variable || !strings.Contains(bad.Text, text) {
				t.Errorf("%s: %v, want %s", c.env, err, c.want)
			}
		case err != nil, (s == nil) != (c.want == "off"), s != nil && s.grpc != (c.want == "grpc"):
			t.Errorf("%s: %+v %v, want %s", c.env, s, err, c.want)
		}
	}
}

// TestReadMetrics: metrics go where their own variables say, else where those of all signals say.
func TestReadMetrics(t *testing.T) {
	for env, want := range map[string]string{
		"": "off",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c:4317":                                                       "off",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317":                                                              "grpc",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317 OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://c:4318/v1/metrics": "http",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317 OTEL_METRICS_EXPORTER=none":                                   "off",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317 OTEL_TRACES_EXPORTER=none":                                    "grpc",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=grpc":                          "grpc",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_SDK_DISABLED=true":                                            "off",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_METRICS_EXPORTER=prometheus":                                  "OTEL_METRICS_EXPORTER none for no metrics",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_METRIC_EXPORT_INTERVAL=15s":                                   "OTEL_METRIC_EXPORT_INTERVAL 15000",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_METRIC_EXPORT_TIMEOUT=0":                                      "OTEL_METRIC_EXPORT_TIMEOUT above 0",
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=c:4317":                                                             "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT no URL",
	} {
		of := map[string]string{}
		for v := range strings.FieldsSeq(env) {
			name, value, _ := strings.Cut(v, "=")
			of[name] = value
		}
		s, err := ReadMetrics(func(name string) string { return of[name] })
		bad, _ := errors.AsType[*EnvError](err)
		variable, text, _ := strings.Cut(want, " ")
		switch {
		case text != "":
			if bad == nil || bad.Variable != variable || !strings.Contains(bad.Text, text) {
				t.Errorf("%s: %v, want %s", env, err, want)
			}
		case err != nil, (s == nil) != (want == "off"), s != nil && s.grpc != (want == "grpc"):
			t.Errorf("%s: %+v %v, want %s", env, s, err, want)
		}
	}
}
