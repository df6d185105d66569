// Package e2e holds weir serve, as it is shipped, against the programs that
// people put before it. Their configurations are the recipes of
// docs/integrations, and the files of deploy.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	recipes = "../../../../docs/integrations"
	deploy  = "../../../../deploy"
)

// binary is weir, which TestMain builds once.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weir-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "weir")
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "../..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build does
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build weir: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// process is a program that a test started. It ends with the test.
type process struct {
	*exec.Cmd

	output *output
	ended  chan struct{}
	err    error // of its end
}

// output is what a process has said so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// command is a program in a folder of its own, which ends when it is told to.
func command(t *testing.T, path string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+cmd.Dir, "XDG_DATA_HOME="+cmd.Dir, "XDG_CONFIG_HOME="+cmd.Dir, "XDG_CACHE_HOME="+cmd.Dir)
	return cmd
}

// start runs a command. What it says goes to output, but for what the command
// has another place for.
func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{Cmd: cmd, output: new(output), ended: make(chan struct{})}
	p.Stderr = p.output
	if p.Stdout == nil {
		p.Stdout = p.output
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.stop() // a test that cares has asked before
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(p.Path), p.output)
		}
	})
	return p
}

// stop asks a process to leave, and waits until it did.
func (p *process) stop() error {
	_ = p.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
		return p.err
	case <-time.After(20 * time.Second):
		err := p.Process.Kill()
		<-p.ended
		return errors.Join(errors.New("it did not end on SIGTERM"), err)
	}
}

// kill ends a process at once, as a crash does.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
}

// daemon is weir serve.
type daemon struct {
	*process

	http, grpc, admin, resp string
}

func serve(t *testing.T, args ...string) *daemon {
	t.Helper()
	return startDaemon(t, command(t, binary, serveArgs(args)...))
}

// serveArgs are those of weir serve, at ports that are free.
func serveArgs(args []string) []string {
	return append([]string{"serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args...)
}

// startDaemon runs a command that is weir serve, and waits until it is ready.
func startDaemon(t *testing.T, cmd *exec.Cmd) *daemon {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	cmd.Stdout = w
	d := &daemon{process: start(t, cmd)}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(r).ReadString('\n')
	m := regexp.MustCompile(`^weir ready http=(\S+) grpc=(\S+) admin=(\S+) resp=(\S+) `).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("%q is not the ready line: %v\n%s", line, err, d.output)
	}
	d.http, d.grpc, d.admin, d.resp = m[1], m[2], m[3], m[4]
	return d
}

// edge is weir serve with the rules of the recipes.
func edge(t *testing.T, args ...string) *daemon {
	t.Helper()
	return serve(t, append([]string{"--rules", absolute(t, filepath.Join(recipes, "rules.yaml"))}, args...)...)
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	name, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// program finds one that is installed.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		t.Skipf("SKIPPED ALOUD: there is no %s here; see tools/debian-packages", name)
	}
	return path
}

// listening waits until a process accepts at an address.
func (p *process) listening(t *testing.T, address string) {
	t.Helper()
	var d net.Dialer
	eventually(t, p.Path+" does not listen", func() bool {
		select {
		case <-p.ended:
			t.Fatalf("%s ended: %v", p.Path, p.err)
		default:
		}
		c, err := d.DialContext(t.Context(), "tcp", address)
		return err == nil && c.Close() == nil
	})
}

// eventually asks until the answer is yes, and fails after a time that no machine
// needs.
func eventually(t testing.TB, otherwise string, ask func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !ask(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal(otherwise)
		}
	}
}

// recipe is a file of docs or deploy with other addresses than it has: each old
// one must stand there, so that the test runs what the file says.
func recipe(t *testing.T, name string, oldnew ...string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(text, oldnew[i]) {
			t.Fatalf("%s does not have %q any more", name, oldnew[i])
		}
		text = strings.ReplaceAll(text, oldnew[i], oldnew[i+1])
	}
	return text
}

// without is a text without the lines that have a word.
func without(text, word string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, word) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestShipped: "one static file", and what go test should look at before it takes
// an answer from its cache.
func TestShipped(t *testing.T) {
	err := filepath.WalkDir("../../../..", func(name string, d os.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") {
			_, err = os.Stat(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("ldd"); err != nil {
		t.Skip("SKIPPED ALOUD: there is no ldd here")
	}
	out, _ := exec.CommandContext(t.Context(), "ldd", binary).CombinedOutput() // it fails on what is static
	if !strings.Contains(string(out), "not a dynamic executable") && !strings.Contains(string(out), "statically linked") {
		t.Errorf("%s", out)
	}
}
