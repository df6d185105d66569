package daemon

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-limit/weir/internal/certtest"
	"github.com/weir-limit/weir/internal/porttest"
)

const tellingRules = `domain: d
descriptors:
  - {key: k, rate_limit: {unit: year, requests_per_unit: 1}}
  - key: a
    value: b
    descriptors: [{key: free, rate_limit: {unlimited: true}}]
`

func askOf(key string) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: key, Value: "v"}}},
	}}
}

// TestAsRatelimit: listeners without a token tell metrics with ratelimit's names, and what its debug port does; answers have its
// headers; and in shadow mode all pass.
func TestAsRatelimit(t *testing.T) {
	metrics, debug := porttest.Free(t), porttest.Free(t)
	r := start(t, Config{
		Rules: rulesFile(t, tellingRules), Metrics: metrics + "/m", Debug: debug, MetricNames: NamesRatelimit, MetricLabels: "zone=z",
		ShadowMode: true, ResponseHeaders: "RateLimit-Limit,RateLimit-Remaining,RateLimit-Reset", HealthcheckNeedsRules: true,
	})
	service := rls.NewRateLimitServiceClient(client(t, r.grpc))
	for i, want := range []string{"OK 0", "OVER_LIMIT 0", "OVER_LIMIT 0"} {
		answer, err := service.ShouldRateLimit(t.Context(), askOf("k"))
		if err != nil {
			t.Fatal(err)
		}
		var fields []string
		for _, h := range answer.ResponseHeadersToAdd {
			fields = append(fields, h.Key+"="+h.Value)
		}
		s := answer.Statuses[0]
		if got := s.Code.String() + " 0"; answer.OverallCode != rls.RateLimitResponse_OK || got != want ||
			len(fields) != 3 || fields[0] != "RateLimit-Limit=1" || fields[1] != "RateLimit-Remaining=0" || !strings.HasPrefix(fields[2], "RateLimit-Reset=") {
			t.Errorf("answer %d: %v with %v", i, answer, fields)
		}
	}
	if code, body := do(t, http.MethodPost, "http://"+r.http+"/json", `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`); code != http.StatusOK || !strings.Contains(body, `"overallCode":"OK"`) {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := get(t, "http://"+r.http+"/healthcheck"); code != http.StatusOK {
		t.Errorf("/healthcheck says %d", code)
	}
	for url, want := range map[string][]string{
		metrics + "/m": {
			`ratelimit_service_rate_limit_total_hits{domain="d",key1="k",zone="z"} 4`, `ratelimit_service_rate_limit_over_limit{domain="d",key1="k",zone="z"} 3`,
			`ratelimit_service_global_shadow_mode{zone="z"} 3`, `ratelimit_service_config_load_success{zone="z"} 1`, `ratelimit_service_total_requests{grpc_method="ShouldRateLimit",zone="z"} 3`,
			"weir_ready 1",
		},
		debug + "/":         {"/rlconfig: print out the currently loaded configuration for debugging\n/stats: print out stats\n"},
		debug + "/rlconfig": {"d.k: unit=YEAR requests_per_unit=1, shadow_mode: false, quota_mode: false\nd.a_b.free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false\n"},
		debug + "/stats":    {"ratelimit.service.rate_limit.d.k.over_limit: 3\n", "ratelimit.service.global_shadow_mode: 3\n"},
	} {
		code, body := get(t, "http://"+url)
		for _, text := range want {
			if code != http.StatusOK || !strings.Contains(body, text) {
				t.Errorf("%s: %d, and no %q in\n%s", url, code, text, body)
			}
		}
	}
	for _, url := range []string{metrics + "/", metrics + "/metrics", debug + "/metrics", debug + "/debug/pprof/", debug + "/v1/export"} {
		if code, _ := get(t, "http://"+url); code != http.StatusNotFound {
			t.Errorf("%s: %d", url, code)
		}
	}
}

// TestHealthcheckOfADrainingDaemon: where it is told to, /healthcheck is 500 then, as ratelimit's.
func TestHealthcheckOfADrainingDaemon(t *testing.T) {
	for needs, want := range map[bool]int{true: http.StatusInternalServerError, false: http.StatusOK} {
		r := start(t, Config{HealthcheckNeedsRules: needs})
		r.daemon.draining.Store(true)
		if code, _ := get(t, "http://"+r.http+"/healthcheck"); code != want {
			t.Errorf("%v: %d", needs, code)
		}
	}
}

// TestTLSOfOneListener: gRPC alone speaks TLS, and lets in certificates for one name; others are as without.
func TestTLSOfOneListener(t *testing.T) {
	ca := certtest.NewCA(t)
	c := safely(t, ca)
	c.RESP, c.TLSListeners, c.TLSClientCA, c.TLSClientSAN = "", "grpc", certtest.File(t, "ca.pem", ca.PEM), "envoy.test"
	r := start(t, c)
	if code, body := do(t, http.MethodPost, "http://"+r.http+"/v1/check", demoCheck); code != http.StatusOK {
		t.Errorf("HTTP: %d %s", code, body)
	}
	if code, _ := get(t, "http://"+r.admin+"/metrics"); code != http.StatusOK {
		t.Errorf("admin: %d", code)
	}
	if !strings.Contains(r.try, " http://") {
		t.Error(r.try)
	}
	for name, well := range map[string]bool{"envoy.test": true, "other.test": false, "": false} {
		config := &tls.Config{RootCAs: ca.Pool(), ServerName: "weir.test"}
		if name != "" {
			config.Certificates = []tls.Certificate{ca.Issue(t, name).TLS(t)}
		}
		if err := askGRPC(t, r.grpc, credentials.NewTLS(config)); (err == nil) != well {
			t.Errorf("a certificate for %q: %v", name, err)
		}
	}
	if err := askGRPC(t, r.grpc, insecure.NewCredentials()); err == nil {
		t.Error("gRPC answers without TLS")
	}
}

// TestTellingConfig: what can't be meant is told by the name of its flag.
func TestTellingConfig(t *testing.T) {
	ca := certtest.NewCA(t)
	cert, key := ca.Issue(t).Files(t)
	for want, c := range map[string]Config{
		"--metrics: ":                              {Metrics: "localhost"},
		"is no path of metrics":                    {Metrics: "127.0.0.1:0/a{b}"},
		"--debug: ":                                {Debug: "127.0.0.1"},
		"--metric-names: \"x\" are":                {MetricNames: "x"},
		"--metric-labels: \"a\" is":                {MetricLabels: "a"},
		"a label domain already":                   {MetricLabels: "domain=x"},
		"a label b already":                        {MetricLabels: "b=1,b=2"},
		"\"__x=1\" is no label":                    {MetricLabels: "__x=1"},
		"there may be 16 labels":                   {MetricLabels: "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1,n=1,o=1,p=1,q=1"},
		"--near-limit-ratio: \"2\"":                {NearLimitRatio: "2"},
		"\"NaN\" is no part":                       {NearLimitRatio: "NaN"},
		"--statsd: \"x\" is no":                    {Statsd: "x"},
		"--response-headers: \"a,b\" are no three": {ResponseHeaders: "a,b"},
		"\"a,b c,d\" are no three":                 {ResponseHeaders: "a,b c,d"},
		"--tls-listeners: \"https\" is no listener; write some of http,grpc,admin,resp,metrics,debug": {TLSListeners: "https", TLSCert: cert, TLSKey: key},
		"--tls-listeners: no listener speaks TLS":                                                     {TLSListeners: "grpc"},
		"--tls-client-san: clients show no certificate":                                               {TLSClientSAN: "x", TLSCert: cert, TLSKey: key},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
