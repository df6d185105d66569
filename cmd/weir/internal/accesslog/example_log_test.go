package accesslog

import (
	"errors"
	"io"
	"os"
	"testing"
)

// TestExampleIsAsDescribed: the log of the examples is small, and a few lines of it are
// damaged.
func TestExampleIsAsDescribed(t *testing.T) {
	log, err := os.Open("../../../../examples/access.log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if info, err := log.Stat(); err != nil || info.Size() >= 1_000_000 {
		t.Errorf("%+v, %v", info, err)
	}
	r, lines := NewReader(log, Auto, ""), 0
	for ; ; lines++ {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if lines < 4800 || lines > 5200 || r.Skipped < 3 || r.Skipped > 10 {
		t.Errorf("%d lines and %d damaged ones", lines, r.Skipped)
	}
}
