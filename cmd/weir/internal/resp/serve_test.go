package resp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// listen serves s on a port of its own until the test ends.
func listenTo(t *testing.T, s *Server) (host, port string) {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Stop(context.Background()), <-served); err != nil {
			t.Error(err)
		}
	})
	host, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

func dial(t *testing.T, host, port string) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestManyClients: many callers at once get no more than the limit.
func TestManyClients(t *testing.T) {
	host, port := listenTo(t, newServer(t, Options{}))
	var allowed atomic.Int64
	var g sync.WaitGroup
	for range 8 {
		c := dial(t, host, port)
		g.Go(func() {
			go func() {
				if _, err := io.WriteString(c, strings.Repeat(bulks("CL.THROTTLE", "k", "99", "1", "86400"), 500)); err != nil {
					t.Error(err)
				}
			}()
			r := bufio.NewReader(c)
			for range 500 * 6 {
				line, err := r.ReadString('\n')
				if err != nil {
					t.Error(err)
					return
				}
				if line == ":-1\r\n" {
					allowed.Add(1)
				}
			}
		})
	}
	g.Wait()
	if n := allowed.Load(); n != 100 {
		t.Errorf("%d were allowed", n)
	}
}

// TestErrorArrives: a client gets the error before the connection is closed,
// though most of what it says is never read.
func TestErrorArrives(t *testing.T) {
	host, port := listenTo(t, newServer(t, Options{}))
	for range 20 {
		c := dial(t, host, port)
		write(t, c, "*1\r\n$65537\r\n"+strings.Repeat("x", 65537))
		got := make([]byte, 5)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "-ERR " {
			t.Fatalf("%q %v", got, err)
		}
		_ = c.Close()
	}
}

// TestStop: what was sent is answered, then connections are closed, idle and
// half ones too.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{Reached: func(b Bound) { t.Error(b) }})
		idle, done := open(t, s)
		half, _ := open(t, s)
		busy, _ := open(t, s)
		write(t, half, "*1\r\n$4\r\nPI")
		synctest.Wait()

		stopped := make(chan error, 1)
		start := time.Now()
		go func() { stopped <- s.Stop(t.Context()) }()
		synctest.Wait()
		write(t, busy, strings.Repeat("PING\r\n", 100))
		expect(t, busy, strings.Repeat("+PONG\r\n", 100))
		for _, c := range []net.Conn{idle, half, busy} {
			if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
				t.Errorf("%q %v", rest, err)
			}
		}
		if err := <-stopped; err != nil || time.Since(start) != listen.Parting {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		<-done
		late, server := net.Pipe()
		s.conns.Start(server, func(nc net.Conn) { s.serve(t.Context(), nc) })
		if _, err := late.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}

// TestStopStuck: a client that does not read is not waited for.
func TestStopStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		client, done := open(t, s)
		write(t, client, "PING\r\n")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := s.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		<-done
	})
}

// troubled is a listener without files to spare, twice, and then broken.
type troubled struct {
	net.Listener

	accepts int
}

func (l *troubled) Accept() (net.Conn, error) {
	l.accepts++
	if l.accepts > 2 {
		return nil, errors.New("broken")
	}
	return nil, syscall.EMFILE
}

func (l *troubled) Close() error { return nil }

// TestAccept: what passes is waited for, what does not ends the listener.
func TestAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(troubled)
		if err := newServer(t, Options{}).Serve(l); err == nil || err.Error() != "broken" || l.accepts != 3 {
			t.Error(err, l.accepts)
		}
		s := newServer(t, Options{})
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Serve(l); err != nil || l.accepts != 3 {
			t.Error(err, l.accepts)
		}
	})
}

// tool is a program of redis-tools.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("SKIPPED ALOUD: there is no %s here, so the stock client was not tried; install redis-tools", name)
	}
	return path
}

