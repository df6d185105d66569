package daemon

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weir-limit/weir/cmd/weir/internal/xdstest"
)

// envoys is a route as Envoy Gateway names it, with one limit a header's value: a * in its name is a *.
func envoys(perMinute int) string {
	return fmt.Sprintf(`domain: "default/eg/http" descriptors {
		key: "httproute/default/backend/rule/0/match/0/*" value: "httproute/default/backend/rule/0/match/0/*" shadow_mode: false
		descriptors { key: "rule-0-match-0" rate_limit { unit: MINUTE requests_per_unit: %d } } }`, perMinute)
}

// askEnvoy is what the gRPC listener says of a request on that route.
func askEnvoy(t *testing.T, r *running, route, user string) (rls.RateLimitResponse_Code, error) {
	t.Helper()
	answer, err := rls.NewRateLimitServiceClient(client(t, r.grpc)).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
		Domain: "default/eg/http", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{
			{Key: route, Value: route}, {Key: "rule-0-match-0", Value: user},
		}}},
	})
	return answer.GetOverallCode(), err
}

// TestControlPlane: rules of a control plane decide, change and go, and where they stand is told.
func TestControlPlane(t *testing.T) {
	const route = "httproute/default/backend/rule/0/match/0/*"
	c := xdstest.Start(t, nil)
	c.Set(envoys(2))
	l, log := newLog()
	last := filepath.Join(t.TempDir(), "last")
	r := start(t, Config{Rules: "xds://" + c.Address + "?node=" + xdstest.Node + "&last=" + last, Log: log})
	if !strings.HasSuffix(r.line, " domains=1 rules=1") {
		t.Error(r.line)
	}
	says := func(route, user string, want rls.RateLimitResponse_Code) {
		t.Helper()
		if got, err := askEnvoy(t, r, route, user); err != nil || got != want {
			t.Errorf("%s %s: %v, %v; want %v", route, user, got, err, want)
		}
	}
	says(route, "ann", rls.RateLimitResponse_OK)
	says(route, "ann", rls.RateLimitResponse_OK)
	says(route, "ann", rls.RateLimitResponse_OVER_LIMIT)
	says(route, "bob", rls.RateLimitResponse_OK)
	for range 3 { // of no rule
		says(strings.Replace(route, "*", "www_example_com", 1), "ann", rls.RateLimitResponse_OK)
	}
	if _, body := do(t, http.MethodGet, "http://"+r.admin+"/v1/limited", ""); !strings.Contains(body, `"ann"`) {
		t.Error("a client is called after more than its header:", body)
	}

	xdstest.Soon(t, func() string {
		if r.daemon.control.Status().Accepted < 2 {
			return "not watched"
		}
		return ""
	})
	c.Set(envoys(4)) // what was used stays used
	l.until(t, reloadedLine)
	says(route, "ann", rls.RateLimitResponse_OK)
	says(route, "ann", rls.RateLimitResponse_OK)
	says(route, "ann", rls.RateLimitResponse_OVER_LIMIT)

	c.Set(`name: "bad" domain: "d" descriptors { key: "k" rate_limit { unit: DAY requests_per_unit: 1 unlimited: true } }`)
	l.until(t, "xds/bad:4:22: error: unlimited excludes unit")
	if got := metric(t, r, "weir_rules_reload_success "); got != "0" {
		t.Error("a refused answer:", got)
	}
	if _, body := get(t, "http://"+r.http+"/readyz"); !strings.Contains(body, "the active rules are old because a reload failed: xds/bad:4:22") {
		t.Error(body)
	}
	says(route, "bob", rls.RateLimitResponse_OK)
	for name, want := range map[string]string{
		"weir_xds_connected ": "1", `weir_xds_version_info{version="2"} `: "1", `weir_xds_answers_total{result="accepted"} `: "3",
		"weir_xds_streams_total ": "2", "weir_xds_held_domains ": "0",
	} {
		if got := metric(t, r, name); got != want {
			t.Errorf("%s%s, want %s", name, got, want)
		}
	}
	if f := r.daemon.controlFact(); f.Name != "Control plane xds://"+c.Address || !strings.Contains(f.Value, "; version 2 was accepted ") {
		t.Error(f)
	}

	c.Set()
	l.until(t, reloadedLine)
	says(route, "ann", rls.RateLimitResponse_OK)
}

// TestControlPlaneAway: a start with force-start and neither rules nor a copy serves, and fails requests until there are rules.
func TestControlPlaneAway(t *testing.T) {
	const route = "httproute/default/backend/rule/0/match/0/*"
	c := xdstest.Start(t, nil)
	c.Stop()
	l, log := newLog()
	url := "xds://" + c.Address + "?node=" + xdstest.Node + "&wait=50ms&last=" + filepath.Join(t.TempDir(), "last")
	if _, err := New(Config{Rules: url}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Error("without force-start:", err)
	}
	r := start(t, Config{Rules: url + "&force-start=true", Log: log})
	l.until(t, "there are no rules yet; requests fail until there are some")
	if _, err := askEnvoy(t, r, route, "ann"); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	health := healthpb.NewHealthClient(client(t, r.grpc))
	serving := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if got, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || got.GetStatus() != want {
			t.Error(got, err)
		}
	}
	serving(healthpb.HealthCheckResponse_NOT_SERVING)
	for at, want := range map[string]int{
		"http://" + r.http + "/readyz": 503, "http://" + r.http + "/healthcheck": 200, "http://" + r.admin + "/v1/export": 503, "http://" + r.admin + "/metrics": 200,
		"http://" + r.admin + "/v1/findings": 200, "http://" + r.admin + "/v1/limited": 200,
	} {
		if got, body := get(t, at); got != want {
			t.Error(at, got, body)
		}
	}
	c.Start()
	c.Set(envoys(1))
	l.until(t, reloadedLine)
	if got, err := askEnvoy(t, r, route, "ann"); err != nil || got != rls.RateLimitResponse_OK {
		t.Error(got, err)
	}
	serving(healthpb.HealthCheckResponse_SERVING)
	if got, body := get(t, "http://"+r.http+"/readyz"); got != 200 {
		t.Error(got, body)
	}
}

// TestControlPlaneFlags: what is for a daemon is not for a control plane, and a bad URL names its flag.
func TestControlPlaneFlags(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Rules: "xds://h:1?node=a", RulesCA: "ca.pem"}, "--rules: a control plane is shown what its URL says"},
		{Config{Rules: "xds://h:1"}, "--rules: node is missing"},
		{Config{Rules: "xds://h:1?node=a&ca=/nowhere"}, "--rules: ca: /nowhere: no such file"},
	} {
		_, err := New(c.config)
		if _, bad := errors.AsType[*ConfigError](err); !bad || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
}
