package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// process is weir as it is shipped, built and run.
type process struct {
	*exec.Cmd

	http, grpc, admin, resp string

	rest   chan string // what stdout says after the ready line and the try line
	stderr *bytes.Buffer
}

// built is the folder with weir, once a test has needed it. TestMain takes it away.
var built struct {
	sync.Mutex

	dir string
}

// build gives a weir in a folder of the test. It links the program once: that takes longer than
// most of what tests do with it.
func build(t testing.TB) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "weir")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "weir"), ".").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", errors.Join(err, os.RemoveAll(dir)), out)
		}
		built.dir = dir
	}
	binary := filepath.Join(t.TempDir(), "weir")
	if err := os.Symlink(filepath.Join(built.dir, "weir"), binary); err != nil {
		t.Fatal(err)
	}
	return binary
}

func serve(t testing.TB, binary string, args ...string) *process {
	t.Helper()
	log := new(bytes.Buffer)
	p := start(t, binary, log, args...)
	p.stderr = log
	return p
}

// start is serve with a place of its own for the log.
func start(t testing.TB, binary string, log io.Writer, args ...string) *process {
	t.Helper()
	p := &process{rest: make(chan string, 1)}
	p.Cmd = exec.CommandContext(t.Context(), binary, append([]string{"serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)...)
	p.Stderr = log
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "cluster:") }) {
		p.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(filepath.Dir(binary), "cache")) // where nodes list their members
	}
	stdout, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(stdout)
	ready, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(errors.Join(err, p.Wait()), log)
	}
	try, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(try, "try: curl ") {
		t.Fatal(try, err)
	}
	m := regexp.MustCompile(`^weir ready http=(\S+) grpc=(\S+) admin=(\S+) resp=(\S+) store=(?:memory|cluster|kafka|nats) domains=\d+ rules=\d+\n$`).FindStringSubmatch(ready)
	if m == nil {
		t.Fatalf("%q is not the ready line", ready)
	}
	p.http, p.grpc, p.admin, p.resp = m[1], m[2], m[3], m[4]
	go func() {
		rest, err := io.ReadAll(r)
		p.rest <- fmt.Sprint(string(rest), err)
	}()
	return p
}

