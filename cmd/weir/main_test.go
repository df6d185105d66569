package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test a weir of its own for the scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"weir": main})
}

// TestScripts runs testdata/*.txtar. A script has one more command than
// testscript: "exit CODE weir ARGS…" runs weir and wants that exit code.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
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
