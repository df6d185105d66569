package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/internal/certtest"
)

const (
	oneToken   = "0123456789abcdef"
	otherToken = "fedcba9876543210"
)

// adminPaths is all that the admin listener answers.
func adminPaths() []string {
	return []string{
		"/metrics", "/v1/export", "/v1/schema", "/v1/explain", "/v1/reset", "/v1/top", "/v1/series", "/v1/limited", "/v1/shadow", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/symbol",
		"/debug/pprof/heap", "/none",
	}
}

// knock asks the admin listener and gives a status.
func knock(t *testing.T, r *running, path string, change func(*http.Request)) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	change(q)
	response, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

// TestAdminRefuses: what the admin listener has not is told as a problem that says what
// to ask instead; a name that is none is not taken for one without traffic.
func TestAdminRefuses(t *testing.T) {
	r := start(t, Config{Rules: rulesFile(t, "domain: shop\ndescriptors: [{key: user, limits: [2/day]}, {key: vip, rate_limit: {unlimited: true}}]\n")})
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{http.MethodGet, "/v1/nope", 404, `there is no \"/v1/nope\" at the admin listener`},
		{http.MethodGet, "/" + strings.Repeat("x", 5000), 404, "xxx…"},
		{http.MethodGet, "/a%00%E2%80%AE", 404, `\"/a\\x00\\u202e\"`},
		{http.MethodPost, "/metrics", 405, "use GET /metrics"},
		{http.MethodDelete, "/v1/cluster/forget", 405, "use POST /v1/cluster/forget"},
		{http.MethodGet, "/v1/rules", 409, "start it with weir serve --data DIR"},
		{http.MethodGet, "/v1/openapi.json", 409, "start it with weir serve --data DIR"},
		{http.MethodGet, "/v1/shadow?domain=nope", 404, `no domain \"nope\" active`},
		{http.MethodGet, "/v1/top?domain=nope", 404, `no domain \"nope\" active`},
		{http.MethodGet, "/v1/series?domain=shop&rule=user", 404, `no rule \"user\" of domain \"shop\" active`},
	} {
		status, body := do(t, c.method, "http://"+r.admin+c.path, "")
		if status != c.status || !strings.Contains(body, `{"detail":`) && !strings.Contains(body, `{"title":`) || !strings.Contains(body, c.says) || len(body) > 1000 {
			t.Errorf("%s %.100s: %d %.1000s", c.method, c.path, status, body)
		}
	}
	for _, path := range []string{"/v1/shadow?domain=shop", "/v1/top?domain=shop", "/v1/series?domain=shop&rule=shop/user", "/v1/top?rule=shop/vip"} {
		if status, body := get(t, "http://"+r.admin+path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// TestAdminCrowded: connections that say nothing, or drip, as many as there may be and
// more, keep nobody from the admin listener, with a token or, on loopback, without.
func TestAdminCrowded(t *testing.T) {
	for name, c := range map[string]Config{"loopback": {}, "token": {AdminTokenFile: certtest.File(t, "tokens", []byte(oneToken))}} {
		t.Run(name, func(t *testing.T) {
			r := start(t, c)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for i := range 2 * listen.MaxAdminConnections {
				c := dial(t, r.admin)
				if i%2 == 0 {
					continue // says nothing
				}
				go func() {
					_, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
					for err == nil && ctx.Err() == nil {
						_, err = io.WriteString(c, "x")
						time.Sleep(10 * time.Millisecond)
					}
				}()
			}
			for range 5 {
				if status := knock(t, r, "/metrics", bearer(oneToken)); status != http.StatusOK {
					t.Error(status)
				}
				http.DefaultClient.CloseIdleConnections()
			}
			q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.admin+"/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			bearer(oneToken)(q)
			_, body := answered(t, q)
			_, dropped, _ := strings.Cut(body, `weir_connections_dropped_total{listener="admin"} `)
			dropped, _, _ = strings.Cut(dropped, "\n")
			if n, err := strconv.Atoi(dropped); err != nil || n < listen.MaxAdminConnections {
				t.Errorf("%d lost their place to newcomers (%v), want %d at least", n, err, listen.MaxAdminConnections)
			}
		})
	}
}

// TestFewProfiles: profiles and traces run a few at a time, the next is told to come
// again, and the listener answers.
func TestFewProfiles(t *testing.T) {
	r := start(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for range maxProfiles {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.admin+"/debug/pprof/heap?seconds=60", nil)
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			for ctx.Err() == nil { // the one below may have the place
				if response, err := http.DefaultClient.Do(q); err == nil {
					_ = response.Body.Close()
				}
			}
		})
	}
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		status, body := get(t, "http://"+r.admin+"/debug/pprof/goroutine?debug=1")
		if status == http.StatusServiceUnavailable && strings.Contains(body, "2 profiles run already") {
			break
		}
		if time.Now().After(end) {
			t.Fatal(status, body)
		}
	}
	if n := metric(t, r, `weir_refused_total{listener="admin",reason="profiles"} `); n == "0" || n == "" {
		t.Error("no refusal is told")
	}
}

