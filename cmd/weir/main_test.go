package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weir-limit/weir/internal/certtest"
)

// TestMain makes this test a weir of its own for the scripts.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"weir": main, "ratelimit": main})
}

// tests takes away what tests have built.
type tests struct{ *testing.M }

func (m tests) Run() int {
	code := m.M.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // it is temporary
	}
	return code
}

// TestScripts runs testdata/*.txtar. A script has one more command than
// testscript: "exit CODE weir ARGS…" runs weir and wants that exit code. In its
// folder are certificates: ca.pem and other.pem, and from the first tls.crt with
// tls.key, and old.crt with old.key, which has expired.
func TestScripts(t *testing.T) {
	ca, other := certtest.NewCA(t), certtest.NewCA(t)
	good, old := ca.Issue(t, "localhost"), ca.IssueFrom(t, time.Now().Add(-2*time.Hour), time.Hour)
	files := map[string][]byte{
		"ca.pem": ca.PEM, "other.pem": other.PEM,
		"tls.crt": good.Certificate, "tls.key": good.Key, "old.crt": old.Certificate, "old.key": old.Key,
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			var errs []error
			for name, text := range files {
				errs = append(errs, os.WriteFile(filepath.Join(e.WorkDir, name), text, 0o600))
			}
			return errors.Join(errs...)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit": exit,
		},
	})
}

func exit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE COMMAND ARGS…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if coded, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		code = coded.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got := fmt.Sprint(code); got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// TestRunInProcess: run needs nothing of the process but what it is given.
func TestRunInProcess(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), []string{"check", "demo", "client_id=alice"}, strings.NewReader(""), &stdout, &stderr)
	if code != exitYes || stdout.String() != "allowed     demo/client_id  5/s burst 10  remaining 9\n" || stderr.Len() > 0 {
		t.Errorf("%d %q %q", code, stdout.String(), stderr.String())
	}
}

// TestMemory: what the container may have goes before what the machine has.
func TestMemory(t *testing.T) {
	const info = "MemTotal:       1024 kB\nMemFree:        1 kB\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing tells", nil, 0},
		{"machine", map[string]string{"/proc/meminfo": info}, 1 << 20},
		{"container", map[string]string{"/proc/meminfo": info, "/sys/fs/cgroup/memory.max": "4096\n"}, 4096},
		{"container without a limit", map[string]string{"/proc/meminfo": info, "/sys/fs/cgroup/memory.max": "max\n"}, 1 << 20},
		{"old container without a limit", map[string]string{"/proc/meminfo": info, "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 1 << 20},
		{"only a container", map[string]string{"/sys/fs/cgroup/memory.max": "4096"}, 4096},
		{"nonsense", map[string]string{"/proc/meminfo": "MemTotal:"}, 0},
	} {
		got := memory(func(name string) ([]byte, error) {
			if text, ok := c.files[name]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		})
		if got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
