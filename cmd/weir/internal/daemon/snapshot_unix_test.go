//go:build unix

package daemon

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSnapshotPipe: a start does not wait for what is no file, and says so.
func TestSnapshotPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "counts")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := New(Config{Store: "memory:?snapshot=" + pipe})
		failed <- err
	}()
	select {
	case err := <-failed:
		if _, ok := errors.AsType[*ConfigError](err); !ok || !strings.Contains(err.Error(), "is no regular file") {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("it waits")
	}
}
