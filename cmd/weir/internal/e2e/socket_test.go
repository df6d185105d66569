package e2e

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func socket(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "http.sock")
}

// url is where recipes find the HTTP listener.
func (d *daemon) url() string {
	if strings.HasPrefix(d.http, "unix://") {
		return d.http
	}
	return "http://" + d.http
}

// TestHTTPSocket: the HTTP listener is a socket that the daemon's user and group may
// open. A daemon that was killed leaves it to the next, one that lives does not, and
// one that ends takes it along.
func TestHTTPSocket(t *testing.T) {
	t.Parallel()
	program(t, "curl")
	path := socket(t)
	d := serve(t, "--http", "unix://"+path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info, err)
	}
	second := command(t, binary, serveArgs([]string{"--http", "unix://" + path})...)
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), path+" is in use by another process") {
		t.Errorf("a second daemon: %v\n%s", err, out)
	}
	d.kill(t)
	if _, err := os.Stat(path); err != nil {
		t.Fatal("a killed daemon tidies nothing up:", err)
	}

	cmd := command(t, binary, serveArgs([]string{"--http", "unix://" + path})...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	next := start(t, cmd)
	lines := bufio.NewScanner(out)
	lines.Scan()
	lines.Scan()
	try, ok := strings.CutPrefix(lines.Text(), "try: ")
	if !ok {
		t.Fatalf("%q is nothing to try", lines.Text())
	}
	said, err := exec.CommandContext(t.Context(), "sh", "-c", try).CombinedOutput()
	if err != nil || !strings.Contains(string(said), `"allowed":true`) {
		t.Errorf("%s\n%v\n%s", try, err, said)
	}
	if err := next.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a daemon that has ended left its socket: %v", err)
	}
}
