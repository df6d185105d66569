package clustertest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/client"
)

// programOf names the daemon in the environment of a program that TestHost starts.
const programOf = "WEIR_TEST_PROGRAM_OF"

// programs is how many share a daemon.
const programs = 3

// TestHost: programs of one machine share a limit by a daemon on a socket. When
// that is killed each goes on with its part, so that once more a burst may pass.
func TestHost(t *testing.T) {
	if url := os.Getenv(programOf); url != "" {
		program(t, url)
		return
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "grpc.sock")
	daemon := exec.CommandContext(t.Context(), build(t), "serve", "--grpc-store", "--grpc", "unix://"+socket, "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	out, err := daemon.StdoutPipe()
	if err == nil {
		err = daemon.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	running := make([]*exec.Cmd, programs)
	ends := make([]io.Closer, programs)
	said := make([]bytes.Buffer, programs)
	for i := range running {
		p := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestHost$", "-test.v")
		p.Env = append(os.Environ(), programOf+"=grpc+unix://"+socket)
		p.Stdout = &said[i]
		end, err := p.StdinPipe()
		if err == nil {
			err = p.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		running[i], ends[i] = p, end
	}
	time.Sleep(2 * time.Second)
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait() // it was killed
	time.Sleep(2 * time.Second)
	var by, alone []passed
	for i, p := range running {
		if err := errors.Join(ends[i].Close(), p.Wait()); err != nil {
			t.Errorf("%v\n%s", err, &said[i])
		}
		own := events(t, said[i].String(), "alone")
		if len(own) == 0 {
			t.Errorf("nothing passes at program %d without the daemon", i)
		}
		alone = append(alone, own...)
		by = append(by, events(t, said[i].String(), "daemon")...)
	}
	with, without := excess(by, limit, limit), excess(alone, limit, limit)
	t.Logf("the daemon let %d pass, %.2f too many; programs %d by themselves, %.2f too many", len(by), with, len(alone), without)
	if len(by) < limit || with > tolerance {
		t.Errorf("%d passed at the daemon, %.2f too many", len(by), with)
	}
	if without > programs { // each passes whole events of its part
		t.Errorf("%.2f too many passed without the daemon", without)
	}
}

// program asks the daemon for ten times its part of the limit, until nobody holds its
// stdin, and prints when it asked and was answered of what passed.
func program(t *testing.T, url string) {
	store, err := client.Open(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	asks := []weir.Ask{{State: weir.StateKey{Rule: "host", Key: "k"}, Limit: weir.MustParseLimit("20/s burst 20"), Cost: 1, Nodes: programs}}
	out := make([]weir.Decision, 1)
	tick := time.NewTicker(time.Second * programs / (limit * overload))
	defer tick.Stop()
	end := make(chan error, 1)
	go func() { _, err := io.Copy(io.Discard, os.Stdin); end <- err }()
	for {
		select {
		case err := <-end:
			if err != nil {
				t.Error(err)
			}
			return
		case <-tick.C:
		}
		sent := monotonic(t)
		if err := store.Take(t.Context(), asks, out); err != nil {
			t.Fatal(err)
		}
		by := "daemon"
		if out[0].Degraded != "" { // it was away, or too late
			by = "alone"
		}
		if out[0].Outcome == weir.Allowed {
			fmt.Println(by, int64(sent), int64(monotonic(t)))
		}
	}
}

// monotonic is time by the clock that all processes of a machine have.
func monotonic(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// events are those that a program has printed, as decided by the daemon or alone.
func events(t *testing.T, text, by string) (of []passed) {
	t.Helper()
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, by+" ") {
			continue
		}
		var e passed
		if _, err := fmt.Sscanf(line, by+" %d %d\n", &e.sent, &e.received); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		of = append(of, e)
	}
	return of
}
