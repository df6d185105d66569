package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/weir-limit/weir/internal/porttest"
	"github.com/weir-limit/weir/rules"
)

// running is a daemon in this process.
type running struct {
	daemon                             *Daemon
	line, try, http, grpc, admin, resp string
	stop                               context.CancelFunc
	done                               chan error
}

// start runs a daemon on free ports until the test ends, or stop is called.
func start(t *testing.T, c Config) *running {
	t.Helper()
	for _, address := range []*string{&c.HTTP, &c.GRPC, &c.Admin} {
		if *address == "" {
			*address = "127.0.0.1:0"
		}
	}
	if c.LameDuck == 0 {
		c.LameDuck = time.Millisecond
	}
	out, in := io.Pipe()
	c.Stdout = in
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{daemon: d, stop: stop, done: make(chan error, 1)}
	go func() {
		r.done <- errors.Join(d.Run(ctx), in.Close())
	}()
	t.Cleanup(func() {
		stop()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		r.done <- nil
	})
	lines := bufio.NewScanner(out)
	for _, line := range []*string{&r.line, &r.try} {
		if !lines.Scan() {
			t.Fatal(<-r.done)
		}
		*line = lines.Text()
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	m := readyLine.FindStringSubmatch(r.line)
	if m == nil {
		t.Fatalf("%q is not the ready line", r.line)
	}
	r.http, r.grpc, r.admin, r.resp = m[1], m[2], m[3], m[4]
	return r
}

// "weir ready http=HOST:PORT grpc=HOST:PORT admin=HOST:PORT
// resp=HOST:PORT|off store=memory domains=N rules=N".
var readyLine = regexp.MustCompile(`^weir ready http=(\S+:[1-9]\d*) grpc=(\S+:[1-9]\d*) admin=(\S+:[1-9]\d*) resp=(off|\S+:[1-9]\d*) store=(\S+) domains=(\d+) rules=(\d+)$`)

func rulesFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	return do(t, http.MethodGet, url, "")
}

func do(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return answered(t, r)
}

// answered sends a request and gives the status and the body of its answer.
func answered(t testing.TB, r *http.Request) (int, string) {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(b)
}

func client(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

const demoCheck = `{"domain":"demo","descriptors":[{"entries":[{"key":"client_id","value":"bob"}]}]}`

// TestDemo: the demo rules, and one count behind all listeners.
func TestDemo(t *testing.T) {
	r := start(t, Config{})
	if !strings.HasSuffix(r.line, " domains=1 rules=2") {
		t.Error(r.line)
	}
	if status, body := do(t, http.MethodPost, "http://"+r.http+"/v1/check", strings.Replace(demoCheck, "}]}", `}],"cost":10}`, 1)); status != 200 || !strings.Contains(body, `"limit":"5/s burst 10"`) {
		t.Errorf("status %d %s", status, body)
	}
	q := &rls.RateLimitRequest{Domain: "demo", HitsAddend: 9, Descriptors: []*ratelimit.RateLimitDescriptor{{
		Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "client_id", Value: "bob"}},
	}}}
	answer, err := rls.NewRateLimitServiceClient(client(t, r.grpc)).ShouldRateLimit(t.Context(), q)
	if err != nil || answer.OverallCode != rls.RateLimitResponse_OVER_LIMIT {
		t.Errorf("gRPC: %v %v", answer, err)
	}
	if status, body := do(t, http.MethodPost, "http://"+r.http+"/json", `{"domain":"demo","hitsAddend":9,"descriptors":[{"entries":[{"key":"client_id","value":"bob"}]}]}`); status != 429 {
		t.Errorf("/json: %d %s", status, body)
	}
	for _, path := range []string{"/healthz", "/healthcheck", "/readyz"} {
		if status, body := get(t, "http://"+r.http+path); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// TestTryWithCurl: "then a line `try: curl …`, one command that asks /v1/check".
func TestTryWithCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("SKIPPED ALOUD: there is no curl here, so the try line was not tried")
	}
	for name, text := range map[string]string{
		"demo": "",
		"nested and quoted": `domain: it's "quoted" $HOME \
descriptors:
  - key: open
    rate_limit: {unlimited: true}
  - key: path
    value: /a'b/*/c*
    descriptors:
      - key: '* $(id)'
        limits: [5/min]
`,
		"hidden": `domain: hidden
descriptors:
  - {key: k, value: "a*", rate_limit: {unlimited: true}}
  - {key: k, value: "a1", rate_limit: {unlimited: true}}
  - {key: l, limits: [1/day]}
`,
		"shadow": "domain: s\ndescriptors:\n  - {key: k, limits: [5/s], shadow_mode: true}\n",
	} {
		c := Config{HTTP: ":0"} // to all addresses, of which curl needs one
		if text != "" {
			c.Rules = rulesFile(t, text)
		}
		r := start(t, c)
		command, ok := strings.CutPrefix(r.try, "try: ")
		if !ok || !strings.HasPrefix(command, "curl ") {
			t.Fatal(r.try)
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command).Output()
		var a struct {
			Allowed   bool
			Decisions []struct{ Outcome string }
		}
		if err := errors.Join(err, json.Unmarshal(out, &a)); err != nil || !a.Allowed || len(a.Decisions) != 1 {
			t.Errorf("%s: %s: %v %s", name, command, err, out)
		}
	}
}

