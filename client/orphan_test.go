package client

import (
	"bufio"
	"io"
	"os/exec"
	"testing"
	"time"
)

// TestOrphan: the daemon of the tests ends when their process does, even by SIGKILL.
func TestOrphan(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), lender(t))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	late := time.AfterFunc(10*time.Second, func() {
		t.Error("it lives on")
		_ = cmd.Process.Kill() // it runs until then
	})
	defer late.Stop()
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, lines) // until it ends
	_ = cmd.Wait()                    // its exit is all
}
