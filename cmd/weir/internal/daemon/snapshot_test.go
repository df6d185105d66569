package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const snapshotRules = "domain: shop\ndescriptors:\n  - {key: user, limits: [5/day]}\n"

// passes is how many of n requests pass.
func passes(t *testing.T, r *running, n int) (passed int) {
	t.Helper()
	for range n {
		code, _ := do(t, http.MethodPost, "http://"+r.http+"/v1/check", `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`)
		switch code {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
		default:
			t.Fatal(code)
		}
	}
	return passed
}

// saves is how often the counts were saved.
func saves(t *testing.T, r *running) (n int) {
	t.Helper()
	_, metrics := get(t, "http://"+r.admin+"/metrics")
	if _, after, ok := strings.Cut(metrics, `weir_memory_snapshots_total{saved="true"} `); ok {
		_, _ = fmt.Sscan(after, &n)
	}
	return n
}

// TestSnapshotOverRestart: a limit a day holds over a restart, and what was
// counted before the last save also over a kill.
func TestSnapshotOverRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	c := Config{Store: "memory:?snapshot=" + file, Rules: rulesFile(t, snapshotRules), saveEvery: time.Millisecond}
	first := start(t, c)
	if n := passes(t, first, 2); n != 2 {
		t.Fatalf("%d of 2 passed", n)
	}
	// What a kill would leave behind is what is in the file now.
	killed := Config{Store: "memory:?snapshot=" + file + ".killed", Rules: c.Rules}
	for until := saves(t, first) + 2; saves(t, first) < until; { // then one began after the requests
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".killed", text, 0o600); err != nil {
		t.Fatal(err)
	}
	first.stop()
	if err := <-first.done; err != nil {
		t.Fatal(err)
	}
	first.done <- nil
	if n := passes(t, start(t, killed), 5); n != 3 {
		t.Errorf("after a kill %d passed, want 3", n)
	}
	if n := passes(t, start(t, c), 5); n != 3 {
		t.Errorf("after a restart %d passed, want 3", n)
	}
}

// TestSnapshotUnread: a daemon starts without what it can't read, and says so.
func TestSnapshotUnread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	if err := os.WriteFile(file, []byte("weir-mem, or so"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	_, err := New(Config{Store: "memory:?snapshot=" + file, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil || !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "the file is now "+file+".unread-") {
		t.Error(err, log.String())
	}
}

// TestSnapshotCantBeSaved: it is logged once, counted each time, and over when
// it is.
func TestSnapshotCantBeSaved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "there")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	d, err := New(Config{Store: "memory:?snapshot=" + filepath.Join(dir, "counts"), Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	d.saveSnapshot()
	d.saveSnapshot()
	if n := strings.Count(log.String(), "the counts can't be saved"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	d.saveSnapshot()
	if !strings.Contains(log.String(), "saved again") {
		t.Error(log.String())
	}
}
