// Package spec holds the daemon's gRPC listener to h2spec, a suite for servers of HTTP/2 that is not ours.
package spec

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"
)

// daemon starts weir serve, and returns where its gRPC listener is.
func daemon(t *testing.T) (host string, port int) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "weir")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/weir")
	build.Dir = root
	build.Env = append(os.Environ(), "GOWORK="+filepath.Join(root, "go.work"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	serve := exec.CommandContext(t.Context(), program, "serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	serve.Cancel = func() error { return serve.Process.Signal(os.Interrupt) }
	serve.WaitDelay = 10 * time.Second
	out, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Wait() }) // it was interrupted
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if at := regexp.MustCompile(` grpc=(\S+)`).FindStringSubmatch(lines.Text()); at != nil {
			host, text, err := net.SplitHostPort(at[1])
			if err != nil {
				t.Fatal(err)
			}
			port, err = strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return host, port
		}
	}
	t.Fatal("the daemon did not become ready")
	return "", 0
}

// TestSpec: all cases pass, none is left out. 146 are there in this version.
func TestSpec(t *testing.T) {
	host, port := daemon(t)
	c := &config.Config{Host: host, Port: port, Path: "/", Timeout: 2 * time.Second, MaxHeaderLen: 4000, Strict: true}
	passed := 0
	for _, group := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		group.Test(c)
		if group.FailedCount > 0 || group.SkippedCount > 0 {
			t.Errorf("%s: %d cases failed, %d were left out; the output above names them", group.Name, group.FailedCount, group.SkippedCount)
		}
		passed += group.PassedCount
	}
	if passed != 146 {
		t.Errorf("%d cases passed, want 146", passed)
	}
}
