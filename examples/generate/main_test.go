package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/weir-limit/weir/internal/accesslog"
)

func TestExampleIsWhatIsGenerated(t *testing.T) {
	want, err := os.ReadFile("../access.log")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("examples/access.log is out of date: run go generate here")
	}
}

func TestExampleIsAsDescribed(t *testing.T) {
	var log bytes.Buffer
	if err := write(&log); err != nil {
		t.Fatal(err)
	}
	if log.Len() >= 1_000_000 {
		t.Errorf("the log has %d bytes", log.Len())
	}
	r, lines := accesslog.NewReader(&log, accesslog.Auto, ""), 0
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