// TestSIGTERM: "SIGTERM drains and exits 0", and callers that leave when they
// are told so lose no call.
func TestSIGTERM(t *testing.T) {
	t.Parallel()
	p := serve(t, build(t), "--resp", "127.0.0.1:0")
	conn, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	var calls atomic.Int64
	leave := make(chan struct{})
	var g sync.WaitGroup
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
			if calls.Add(1) == 500 {
				if err := p.Process.Signal(syscall.SIGTERM); err != nil {
					t.Error(err)
				}
			}
		}
	}
	stub := rls.NewRateLimitServiceClient(conn)
	for range 3 {
		g.Go(func() {
			call(func(key string) error {
				status, err := post(t, "http://"+p.http+"/v1/check", `{"domain":"demo","descriptors":[{"entries":[{"key":"client_id","value":"`+key+`"}]}]}`)
				if err == nil && status != http.StatusOK && status != http.StatusTooManyRequests {
					return fmt.Errorf("status %d", status)
				}
				return err
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
	for n := range 2 {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", p.resp)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		in := bufio.NewReader(c)
		g.Go(func() {
			call(func(key string) error {
				_, err := fmt.Fprintf(c, "CL.THROTTLE %d-%s 0 1 3600\r\n", n, key)
				for range 6 {
					_, lost := in.ReadString('\n')
					err = errors.Join(err, lost)
				}
				return err
			})
		})
	}
	for ready := true; ready; {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.http+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error("the listener closed before readiness said so:", err)
			break
		}
		ready = response.StatusCode == http.StatusOK
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	close(leave)
	g.Wait()
	http.DefaultClient.CloseIdleConnections() // those dialled in vain, too: closing waits for their call
	rest := <-p.rest
	if err := p.Wait(); err != nil || rest != "<nil>" {
		t.Errorf("%v, stdout goes on %q\n%s", err, rest, p.stderr)
	}
	if strings.Contains(p.stderr.String(), "cut off") {
		t.Errorf("it says that calls were cut off, and none was: %s", p.stderr.String())
	}
	if !strings.Contains(p.stderr.String(), "msg=drained") || calls.Load() < 500 {
		t.Errorf("%d calls\n%s", calls.Load(), p.stderr)
	}
}

// TestKilled: kill -9 in the middle of work leaves nothing behind that keeps
// the next daemon from coming up at the same listeners, with the same rules.
func TestKilled(t *testing.T) {
	t.Parallel()
	binary := build(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("domain: demo\ndescriptors:\n  - {key: client_id, limits: [9/day]}\n  - {key: b, limits: [1/s]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, binary, "--rules", file, "--resp", "127.0.0.1:0")
	ctx, stop := context.WithCancel(t.Context())
	var answered atomic.Int64
	var g sync.WaitGroup
	ask := func() (int, error) {
		return post(t, "http://"+p.http+"/v1/check", `{"domain":"demo","descriptors":[{"entries":[{"key":"client_id","value":"ann"}]}]}`)
	}
	at := [4]string{p.http, p.grpc, p.admin, p.resp}
	for range 4 {
		g.Go(func() {
			for ctx.Err() == nil {
				if status, err := post(t, "http://"+at[0]+"/v1/check", demoCheck); err == nil && (status == http.StatusOK || status == http.StatusTooManyRequests) {
					answered.Add(1)
				}
			}
		})
	}
	for range 3 {
		for before := answered.Load(); answered.Load() < before+200; {
			time.Sleep(time.Millisecond)
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err == nil {
			t.Error("it ended well")
		}
		p = serve(t, binary, "--rules", file, "--http", at[0], "--grpc", at[1], "--admin", at[2], "--resp", at[3])
		if now := [4]string{p.http, p.grpc, p.admin, p.resp}; now != at {
			t.Errorf("listeners %v, want %v", now, at)
		}
		if got := body(t, "http://"+p.http+"/readyz"); got != "OK\n" {
			t.Error(got)
		}
	}
	stop()
	g.Wait()
	if status, err := ask(); err != nil || status != http.StatusOK {
		t.Error("counts are gone with their process, but:", status, err)
	}
	if err := errors.Join(p.Process.Signal(syscall.SIGTERM), p.Wait()); err != nil {
		t.Errorf("%v\n%s", err, p.stderr)
	}
}

const demoCheck = `{"domain":"demo","descriptors":[{"entries":[{"key":"client_id","value":"bob"}]}]}`

// demoFile is a file of two rules, one of which demoCheck meets.
func demoFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("domain: demo\ndescriptors:\n  - {key: client_id, limits: [9/day]}\n  - {key: b, limits: [1/s]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestSIGHUP: it makes the daemon read its rules again, and ends nothing.
func TestSIGHUP(t *testing.T) {
	t.Parallel()
	p := serve(t, build(t), "--rules", demoFile(t))
	for n := 1; n < 4; n++ { // that are not changed, so that nothing else reloads them
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for limit := time.Now().Add(20 * time.Second); !strings.Contains(body(t, "http://"+p.admin+"/metrics"), fmt.Sprintf("weir_rules_reloads_total{result=\"loaded\"} %d\n", n)); {
			if time.Now().After(limit) {
				t.Fatal("nothing was reloaded")
			}
		}
	}
	if err := errors.Join(p.Process.Signal(syscall.SIGTERM), p.Wait()); err != nil {
		t.Errorf("%v\n%s", err, p.stderr)
	}
}

// TestSignalTwice: timeout(1) and supervisors signal the process and its group. That
// is one wish to end, and what was asked is answered all the same.
func TestSignalTwice(t *testing.T) {
	t.Parallel()
	binary := build(t)
	for range 20 {
		if signalTwice(t, binary) {
			return
		}
	}
	t.Fatal("the machine is too busy for two signals within", echo)
}

// signalTwice is whether both signals went out in time.
func signalTwice(t *testing.T, binary string) bool {
	t.Helper()
	p := serve(t, binary)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.http)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const asked = `{"domain":"demo","descriptors":[{"entries":[{"key":"client_id","value":"twice"}]}]}`
	began := time.Now()
	_, half := fmt.Fprintf(conn, "POST /v1/check HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", p.http, len(asked), asked[:20])
	if err := errors.Join(half, p.Process.Signal(syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	for ready := http.StatusOK; ready == http.StatusOK; { // it has heard the first
		if ready, err = status(t, "http://"+p.http+"/readyz"); err != nil {
			ready = 0 // and its listener is closed
		}
	}
	err = p.Process.Signal(syscall.SIGTERM)
	if time.Since(began) > echo/2 { // it was stopped or waited, and may be gone
		_, _ = p.Process.Kill(), p.Wait() // the end of it is another test's
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest := io.WriteString(conn, asked[20:])
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err := errors.Join(rest, err); err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := p.Wait(); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%d, %v\n%s", answer.StatusCode, err, p.stderr)
	}
	return true
}

// TestLogReaderGone: a daemon outlives the program that its log is piped to.
func TestLogReaderGone(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p := start(t, build(t), w, "--rules", demoFile(t))
	if err := errors.Join(r.Close(), p.Process.Signal(syscall.SIGHUP)); err != nil { // it logs that rules were loaded
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); !strings.Contains(body(t, "http://"+p.admin+"/metrics"), `weir_rules_reloads_total{result="loaded"} 1`); {
		if time.Now().After(end) {
			t.Fatal("nothing was reloaded")
		}
	}
	if err := errors.Join(p.Process.Signal(syscall.SIGTERM), p.Wait()); err != nil {
		t.Error(err)
	}
}

// status is that of the answer of a URL.
func status(t *testing.T, url string) (int, error) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

func body(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func post(t *testing.T, url, body string) (int, error) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, errors.Join(err, response.Body.Close())
}

// TestSubprocess is what only a process of its own can show.
func TestSubprocess(t *testing.T) {
	t.Parallel()
	binary := build(t)
	p := serve(t, binary, "--resp", "127.0.0.1:0")
	defer func() {
		if err := errors.Join(p.Process.Signal(syscall.SIGINT), p.Wait()); err != nil {
			t.Errorf("SIGINT: %v\n%s", err, p.stderr)
		}
	}()

	t.Run("check asks the daemon and charges it", func(t *testing.T) {
		for _, c := range []struct {
			cost string
			code int
			says string
		}{
			{"7", exitYes, "allowed     demo/client_id  5/s burst 10  remaining 3\n"},
			{"11", exitNo, "impossible  demo/client_id  5/s burst 10  remaining "},
		} {
			out, code := runs(t, binary, "check", "--addr", "http://"+p.http, "--cost", c.cost, "demo", "client_id=ann")
			if code != c.code || !strings.HasPrefix(out, c.says) {
				t.Errorf("exit %d: %s", code, out)
			}
		}
		out, code := runs(t, binary, "check", "--addr", p.http+"/", "--json", "demo", "client_id=bob")
		if code != exitYes || !strings.HasPrefix(out, `{"id":"`) || strings.Count(out, "\n") != 1 {
			t.Errorf("exit %d: %s", code, out)
		}
		const hint = "has no limit for this; weir explain --addr URL, with the URL of its admin listener, tells why\n"
		if out, code := runs(t, binary, "check", "--addr", p.http, "--times", "2", "demo", "client=bob"); code != exitYes || strings.Count(out, hint) != 1 || strings.Count(out, "no limit is for this\n") != 2 {
			t.Errorf("exit %d: %s", code, out)
		}
		if out, code := runs(t, binary, "check", "--addr", p.http, "--json", "nowhere", "client_id=bob"); code != exitYes || !strings.Contains(out, hint) || !strings.Contains(out, `"decisions":[]}`) {
			t.Errorf("exit %d: %s", code, out)
		}
		if out, code := runs(t, binary, "check", "--addr", p.http, "demo", "client_id="+strings.Repeat("x", 5000)); code != exitUsage || !strings.Contains(out, "the daemon says: descriptors[0].entries[0].value: has 5000 bytes") {
			t.Errorf("exit %d: %s", code, out)
		}
		if out, code := runs(t, binary, "check", "--addr", p.grpc, "demo", "client_id=ann"); code != exitFail {
			t.Errorf("exit %d: %s", code, out)
		}
	})

	t.Run("the Redis listener", func(t *testing.T) {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", p.resp)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "CL.THROTTLE ann 0 1 3600\r\nQUIT\r\n"); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(c); err != nil || string(answer) != "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:3600\r\n+OK\r\n" {
			t.Errorf("%q %v", answer, err)
		}
		if out, code := runs(t, binary, "serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--resp", p.resp); code != exitFail || !strings.Contains(out, "weir: open the resp listener: ") {
			t.Errorf("exit %d: %s", code, out)
		}
	})

	t.Run("explain asks the admin listener and charges nothing", func(t *testing.T) {
		for range 2 {
			out, code := runs(t, binary, "explain", "--addr", p.admin, "demo", "client_id=eve", "--times", "2")
			if code != exitYes || strings.Count(out, "    before: 0 used, 10 remaining, as never used in 0 s\n") != 2 {
				t.Errorf("exit %d: %s", code, out)
			}
		}
		out, code := runs(t, binary, "explain", "--addr", "http://"+p.admin, "--json", "demo", "client_id=eve")
		if code != exitYes || !strings.HasPrefix(out, `{"at":"`) || strings.Count(out, "\n") != 1 {
			t.Errorf("exit %d: %s", code, out)
		}
		if out, code := runs(t, binary, "explain", "--addr", p.http, "demo", "client_id=eve"); code != exitFail || !strings.Contains(out, "/v1/explain is not there; is it the admin listener of a daemon?") {
			t.Errorf("exit %d: %s", code, out)
		}
	})

	t.Run("explain --id tells why a request was denied", func(t *testing.T) {
		if out, code := runs(t, binary, "explain", "--addr", p.admin, "--id", "x", "demo", "a=b"); code != exitUsage || !strings.Contains(out, "leave out demo a=b") {
			t.Errorf("exit %d: %s", code, out)
		}
		out, _ := runs(t, binary, "check", "--addr", p.http, "--json", "--cost", "11", "demo", "client_id=mia")
		id := regexp.MustCompile(`"id":"([0-9a-f]{16})"`).FindStringSubmatch(out)
		if id == nil {
			t.Fatal(out)
		}
		out, code := runs(t, binary, "explain", "--addr", p.admin, "--id", id[1])
		if code != exitYes || !regexp.MustCompile(`^`+id[1]+` at 20\S+Z, as things stood then\ncan never pass: a cost of 11 is more`).MatchString(out) {
			t.Errorf("exit %d: %s", code, out)
		}
		out, code = runs(t, binary, "explain", "--addr", p.admin, "--json", "--id", id[1])
		if code != exitYes || !strings.HasPrefix(out, `{"id":"`+id[1]+`","at":"`) || strings.Count(out, "\n") != 1 {
			t.Errorf("exit %d: %s", code, out)
		}
		for _, c := range []struct {
			addr, id string
			code     int
			says     string
		}{
			{p.admin, "0123456789abcdef", exitFail, "the daemon says: no denial is kept by this id: "},
			{p.admin, "mia", exitUsage, "the daemon says: id: is no ID of a denial"},
			{p.http, id[1], exitFail, "is not there; is it the admin listener of a daemon?"},
		} {
			if out, code := runs(t, binary, "explain", "--addr", c.addr, "--id", c.id); code != c.code || !strings.Contains(out, c.says) {
				t.Errorf("%s: exit %d: %s", c.id, code, out)
			}
		}
	})

	t.Run("a port that is taken: exit 3", func(t *testing.T) {
		if out, code := runs(t, binary, "serve", "--http", p.http); code != exitFail || !strings.Contains(out, "weir: open the http listener: ") {
			t.Errorf("exit %d: %s", code, out)
		}
	})
}

// runs is what a command says, and its exit code.
func runs(t *testing.T, binary string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