// TestOneTrace: the runtime has one trace and one CPU profile at a time; the next is told
// to come again, as beyond maxProfiles.
func TestOneTrace(t *testing.T) {
	r := start(t, Config{})
	for path, want := range map[string]string{"trace": "a trace runs already", "profile": "a CPU profile runs already"} {
		url := "http://" + r.admin + "/debug/pprof/" + path
		ctx, cancel := context.WithCancel(t.Context())
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?seconds=60", nil)
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() {
			for ctx.Err() == nil { // the one below may have the place
				if response, err := http.DefaultClient.Do(q); err == nil {
					_ = response.Body.Close()
				}
			}
		})
		status, body := http.StatusOK, ""
		for end := time.Now().Add(patience); status == http.StatusOK && time.Now().Before(end); {
			status, body = get(t, url+"?seconds=1")
		}
		cancel()
		running.Wait()
		if status != http.StatusServiceUnavailable || !strings.Contains(body, want) {
			t.Error(path, status, body)
		}
	}
	if n := metric(t, r, `weir_refused_total{listener="admin",reason="profiles"} `); n == "0" || n == "" {
		t.Error("no refusal is told")
	}
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// TestRebinding: a page whose name was turned to this machine gets nothing of the
// admin listener, whatever it asks for.
func TestRebinding(t *testing.T) {
	r := start(t, Config{})
	_, port, err := net.SplitHostPort(r.admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range adminPaths() {
		for host, passes := range map[string]bool{
			"evil.example": false, "evil.example:" + port: false, "0.0.0.0:" + port: false,
			"localhost:" + port: true, "127.0.0.1": true, "[::1]:9": true, r.admin: true,
		} {
			status := knock(t, r, path, func(q *http.Request) { q.Host = host })
			if passes == (status == http.StatusMisdirectedRequest) {
				t.Errorf("%s as %s: %d", path, host, status)
			}
		}
		if status := knock(t, r, path, func(q *http.Request) {
			q.Method = http.MethodPost
			q.Header.Set("Sec-Fetch-Site", "cross-site")
		}); status != http.StatusForbidden {
			t.Errorf("%s from elsewhere: %d", path, status)
		}
	}
	if _, body := get(t, "http://"+r.admin+"/metrics"); !strings.Contains(body, fmt.Sprintf("\nweir_admin_refusals_total{reason=\"host\"} %d\n", 3*len(adminPaths()))) {
		t.Error("refusals are not counted")
	}
}

// TestAdminToken: with a token, all of the admin listener needs it, on loopback too;
// tokens are changed while it runs.
func TestAdminToken(t *testing.T) {
	path := certtest.File(t, "tokens", []byte(oneToken+"\n"))
	log, logger := newLog()
	r := start(t, Config{AdminTokenFile: path, Log: logger, lookEvery: 10 * time.Millisecond})
	for _, path := range adminPaths() {
		if status := knock(t, r, path, func(*http.Request) {}); status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", path, status)
		}
		if status := knock(t, r, path, bearer(oneToken)); status == http.StatusUnauthorized {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, body := get(t, "http://"+r.admin+path); status != http.StatusOK || strings.Contains(body, "admin-token") {
			t.Errorf("%s without a token: %d %s", path, status, body)
		}
	}
	opens := func(token string) bool { return knock(t, r, "/metrics", bearer(token)) == http.StatusOK }
	certtest.Write(t, path, []byte(otherToken+"\n"+oneToken+"\n"))
	log.until(t, `msg="credentials reloaded" credentials=admin-token`)
	if !opens(oneToken) || !opens(otherToken) {
		t.Error("while tokens change, both should open")
	}
	certtest.Write(t, path, []byte("short\n"))
	said := log.until(t, "credentials could not be reloaded", "line 1 has 5 characters")
	if !opens(oneToken) || strings.Contains(said, "short") {
		t.Error(said)
	}
	if status, body := get(t, "http://"+r.http+"/readyz"); status != http.StatusOK || !strings.Contains(body, "(admin-token)") {
		t.Error(status, body)
	}
	certtest.Write(t, path, []byte(otherToken+"\n"))
	log.until(t, `msg="credentials reloaded"`)
	if opens(oneToken) || !opens(otherToken) {
		t.Error("the old token opens, or the new one does not")
	}
}

// TestExposedSecret: the log warns of a secret that every user may read.
func TestExposedSecret(t *testing.T) {
	path := certtest.File(t, "tokens", []byte(oneToken+"\n"))
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	log, logger := newLog()
	start(t, Config{AdminTokenFile: path, Log: logger})
	log.until(t, `msg="other users of this machine can read a secret" credentials=admin-token`, "chmod o= "+path)
}

// TestAdminBruteForce: guessing ends soon, and is counted.
func TestAdminBruteForce(t *testing.T) {
	r := start(t, Config{AdminTokenFile: certtest.File(t, "tokens", []byte(oneToken))})
	wrong, limited := 0, 0
	for i := range 100 {
		switch status := knock(t, r, "/metrics", bearer(fmt.Sprint("guess", i))); status {
		case http.StatusUnauthorized:
			wrong++
		case http.StatusTooManyRequests:
			limited++
		default:
			t.Fatal(status)
		}
	}
	if wrong < 10 || limited == 0 {
		t.Errorf("%d were told to be wrong, %d were not", wrong, limited)
	}
	metrics, err := r.daemon.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(metrics), "weir_admin_refusals_total") {
		t.Error("refusals are not counted")
	}
}

