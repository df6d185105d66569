package main

import (
	"bufio"
	"bytes"
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

	"github.com/weir-limit/weir/internal/redistest"
)

// TestRatelimit: a program with the name ratelimit, started as ratelimit's own compose file starts it, counts in that Redis, answers at
// those addresses, tells statsd, logs what differs, and ends well.
func TestRatelimit(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath(ratelimitName) // this test, by TestMain
	if err != nil {
		t.Fatal(err)
	}
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
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(),
		"USE_STATSD=true", "STATSD_HOST=127.0.0.1", "STATSD_PORT="+port, "STATS_FLUSH_INTERVAL=100ms", "LOG_LEVEL=debug", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr,
		"RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "CONFIG_TYPE=FILE", "CONFIG_GRPC_XDS_NODE_ID=test-node-id",
		"CONFIG_GRPC_XDS_SERVER_URL=ratelimit-xds-config-server:18000", "MERGE_DOMAIN_CONFIG=true", "REDIS_PIPELINE_WINDOWS=1ms",
		"HOST=127.0.0.1", "PORT=0", "GRPC_HOST=127.0.0.1", "GRPC_PORT=0", "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=0", "WEIR_ADMIN=127.0.0.1:0",
		"WEIR_HTTP=0.0.0.0:8080", "WEIR_GRPC=0.0.0.0:8081", // as the image has them
	)
	var log bytes.Buffer
	cmd.Stderr = &log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	ready, _ := out.ReadString('\n')
	m := regexp.MustCompile(`^weir ready http=(127\.0\.0\.1:\d+) grpc=127\.0\.0\.1:\d+ admin=127\.0\.0\.1:\d+ resp=off store=redis domains=1 rules=1\n$`).FindStringSubmatch(ready)
	if m == nil {
		_ = cmd.Wait()
		t.Fatalf("%q\n%s", ready, &log)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	for i, want := range []int{200, 200, 429} {
		r, err := http.Post("http://"+m[1]+"/json", "application/json", strings.NewReader(`{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`)) //nolint:noctx // the process ends with the test
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("answer %d: %d, want %d", i, r.StatusCode, want)
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
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &log)
	}
	for _, want := range []string{
		`msg="started as ratelimit" command="weir serve --rules ` + folder + ` --http 127.0.0.1:0 --grpc 127.0.0.1:0 --debug 127.0.0.1:0 --store redis://`,
		`level=WARN msg="this differs from envoyproxy/ratelimit" variable=MERGE_DOMAIN_CONFIG `, `variable=REDIS_PIPELINE_WINDOWS why="envoyproxy/ratelimit has no such variable; did you mean REDIS_PIPELINE_WINDOW?"`,
	} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("the log says not once %s:\n%s", want, &log)
		}
	}
}