// TestTryWithoutRules: there is something to try even when nothing is limited.
func TestTryWithoutRules(t *testing.T) {
	for text, domain := range map[string]string{
		"domain: empty\ndescriptors: []\n":                                          "empty",
		"domain: open\ndescriptors:\n  - {key: k, rate_limit: {unlimited: true}}\n": "open",
	} {
		set, err := rules.Parse("r.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if q := example(set); q.Domain != domain || len(q.Descriptors[0].Entries) == 0 {
			t.Errorf("%+v", q)
		}
	}
}

// TestDrain: "While draining, /readyz is false first and calls are answered
// until the listeners close", and no longer.
func TestDrain(t *testing.T) {
	r := start(t, Config{LameDuck: 2 * time.Second})
	health := healthpb.NewHealthClient(client(t, r.grpc))
	watch, err := health.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
	if err != nil {
		t.Fatal(err)
	}
	if seen, err := watch.Recv(); err != nil || seen.Status != healthpb.HealthCheckResponse_SERVING {
		t.Fatal(seen, err)
	}
	r.stop()
	if seen, err := watch.Recv(); err != nil || seen.Status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Fatal(seen, err)
	}
	if status, body := get(t, "http://"+r.http+"/readyz"); status != 503 || !strings.Contains(body, "about to stop") {
		t.Errorf("readyz: %d %s", status, body)
	}
	for path, want := range map[string]int{"/healthz": 200, "/healthcheck": 200} {
		if status, _ := get(t, "http://"+r.http+path); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, body := do(t, http.MethodPost, "http://"+r.http+"/v1/check", demoCheck); status != 200 {
		t.Errorf("a call while draining: %d %s", status, body)
	}
	if _, body := get(t, "http://"+r.admin+"/metrics"); !strings.Contains(body, "\nweir_ready 0\n") {
		t.Error("metrics do not tell that the daemon is not ready")
	}
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
	for _, address := range []string{r.http, r.grpc, r.admin} {
		if c, err := net.Dial("tcp", address); err == nil { //nolint:noctx // it is refused at once
			t.Errorf("%s still accepts (%v)", address, c.Close())
		}
	}
}