// TestRedisCLI: the stock client, by both protocols, with arguments and typed.
func TestRedisCLI(t *testing.T) {
	cli := tool(t, "redis-cli")
	host, port := listenTo(t, newServer(t, Options{}))
	run := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), cli, append([]string{"-h", host, "-p", port, "--no-raw"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for i, version := range []string{"-2", "-3"} {
		key := fmt.Sprint("k", i)
		for _, c := range []struct{ stdin, args, want string }{
			{"", "PING", "PONG\n"},
			{"", "CL.THROTTLE " + key + " 0 1 86400", "1) (integer) 0\n2) (integer) 1\n3) (integer) 0\n4) (integer) -1\n5) (integer) 86400\n"},
			{"", "WEIR.CHECK d 10 k " + key, "1) (integer) 0\n2) (integer) 10\n3) (integer) 0\n4) (integer) -1\n5) (integer) 2\n6) \"d/k\"\n"},
			{"", "CL.THROTTLE k 1 0 1", "(error) ERR count must be an integer from 1 to 1073741824\n"},
			{"echo 'a b'\ncommand count\nquit\n", "", "\"a b\"\n(integer) 12\n"},
		} {
			if got := run(c.stdin, append([]string{version}, strings.Fields(c.args)...)...); got != c.want {
				t.Errorf("%s %s: %q, want %q", version, c.args+c.stdin, got, c.want)
			}
		}
	}
	if out := run(strings.Repeat(bulks("PING"), 5000), "--pipe"); !strings.Contains(out, "errors: 0, replies: 5000") {
		t.Error(out)
	}
}

// TestRedisBenchmark: the stock load generator, and that no answer is lost.
func TestRedisBenchmark(t *testing.T) {
	path := tool(t, "redis-benchmark")
	var mu sync.Mutex
	var calls int
	host, port := listenTo(t, newServer(t, Options{Observe: func(command string, ok bool, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if command == "cl.throttle" && ok {
			calls++
		}
	}}))
	const n = 20000
	out, err := exec.CommandContext(
		t.Context(), path, "-h", host, "-p", port, "-n", strconv.Itoa(n), "-P", "32", "-c", "10", "-r", "1000", "--csv",
		"CL.THROTTLE", "k__rand_int__", "99", "1000", "1",
	).CombinedOutput()
	mu.Lock()
	defer mu.Unlock()
	if err != nil || calls < n || strings.Contains(string(out), "rror") {
		t.Errorf("%v, %d calls\n%s", err, calls, out)
	}
}

// TestNames: what is counted by name has its name told before.
func TestNames(t *testing.T) {
	got := Commands()
	slices.Sort(got)
	want := []string{"auth", "cl.throttle", "client", "command", "echo", "hello", "info", "other", "ping", "protocol", "quit", "reset", "select", "weir.check"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestHalfCommands: commands that never come to their end hold no more together than the
// budget; those that are cut off are told, and others are answered.
func TestHalfCommands(t *testing.T) {
	budget := &overload.Budget{Most: 1 << 20}
	var reached atomic.Int64
	host, port := listenTo(t, newServer(t, Options{Budget: budget, Reached: func(b Bound) {
		if b == BoundMemory {
			reached.Add(1)
		}
	}}))
	half := "*4\r\n" + strings.Repeat("$60000\r\n"+strings.Repeat("x", 60000)+"\r\n", 3)
	told := make(chan string, 20)
	for range cap(told) {
		c := dial(t, host, port)
		go func() {
			_, _ = io.WriteString(c, half) // it may be cut off meanwhile
			b, _ := io.ReadAll(c)
			told <- string(b)
		}()
	}
	for range cap(told) - 6 { // the others fit
		if got := <-told; got != "" && !strings.HasPrefix(got, "-ERR Protocol error: commands that have not ended") {
			t.Errorf("%.100q", got)
		}
		if n := budget.Held(); n > budget.Most {
			t.Errorf("%d bytes", n)
		}
	}
	if reached.Load() < int64(cap(told))-6 {
		t.Errorf("the bound was told %d times", reached.Load())
	}
	c := dial(t, host, port)
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "+PONG\r\n" {
		t.Error(line, err)
	}
}
