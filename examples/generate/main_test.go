package main

import (
	"bytes"
	"os"
	"testing"
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