// TestDrainUnderLoad: callers that leave when readiness says so lose no call.
func TestDrainUnderLoad(t *testing.T) {
	r := start(t, Config{LameDuck: 500 * time.Millisecond})
	leave := make(chan struct{})
	var calls atomic.Int64
	var g sync.WaitGroup
	stub := rls.NewRateLimitServiceClient(client(t, r.grpc))
	call := func(ask func(key string) error) {
		for i := 0; ; i++ {
			select {
			case <-leave:
				return
			default:
			}
			if err := ask(fmt.Sprint(i)); err != nil {
				t.Error("lost a call:", err)
				return
			}
			if calls.Add(1) == 200 {
				r.stop()
			}
		}
	}
	for range 2 {
		g.Go(func() {
			call(func(key string) error {
				status, body := do(t, http.MethodPost, "http://"+r.http+"/v1/check", strings.Replace(demoCheck, "bob", key, 1))
				if status != 200 && status != 429 {
					return fmt.Errorf("status %d %s", status, body)
				}
				return nil
			})
		})
		g.Go(func() {
			call(func(key string) error {
				_, err := stub.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "demo", Descriptors: []*ratelimit.RateLimitDescriptor{{
					Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "client_id", Value: key}},
				}}})
				return err
			})
		})
	}
	for status := 200; status == 200; {
		status, _ = get(t, "http://"+r.http+"/readyz")
	}
	close(leave)
	g.Wait()
	http.DefaultClient.CloseIdleConnections() // those dialled in vain, too: closing waits for their call
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
	if calls.Load() < 200 {
		t.Errorf("only %d calls", calls.Load())
	}
}

