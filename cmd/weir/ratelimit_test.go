package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weir-limit/weir/cmd/weir/internal/xdstest"
	"github.com/weir-limit/weir/internal/certtest"
	"github.com/weir-limit/weir/internal/redistest"
)

// TestRatelimit: a program with the name ratelimit, started as ratelimit's own compose file starts it, counts in that Redis, answers at
// those addresses, tells statsd, logs what differs, and ends well.
func TestRatelimit(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	folder := filepath.Join(root, "ratelimit", "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "config.yaml"), "domain: d\ndescriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 2}}]\n")
	statsd, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer statsd.Close()
	lines := make(chan string, 100)
	go func() {
		c, err := statsd.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		for in := bufio.NewScanner(c); in.Scan(); {
			lines <- in.Text()
		}
	}()
	_, port, err := net.SplitHostPort(statsd.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	redis := redistest.Start(t)
	cmd, ready, log := startRatelimit(t,
		"USE_STATSD=true", "STATSD_HOST=127.0.0.1", "STATSD_PORT="+port, "STATS_FLUSH_INTERVAL=100ms", "LOG_LEVEL=debug", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr,
		"RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "CONFIG_TYPE=FILE", "CONFIG_GRPC_XDS_NODE_ID=test-node-id",
		"CONFIG_GRPC_XDS_SERVER_URL=ratelimit-xds-config-server:18000", "MERGE_DOMAIN_CONFIG=true", "REDIS_PIPELINE_WINDOWS=1ms",
		"WEIR_HTTP=0.0.0.0:8080", "WEIR_GRPC=0.0.0.0:8081", // as the image has them
	)
	m := regexp.MustCompile(`^weir ready http=(127\.0\.0\.1:\d+) grpc=127\.0\.0\.1:\d+ admin=127\.0\.0\.1:\d+ resp=off store=redis domains=1 rules=1\n$`).FindStringSubmatch(ready)
	if m == nil {
		t.Fatalf("%q\n%s", ready, log)
	}
	for i, want := range []int{200, 200, 429} {
		if got := askJSON(t, m[1], "d", "k"); got != want {
			t.Errorf("answer %d: %d, want %d", i, got, want)
		}
	}
	over := time.After(10 * time.Second)
	for told := ""; told != "ratelimit.service.rate_limit.d.k.over_limit:1|c"; {
		select {
		case told = <-lines:
		case <-over:
			t.Fatal("statsd was not told of the denial")
		}
	}
	if keys := redis.Ask(t, "KEYS", "*"); !strings.Contains(keys, "weir") {
		t.Errorf("Redis has %q", keys)
	}
	endWell(t, cmd, log)
	for _, want := range []string{
		`msg="started as ratelimit" command="weir serve --rules ` + folder + ` --http 127.0.0.1:0 --grpc 127.0.0.1:0 --debug 127.0.0.1:0 --store redis://`,
		`level=WARN msg="this differs from envoyproxy/ratelimit" variable=MERGE_DOMAIN_CONFIG `, `variable=REDIS_PIPELINE_WINDOWS why="envoyproxy/ratelimit has no such variable; did you mean REDIS_PIPELINE_WINDOW?"`,
	} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("the log says not once %s:\n%s", want, log)
		}
	}
}