// TestAdminElsewhere: off loopback a token is enough, hosts are not looked at,
// and that it goes unsafely is said once.
func TestAdminElsewhere(t *testing.T) {
	var text bytes.Buffer
	c := Config{Admin: "0.0.0.0:0", AdminTokenFile: certtest.File(t, "tokens", []byte(oneToken)), Log: slog.New(slog.NewTextHandler(&text, nil))}
	r := start(t, c)
	r.admin = strings.Replace(r.admin, "[::]", "127.0.0.1", 1)
	status := knock(t, r, "/metrics", func(q *http.Request) {
		bearer(oneToken)(q)
		q.Host = "weir.internal.example"
	})
	if status != http.StatusOK {
		t.Error(status)
	}
	if status := knock(t, r, "/metrics", func(*http.Request) {}); status != http.StatusUnauthorized {
		t.Error(status)
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
	if strings.Count(text.String(), "without TLS") != 1 || strings.Contains(text.String(), oneToken) {
		t.Error(text.String())
	}

	text.Reset()
	c.TLSCert, c.TLSKey = certtest.NewCA(t).Issue(t).Files(t)
	safe := start(t, c)
	safe.stop()
	if err := <-safe.done; err != nil {
		t.Error(err)
	}
	safe.done <- nil
	if strings.Contains(text.String(), "without TLS") {
		t.Error(text.String())
	}
}

// TestOpenRedis: a Redis listener that is open to others and asks for nothing is warned of.
func TestOpenRedis(t *testing.T) {
	password := certtest.File(t, "passwords", []byte(oneToken))
	for _, c := range []struct {
		address, password string
		warned            bool
	}{{"0.0.0.0:0", "", true}, {"0.0.0.0:0", password, false}, {"127.0.0.1:0", "", false}, {"", "", false}} {
		log, logger := newLog()
		r := start(t, Config{RESP: c.address, RESPPasswordFile: c.password, Log: logger})
		if warned := strings.Contains(log.until(t, "msg=ready"), "the Redis listener can be reached from elsewhere"); warned != c.warned {
			t.Errorf("%+v: warned %v", c, warned)
		}
		r.stop()
	}
}

// TestRedisPassword: the Redis listener has the passwords of the file, as it is by
// then.
func TestRedisPassword(t *testing.T) {
	path := certtest.File(t, "passwords", []byte(oneToken))
	r := start(t, Config{RESP: "127.0.0.1:0", RESPPasswordFile: path})
	if got := redis(t, r, "PING", 1); got != "-NOAUTH Authentication required. " {
		t.Error(got)
	}
	if got := redis(t, r, "AUTH "+oneToken+"\r\nPING", 2); got != "+OK +PONG " {
		t.Error(got)
	}
	certtest.Write(t, path, []byte(otherToken))
	r.daemon.Reload()
	if got := redis(t, r, "AUTH "+oneToken+"\r\nAUTH default "+otherToken+"\r\nPING", 3); !strings.HasPrefix(got, "-WRONGPASS ") || !strings.HasSuffix(got, "+OK +PONG ") {
		t.Error(got)
	}
	if _, body := get(t, "http://"+r.admin+"/metrics"); !strings.Contains(body, `weir_calls_total{code="ERR",listener="resp",route="auth"} 1`) || !strings.Contains(body, `weir_credentials_reload_success{credentials="resp-password"} 1`) {
		t.Error("wrong passwords are not counted")
	}
}