// TestAdminDoor: metrics and profiles, and nothing of a request in them.
func TestAdminDoor(t *testing.T) {
	r := start(t, Config{Version: "v1.2.3", Rules: rulesFile(t, `domain: d
descriptors:
  - {key: user, limits: [1/day]}
  - {key: bot, limits: [1/day], shadow_mode: true}
`)})
	for range 2 {
		do(t, http.MethodPost, "http://"+r.http+"/v1/check", `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"secret"}]},{"entries":[{"key":"bot","value":"hidden"}]}]}`)
	}
	do(t, http.MethodPost, "http://"+r.http+"/v1/check", `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"secret"}]}],"peek":true}`)
	do(t, http.MethodPost, "http://"+r.http+"/json", `{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"secret"}],"limit":{"unit":"DAY","requests_per_unit":9}}]}`)
	do(t, http.MethodPost, "http://"+r.http+"/made/up/path", "")
	status, body := get(t, "http://"+r.admin+"/metrics")
	if status != 200 {
		t.Fatal(status, body)
	}
	for _, want := range []string{
		`weir_decisions_total{domain="d",outcome="allowed",rule="d/user",shadow="false"} 1`,
		`weir_decisions_total{domain="d",outcome="denied",rule="d/user",shadow="false"} 1`,
		`weir_decisions_total{domain="d",outcome="impossible",rule="d/user",shadow="false"} 0`,
		`weir_decisions_total{domain="d",outcome="denied",rule="d/bot",shadow="true"} 1`,
		`weir_decisions_total{domain="d",outcome="allowed",rule="d#override",shadow="false"} 1`,
		`weir_calls_total{code="429",listener="http",route="/v1/check"} 2`,
		`weir_calls_total{code="404",listener="http",route="other"} 1`,
		`weir_call_duration_seconds_count{listener="http"} 5`,
		`weir_build_info{go=`,
		`version="v1.2.3"} 1`,
		"weir_domains 1", "weir_rules 2", "weir_ready 1", "weir_memory_rules 3", `weir_panics_total{listener="grpc"} 0`,
		"go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, never := range []string{"secret", "hidden", "made/up"} {
		if strings.Contains(body, never) {
			t.Errorf("metrics carry %q, which a request brought", never)
		}
	}
	for path, want := range map[string]int{
		"/debug/pprof/": 200, "/debug/pprof/heap": 200, "/debug/pprof/cmdline": 200, "/debug/pprof/symbol": 200,
		"/v1/schema": 200,
		"/":          200, "/v1/check": 404, "/debug/vars": 404,
	} {
		if status, _ := get(t, "http://"+r.admin+path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	for _, path := range []string{"/metrics", "/debug/pprof/"} {
		if status, _ := get(t, "http://"+r.http+path); status != 404 {
			t.Errorf("%s at the HTTP listener: %d", path, status)
		}
	}
}

// redis says something to the Redis listener and reads so many lines.
func redis(t *testing.T, r *running, command string, lines int) string {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", r.resp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, command+"\r\n"); err != nil {
		t.Fatal(err)
	}
	var answer strings.Builder
	for in := bufio.NewReader(c); lines > 0; lines-- {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		answer.WriteString(strings.TrimSpace(line) + " ")
	}
	return answer.String()
}

// TestRedisDoor: the same counts as behind the other listeners, its own metrics, and
// a drain.
func TestRedisDoor(t *testing.T) {
	r := start(t, Config{RESP: "127.0.0.1:0"})
	if r.resp == "off" {
		t.Fatal(r.line)
	}
	if status, body := do(t, http.MethodPost, "http://"+r.http+"/v1/check", demoCheck); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if got := redis(t, r, "WEIR.CHECK demo 4 client_id bob", 8); got != "*6 :0 :10 :5 :-1 :1 $14 demo/client_id " {
		t.Error(got)
	}
	for _, want := range []string{"*5 :0 :1 :0 :-1 :3600 ", "*5 :1 :1 :0 :3600 :3600 "} {
		if got := redis(t, r, "CL.THROTTLE secret 0 1 3600", 6); got != want {
			t.Error(got)
		}
	}
	redis(t, r, "CL.THROTTLE secret 0 1 3600 0", 6)
	redis(t, r, "GETTHIS", 1)
	redis(t, r, "*x", 1)
	redis(t, r, "*9999", 1)
	_, body := get(t, "http://"+r.admin+"/metrics")
	for _, want := range []string{
		`weir_decisions_total{domain="demo",outcome="allowed",rule="demo/client_id",shadow="false"} 2`,
		`weir_decisions_total{domain="",outcome="allowed",rule="CL.THROTTLE",shadow="false"} 1`,
		`weir_decisions_total{domain="",outcome="denied",rule="CL.THROTTLE",shadow="false"} 1`,
		`weir_calls_total{code="OK",listener="resp",route="cl.throttle"} 3`,
		`weir_calls_total{code="OK",listener="resp",route="weir.check"} 1`,
		`weir_calls_total{code="ERR",listener="resp",route="other"} 1`,
		`weir_calls_total{code="ERR",listener="resp",route="protocol"} 2`,
		`weir_call_duration_seconds_count{listener="resp"} 7`,
		`weir_resp_bounds_reached_total{bound="words"} 1`,
		`weir_resp_bounds_reached_total{bound="idle"} 0`,
		`weir_connections{listener="resp"}`,
		`weir_connections_full_total{listener="resp"} 0`,
		`weir_panics_total{listener="resp"} 0`,
	} {
		if !strings.Contains(body, "\n"+want) {
			t.Errorf("no %s", want)
		}
	}
	for _, never := range []string{"secret", "GETTHIS", "getthis"} {
		if strings.Contains(body, never) {
			t.Errorf("metrics carry %q, which a client brought", never)
		}
	}

	var d net.Dialer
	idle, err := d.DialContext(t.Context(), "tcp", r.resp)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	r.stop()
	if rest, err := io.ReadAll(idle); err != nil || len(rest) > 0 {
		t.Errorf("%q %v", rest, err)
	}
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
}

// TestRedisDoorIsOff: nothing listens unless it is asked for.
func TestRedisDoorIsOff(t *testing.T) {
	if r := start(t, Config{}); r.resp != "off" {
		t.Error(r.line)
	}
	if r := start(t, Config{RESP: "off"}); r.resp != "off" {
		t.Error(r.line)
	}
}

// TestExplainDoor: the admin listener tells of the daemon's own counts, charges
// nothing, resets them, and no other listener does.
func TestExplainDoor(t *testing.T) {
	r := start(t, Config{})
	ann := `{"domain":"demo","descriptors":[{"entries":[{"key":"client_id","value":"ann"}],"cost":10}]}`
	if status, body := do(t, http.MethodPost, "http://"+r.http+"/v1/check", ann); status != 200 {
		t.Fatal(status, body)
	}
	var e struct {
		Allowed bool
		Passes  string
		Limits  []struct{ Before struct{ Remaining int } }
	}
	for range 2 {
		status, body := do(t, http.MethodPost, "http://"+r.admin+"/v1/explain", ann)
		if err := json.Unmarshal([]byte(body), &e); err != nil || status != 200 || e.Allowed || e.Passes != "later" || len(e.Limits) != 1 {
			t.Error(status, body, err)
		}
	}
	if status, body := do(t, http.MethodPost, "http://"+r.admin+"/v1/reset", ann); status != 200 || body != `{"reset":[{"rule":"demo/client_id","limit":"5/s burst 10"}]}`+"\n" {
		t.Error(status, body)
	}
	if status, body := do(t, http.MethodPost, "http://"+r.http+"/v1/check", ann); status != 200 {
		t.Error("after the reset", status, body)
	}
	for _, path := range []string{"/v1/explain", "/v1/reset"} {
		if status, _ := do(t, http.MethodPost, "http://"+r.http+path, ann); status != 404 {
			t.Errorf("%s at the HTTP listener: %d", path, status)
		}
	}
	if status, _ := get(t, "http://"+r.admin+"/v1/reset"); status != 405 {
		t.Errorf("GET /v1/reset: %d", status)
	}
	if _, body := get(t, "http://"+r.admin+"/metrics"); !strings.Contains(body, `weir_calls_total{code="200",listener="admin",route="/v1/explain"} 2`) {
		t.Error("explanations are not counted")
	}
}

// TestRecall: by the id that a listener gives with a denial, the admin listener tells
// why it was, whatever came after. Nothing of the request is in metrics.
func TestRecall(t *testing.T) {
	r := start(t, Config{GRPC: "127.0.0.1:0"})
	ann := `{"domain":"demo","descriptors":[{"entries":[{"key":"client_id","value":"ann"}],"cost":10}]}`
	for range 2 {
		do(t, http.MethodPost, "http://"+r.http+"/v1/check", ann)
	}
	conn, err := grpc.NewClient(r.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	over, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
		Domain: "demo", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "client_id", Value: "ann"}}}}, HitsAddend: 10,
	})
	if err != nil || len(over.ResponseHeadersToAdd) != 1 || over.ResponseHeadersToAdd[0].Key != "Weir-Denial" {
		t.Fatal(over, err)
	}
	do(t, http.MethodPost, "http://"+r.admin+"/v1/reset", ann)
	status, body := get(t, "http://"+r.admin+"/v1/explain?id="+over.ResponseHeadersToAdd[0].Value)
	if status != 200 || !strings.Contains(body, `"summary":"denied: demo/client_id decides`) || !strings.Contains(body, `"value":"ann"`) {
		t.Error(status, body)
	}
	if status, _ := get(t, "http://"+r.admin+"/v1/explain?id=0123456789abcdef"); status != 404 {
		t.Error("an unknown id:", status)
	}
	_, metrics := get(t, "http://"+r.admin+"/metrics")
	for _, line := range []string{"weir_explain_denials_kept 2", `weir_explain_denials_lost_total{reason="overwritten"} 0`} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("no %q in the metrics", line)
		}
	}
}

// TestPortTaken: a listener that can't be opened closes those that were.
func TestPortTaken(t *testing.T) {
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	free := porttest.Free(t)
	d, err := New(Config{HTTP: free, GRPC: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "open the grpc listener") {
		t.Error(err)
	}
	again, err := config.Listen(t.Context(), "tcp", free)
	if err != nil {
		t.Fatal("the HTTP listener was left open:", err)
	}
	defer again.Close()
}
