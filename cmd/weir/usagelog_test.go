package main

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/usagelog"
)

// logged is how many decisions the files of a usage log tell, each record once. A line without an
// end was not acknowledged.
func logged(t *testing.T, dir string) (decisions int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "usage-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				continue
			}
			r, err := usagelog.ParseRecord(line)
			if err != nil || seen[r.ID] {
				t.Fatalf("%s: %v, seen %v", line, err, seen[r.ID])
			}
			seen[r.ID] = true
			decisions += r.Allowed + r.Denied
		}
	}
	return decisions
}

// TestUsageLogSurvives: SIGTERM in the middle of work loses no record, and kill -9 none but of the
// last moments: two intervals at most.
func TestUsageLogSurvives(t *testing.T) {
	t.Parallel()
	binary, dir := build(t), t.TempDir()
	var answered atomic.Int64
	for _, by := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		before, from := logged(t, dir), answered.Load()
		p := serve(t, binary, "--rules", demoFile(t), "--usage-log", "file:"+dir+"?node=n")
		var stop atomic.Bool
		var late atomic.Int64 // the answers of the last two intervals, and a bit
		var g sync.WaitGroup
		at := "http://" + p.http + "/v1/check"
		for range 4 {
			g.Go(func() {
				for !stop.Load() {
					status, err := post(t, at, demoCheck)
					if err != nil || status != http.StatusOK && status != http.StatusTooManyRequests {
						return // it has ended
					}
					answered.Add(1)
				}
			})
		}
		time.Sleep(1500 * time.Millisecond)
		late.Store(answered.Load())
		time.Sleep(2500 * time.Millisecond)
		if by == syscall.SIGTERM {
			stop.Store(true) // a call that is cut off on its way would be counted, and its caller not know
			g.Wait()
		}
		if err := errors.Join(p.Process.Signal(by), p.Wait()); err != nil && by == syscall.SIGTERM {
			t.Fatal(err, p.stderr)
		}
		stop.Store(true)
		g.Wait()
		got, told := logged(t, dir)-before, answered.Load()-from
		least := told
		if by == syscall.SIGKILL {
			least = late.Load() - from
			told += 4 // each caller may have been decided about and not answered
		}
		if got < least || got > told || least == 0 {
			t.Errorf("after %v the log has %d decisions, clients heard of %d…%d", by, got, least, told)
		}
	}
}