// startRatelimit starts a program with the name ratelimit on free ports of the loopback, and waits for its first line.
func startRatelimit(t *testing.T, env ...string) (cmd *exec.Cmd, ready string, log *bytes.Buffer) {
	t.Helper()
	binary, err := exec.LookPath(ratelimitName) // this test, by TestMain
	if err != nil {
		t.Fatal(err)
	}
	cmd, log = exec.CommandContext(t.Context(), binary), new(bytes.Buffer)
	cmd.Env = append(append(os.Environ(), "HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "WEIR_ADMIN=127.0.0.1:0"), env...)
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	if ready, err = out.ReadString('\n'); err != nil {
		_ = cmd.Wait()
		t.Fatalf("%q, %v\n%s", ready, err, log)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return cmd, ready, log
}

// endWell ends a program as an operator does.
func endWell(t *testing.T, cmd *exec.Cmd, log *bytes.Buffer) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
}

// askJSON asks ratelimit's HTTP endpoint about one entry, and gives the status.
func askJSON(t *testing.T, address, domain, key string) int {
	t.Helper()
	body := fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":%q,"value":"v"}]}]}`, domain, key)
	r, err := http.Post("http://"+address+"/json", "application/json", strings.NewReader(body)) //nolint:noctx // the process ends with the test
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	return r.StatusCode
}

// TestRatelimitByXDS: started as Envoy Gateway starts ratelimit, it begins without rules, takes those of the control plane over mutual TLS, counts where
// WEIR_STORE says though there is a REDIS_URL, and answers proxies that show a certificate, and no others.
func TestRatelimitByXDS(t *testing.T) {
	t.Parallel()
	ca := certtest.NewCA(t)
	mutual := func(p certtest.Pair) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{p.TLS(t)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(), RootCAs: ca.Pool(), ServerName: "envoy-ratelimit", NextProtos: []string{"h2"}}
	}
	control := xdstest.Start(t, mutual(ca.Issue(t, "envoy-gateway")))
	control.Set()
	cert, key := ca.Issue(t, "envoy-ratelimit").Files(t)
	roots := certtest.File(t, "ca.crt", ca.PEM)
	cmd, ready, log := startRatelimit(t,
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL="+control.Address, "CONFIG_GRPC_XDS_NODE_ID="+xdstest.Node, "CONFIG_GRPC_XDS_SERVER_USE_TLS=true",
		"CONFIG_GRPC_XDS_CLIENT_TLS_CERT="+cert, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY="+key, "CONFIG_GRPC_XDS_SERVER_TLS_CACERT="+roots, "CONFIG_GRPC_XDS_SERVER_TLS_SAN=envoy-gateway",
		"FORCE_START_WITHOUT_INITIAL_CONFIG=true", "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT="+cert, "GRPC_SERVER_TLS_KEY="+key, "GRPC_CLIENT_TLS_CACERT="+roots,
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false", "LOG_LEVEL=info", "USE_STATSD=false",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=127.0.0.1:1", "WEIR_STORE=memory:",
	)
	m := regexp.MustCompile(`^weir ready http=(127\.0\.0\.1:\d+) grpc=(127\.0\.0\.1:\d+) .* store=memory domains=0 rules=0\n$`).FindStringSubmatch(ready)
	if m == nil {
		t.Fatalf("%q\n%s", ready, log)
	}
	r, err := http.Get("http://" + m[1] + "/healthcheck") //nolint:noctx // the process ends with the test
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Error("the probe of Envoy Gateway:", r.Status)
	}
	if got := askJSON(t, m[1], "shop", "user"); got != http.StatusOK {
		t.Error("without rules:", got)
	}
	control.Set(`domain: "shop" descriptors { key: "user" rate_limit { unit: YEAR requests_per_unit: 2 } }`)
	xdstest.Soon(t, func() string {
		if got := askJSON(t, m[1], "shop", "user"); got != http.StatusTooManyRequests {
			return fmt.Sprint("the limit is not active: ", got)
		}
		return ""
	})
	question := &rls.RateLimitRequest{Domain: "shop", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: "v"}}}}}
	ask := func(config *tls.Config) (rls.RateLimitResponse_Code, error) {
		conn, err := grpc.NewClient(m[2], grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), question)
		return answer.GetOverallCode(), err
	}
	if code, err := ask(mutual(ca.Issue(t, "envoy"))); err != nil || code != rls.RateLimitResponse_OVER_LIMIT {
		t.Error(code, err)
	}
	if code, err := ask(&tls.Config{RootCAs: ca.Pool(), ServerName: "envoy-ratelimit"}); err == nil {
		t.Error("without a certificate:", code)
	}
	endWell(t, cmd, log)
}
