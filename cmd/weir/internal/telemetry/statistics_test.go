package telemetry

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/codes"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// told is a meter with its statistics, and labels for all of them.
func toldOf(t *testing.T, text string, labels ...string) (*Meter, *Metrics, *Statistics) {
	t.Helper()
	metrics := New(prometheus.NewRegistry(), "test", nil, func() bool { return true })
	m := NewMeter(rules.NewLimiter(memstore.New(memstore.Options{}), nil), metrics.Decided)
	m.Replace(parsed(t, text))
	return m, metrics, NewStatistics(m, metrics, labels...)
}

func named(s *Statistics) map[string]uint64 {
	all := map[string]uint64{}
	s.Each(func(name string, n uint64) { all[name] = n })
	return all
}

const statisticsRules = `domain: d
descriptors:
  - {key: window, rate_limit: {unit: day, requests_per_unit: 10}}
  - {key: hidden, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  - {key: free, rate_limit: {unlimited: true}}
  - key: path
    value: /files/*
    value_to_metric: true
    descriptors:
      - {key: user, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: all, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: shared, value: a*, share_threshold: true, detailed_metric: true, rate_limit: {unit: day, requests_per_unit: 2}}
  - {key: two, limits: [5/day, 9/h]}
`

// TestStatistics: what rules count has ratelimit's names and numbers: hits, not requests; values where a rule asks for
// them; and nothing of what counted nothing.
func TestStatistics(t *testing.T) {
	m, _, s := toldOf(t, statisticsRules)
	one := func(key, value string) rules.Entry { return rules.Entry{Key: key, Value: value} }
	asks(t, m, "d", 7, nil, one("window", "ann"))
	asks(t, m, "d", 3, nil, one("window", "ann")) // 8 are not near the limit, 2 are
	asks(t, m, "d", 4, nil, one("window", "ann"))
	asks(t, m, "d", 1, nil, one("hidden", "ann"))
	asks(t, m, "d", 2, nil, one("hidden", "ann"))
	asks(t, m, "d", 1, nil, one("free", "ann"))
	asks(t, m, "d", 1, nil, one("path", "/files/a.b"), one("user", "ann"))
	asks(t, m, "d", 1, nil, one("all", ""))
	asks(t, m, "d", 1, nil, one("all", "10.1.2.3:80|x\nratelimit.forged:1|c"))
	asks(t, m, "d", 1, nil, one("all", strings.Repeat("x", maxValue)))
	asks(t, m, "d", 1, nil, one("shared", "ab"))
	asks(t, m, "d", 1, nil, one("two", "ann"))
	asks(t, m, "d", 1, weir.MustParseLimit("10/h fixed-window"), one("any", "ann"))
	const p = "ratelimit.service.rate_limit."
	want := map[string]uint64{
		p + "d.window.total_hits": 14, p + "d.window.within_limit": 10, p + "d.window.near_limit": 2, p + "d.window.over_limit": 4,
		p + "d.hidden.total_hits": 3, p + "d.hidden.within_limit": 1, p + "d.hidden.near_limit": 1, p + "d.hidden.over_limit": 2, p + "d.hidden.shadow_mode": 2,
		p + "d.path_/files/a.b.user.total_hits": 1, p + "d.path_/files/a.b.user.within_limit": 1,
		p + "d.all_.total_hits": 1, p + "d.all_.within_limit": 1,
		p + "d.all_10_1_2_3_80_x_ratelimit.forged_1_c.total_hits": 1, p + "d.all_10_1_2_3_80_x_ratelimit.forged_1_c.within_limit": 1,
		p + "d.all_other.total_hits": 1, p + "d.all_other.within_limit": 1,
		p + "d.shared_a*.total_hits": 1, p + "d.shared_a*.within_limit": 1,
		p + "d.two#1.total_hits": 1, p + "d.two#1.within_limit": 1, p + "d.two#2.total_hits": 1, p + "d.two#2.within_limit": 1,
		p + "d.override.total_hits": 1, p + "d.override.within_limit": 1,
	}
	if d := cmp.Diff(want, named(s)); d != "" {
		t.Error(d)
	}
}

// TestStatisticsAsMetrics: ratelimit's mapper parts a name by dots, takes the domain and two keys of it, and adds up what has the
// same.
func TestStatisticsAsMetrics(t *testing.T) {
	m, metrics, s := toldOf(t, `domain: a.b
descriptors:
  - key: k
    value: v
    descriptors:
      - {key: one, rate_limit: {unit: day, requests_per_unit: 10}}
      - {key: two, rate_limit: {unit: day, requests_per_unit: 10}}
`, "zone", "z")
	for _, key := range []string{"one", "two", "two"} {
		asks(t, m, "a.b", 1, nil, rules.Entry{Key: "k", Value: "v"}, rules.Entry{Key: key, Value: "x"})
	}
	metrics.Loaded()
	metrics.Reloads("refused")
	metrics.Shadowed()
	for _, code := range []codes.Code{codes.OK, codes.Unavailable, codes.InvalidArgument, codes.InvalidArgument, codes.Canceled} {
		metrics.GRPCCall(code, 20*time.Millisecond)
	}
	const want = `
ratelimit_service_config_load_error{zone="z"} 1
ratelimit_service_config_load_success{zone="z"} 1
ratelimit_service_global_shadow_mode{zone="z"} 1
ratelimit_service_rate_limit_total_hits{domain="a",key1="b",key2="k_v",zone="z"} 3
ratelimit_service_rate_limit_within_limit{domain="a",key1="b",key2="k_v",zone="z"} 3
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",zone="z",le="0.005"} 0
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",zone="z",le="0.01"} 0
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",zone="z",le="0.025"} 5
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",zone="z",le="0.05"} 5
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",zone="z",le="0.1"} 5
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",zone="z",le="0.25"} 5
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",zone="z",le="0.5"} 5
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",zone="z",le="1"} 5
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",zone="z",le="2.5"} 5
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",zone="z",le="5"} 5
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",zone="z",le="10"} 5
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",zone="z",le="+Inf"} 5
ratelimit_service_response_time_seconds_sum{grpc_method="ShouldRateLimit",zone="z"} 0.1
ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit",zone="z"} 5
ratelimit_service_should_rate_limit_error{err_type="redis_error",zone="z"} 1
ratelimit_service_should_rate_limit_error{err_type="service_error",zone="z"} 2
ratelimit_service_total_requests{grpc_method="ShouldRateLimit",zone="z"} 5
`
	r := prometheus.NewRegistry()
	r.MustRegister(s)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if d := cmp.Diff(strings.TrimPrefix(want, "\n"), strings.Join(lines, "")); d != "" {
		t.Error(d)
	}
}

// TestNearFrom: NEAR_LIMIT_RATIO moves where a request is near its limit.
func TestNearFrom(t *testing.T) {
	for millionths, want := range map[int64]uint64{0: 10, 500_000: 5, 800_000: 2, 1_000_000: 0, 333_333: 7} {
		m := NewMeter(rules.NewLimiter(memstore.New(memstore.Options{}), nil), NewDecisions())
		m.NearFrom(millionths)
		m.Replace(parsed(t, "domain: d\ndescriptors: [{key: k, limits: [10/day fixed-window]}]\n"))
		for range 10 {
			asks(t, m, "d", 1, nil, rules.Entry{Key: "k", Value: "v"})
		}
		if got := m.metrics.of(labels{"d", "d/k", false}).nearCost.Load(); got != want {
			t.Errorf("from %d millionths: %d near, want %d", millionths, got, want)
		}
	}
}
