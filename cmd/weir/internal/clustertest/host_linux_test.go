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
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/client"
)

// programOf names the daemon in the environment of a program that a test starts, and
// programsOf how many there are.
const (
	programOf  = "WEIR_TEST_PROGRAM_OF"
	programsOf = "WEIR_TEST_PROGRAMS"
)

// TestProgram is such a program, and no test by itself.
func TestProgram(t *testing.T) {
	url := os.Getenv(programOf)
	if url == "" {
		t.Skip("other tests start it")
	}
	all, err := strconv.Atoi(os.Getenv(programsOf))
	if err != nil {
		t.Fatal(err)
	}
	program(t, url, all)
}

// programs share limits by daemons on sockets.
type programs struct {
	t       *testing.T
	running []*exec.Cmd
	ends    []io.Closer
	said    []*bytes.Buffer
}

// runPrograms starts programs, one for each socket.
func runPrograms(t *testing.T, sockets ...string) *programs {
	t.Helper()
	p := &programs{t: t}
	for _, socket := range sockets {
		said := new(bytes.Buffer)
		one := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestProgram$", "-test.v")
		one.Env = append(os.Environ(), programOf+"=grpc+unix://"+socket, programsOf+"="+strconv.Itoa(len(sockets)))
		one.Stdout = said
		end, err := one.StdinPipe()
		if err == nil {
			err = one.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		p.running, p.ends, p.said = append(p.running, one), append(p.ends, end), append(p.said, said)
	}
	return p
}

// end ends all programs. It is what passed at each by a daemon, and without.
func (p *programs) end() (by, alone [][]passed) {
	p.t.Helper()
	for i, one := range p.running {
		if err := errors.Join(p.ends[i].Close(), one.Wait()); err != nil {
			p.t.Errorf("%v\n%s", err, p.said[i])
		}
		by, alone = append(by, events(p.t, p.said[i].String(), "daemon")), append(alone, events(p.t, p.said[i].String(), "alone"))
	}
	return by, alone
}

// TestHost: programs of one machine share a limit by a daemon on a socket. When
// that is killed each goes on with its part, so that once more a burst may pass.
func TestHost(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "grpc.sock")
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
	p := runPrograms(t, socket, socket, socket)
	time.Sleep(2 * time.Second)
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait() // it was killed
	time.Sleep(2 * time.Second)
	by, alone := p.end()
	keep(t, by, alone, 3)
}

// TestHosts: programs share a limit by the daemons of their machines, which are a cluster. When one
// of these is killed, its programs go on with their part, and those of the others as before.
func TestHosts(t *testing.T) {
	needs(t)
	t.Parallel()
	c := newCluster(t, 3, faultRules, "--grpc-store")
	dir, sockets := t.TempDir(), []string(nil)
	for i, n := range c.nodes {
		socket := filepath.Join(dir, fmt.Sprint(i))
		n.args = []string{"--grpc", "unix://" + socket}
		sockets = append(sockets, socket, socket)
	}
	c.start(0, 1, 2)
	c.meet(0, 1, 2)
	p := runPrograms(t, sockets...)
	time.Sleep(2 * time.Second)
	c.kill(2)
	killed := monotonic(t)
	time.Sleep(3 * time.Second)
	by, alone := p.end()
	keep(t, by, alone[4:], 2)
	after := slices.DeleteFunc(slices.Concat(by[:4]...), func(e passed) bool { return e.sent < killed })
	t.Logf("%d passed at the other daemons after one was killed, %d without them", len(after), len(slices.Concat(alone[:4]...)))
	if len(after) == 0 {
		t.Error("nothing passes at the daemons that are left")
	}
}

// keep holds what passed to the limit, and what the last few programs let pass without their
// daemon to their parts of it.
func keep(t *testing.T, by, alone [][]passed, last int) {
	t.Helper()
	all, part := slices.Concat(by...), float64(limit*last)/float64(len(by))
	for i := range alone {
		if len(alone[i]) == 0 {
			t.Errorf("nothing passes at program %d without its daemon", len(by)-last+i)
		}
	}
	with, without := excess(all, limit, limit), excess(slices.Concat(alone...), part, part)
	t.Logf("daemons let %d pass, %.2f too many; programs %d by themselves, %.2f too many", len(all), with, len(slices.Concat(alone...)), without)
	if len(all) < limit || with > tolerance {
		t.Errorf("%d passed at daemons, %.2f too many", len(all), with)
	}
	if without > float64(last) { // each passes whole events of its part
		t.Errorf("%.2f too many passed without the daemon", without)
	}
}

// program asks the daemon for ten times its part of the limit, until nobody holds its
// stdin, and prints when it asked and was answered of what passed.
func program(t *testing.T, url string, programs int) {
	store, err := client.Open(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	asks := []weir.Ask{{State: weir.StateKey{Rule: "host", Key: "k"}, Limit: weir.MustParseLimit("20/s burst 20"), Cost: 1, Policy: weir.Policy{Nodes: programs}}}
	out := make([]weir.Decision, 1)
	tick := time.NewTicker(time.Second * time.Duration(programs) / (limit * overload))
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
