package memcachestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/proxytest"
	"github.com/weir-limit/weir/internal/record"
)

// take takes one event of a key.
func take(ctx context.Context, s *Store, limit, rule, key string) (weir.Decision, error) {
	out := make([]weir.Decision, 1)
	err := s.Take(ctx, []weir.Ask{{State: weir.StateKey{Rule: rule, Key: key}, Limit: weir.MustParseLimit(limit), Cost: 1}}, out)
	return out[0], err
}

// want checks that an error says all of this.
func want(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %v, and does not say %q", err, text)
		}
	}
}

// remaining is what a key has left, without charging it.
func remaining(t *testing.T, s *Store, limit, rule, key string) int64 {
	t.Helper()
	out := make([]weir.Decision, 1)
	asks := []weir.Ask{{State: weir.StateKey{Rule: rule, Key: key}, Limit: weir.MustParseLimit(limit), Cost: 1, Peek: true}}
	if err := s.Take(t.Context(), asks, out); err != nil {
		t.Fatal(err)
	}
	return out[0].Remaining
}

func TestServerIsAway(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	s := open(t, server, t.Name())
	for n := range 3 {
		if d, err := take(t.Context(), s, "10/day", "r", "k"); err != nil || d.Remaining != int64(9-n) {
			t.Fatalf("take %d: %+v, %v", n, d, err)
		}
	}
	server.Kill()
	_, err := take(t.Context(), s, "10/day", "r", "k")
	if err == nil {
		t.Fatal("the server is dead, and a take passed")
	}
	_, err = take(t.Context(), s, "10/day", "r", "k")
	want(t, err, server.Addr, "nothing was decided", "is memcached running there?")
	begin := time.Now()
	for range 1000 {
		if _, err := take(t.Context(), s, "10/day", "r", "k"); err == nil {
			t.Fatal("the server is dead, and a take passed")
		}
	}
	t.Logf("a take of a dead server fails in %v", time.Since(begin)/1000)
	server.Restart(t)
	for end := time.Now().Add(5 * time.Second); ; {
		d, err := take(t.Context(), s, "10/day", "r", "k")
		if err == nil {
			if d.Remaining != 9 {
				t.Errorf("an empty server: %+v", d)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the server is back for 5 s: %v", err)
		}
		runtime.Gosched()
	}
}

func TestServerIsFrozen(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	s := open(t, server, t.Name())
	if _, err := take(t.Context(), s, "10/day", "r", "a"); err != nil {
		t.Fatal(err)
	}
	server.Signal(t, syscall.SIGSTOP)
	defer server.Signal(t, syscall.SIGCONT)
	for _, key := range []string{"a", "b"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := take(ctx, s, "10/day", "r", key)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", key, err)
		}
		want(t, err, server.Addr, map[string]string{"a": "may have been a charge", "b": "nothing was decided"}[key])
	}
	server.Signal(t, syscall.SIGCONT)
	if n := remaining(t, s, "10/day", "r", "a"); n != 8 && n != 9 {
		t.Errorf("%d remain", n)
	}
	if n := remaining(t, s, "10/day", "r", "b"); n != 10 {
		t.Errorf("nothing was decided, and %d remain of 10", n)
	}
}

// TestClose: what waits for a frozen server is freed by Close, which leaves no
// goroutine behind.
func TestClose(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	before := runtime.NumGoroutine()
	s := open(t, server, t.Name())
	if _, err := take(t.Context(), s, "10/day", "r", "a"); err != nil {
		t.Fatal(err)
	}
	server.Signal(t, syscall.SIGSTOP)
	defer server.Signal(t, syscall.SIGCONT)
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			if _, err := take(t.Context(), s, "10/day", "r", fmt.Sprint(n)); !errors.Is(err, errClosed) {
				t.Error(err)
			}
		})
	}
	for s.Stats().Waiting < 20 {
		runtime.Gosched()
	}
	_ = s.Close()
	wg.Wait()
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
	_, err := take(t.Context(), s, "10/day", "r", "k")
	want(t, err, "the store was closed")
	if st := s.Status(t.Context()); st[0].Err == nil {
		t.Error("a closed store tells a status")
	}
}

// TestCutInAnswer: a connection that ends in the middle of the answer to a write
// leaves nobody knowing. The error says so, and nothing is sent again.
func TestCutInAnswer(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	for _, some := range []int{0, 1, 3} {
		var writes atomic.Int64
		var cutting atomic.Bool
		addr := proxytest.Start(t, server.Addr, func(answer bool, b []byte) (int, bool) {
			if !answer && bytes.Contains(b, []byte("ms ")) {
				writes.Add(1)
				cutting.Store(true)
			}
			if answer && cutting.Load() {
				cutting.Store(false)
				return min(some, len(b)), true
			}
			return len(b), false
		})
		s := open(t, &memcachedtest.Server{Addr: addr}, fmt.Sprint(t.Name(), some))
		_, err := take(t.Context(), s, "10/day", "r", "k")
		want(t, err, addr, "may have been a charge")
		if writes.Load() != 1 {
			t.Errorf("%d bytes of the answer came, and %d writes were sent", some, writes.Load())
		}
		if n := remaining(t, s, "10/day", "r", "k"); n != 9 {
			t.Errorf("%d remain, want 9", n)
		}
	}
}

// TestWrongAnswers: answers that come twice, and that are another's, are no answers. No more passes than is charged.
func TestWrongAnswers(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	dial := func(addr string) *Store {
		s, err := Dial("memcached://"+addr, Options{Prefix: "wrong" + run + ":"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	direct := dial(server.Addr)
	for _, way := range []string{proxytest.Twice, proxytest.Anothers} {
		t.Run(way, func(t *testing.T) {
			var n, failed atomic.Int64
			addr := proxytest.Wrong(t, server.Addr, way, func([]byte) (answer, wrong bool) {
				return true, n.Add(1)%4 == 0
			})
			s := dial(addr)
			var passed [8]atomic.Int64
			var wg sync.WaitGroup
			for i := range passed {
				wg.Go(func() {
					for range 200 {
						d, err := take(t.Context(), s, "150/day fixed-window", "r", fmt.Sprint(way, i))
						if err != nil {
							failed.Add(1)
						} else if d.Outcome == weir.Allowed {
							passed[i].Add(1)
						}
					}
				})
			}
			wg.Wait()
			if failed.Load() == 0 {
				t.Error("no take failed")
			}
			for i := range passed {
				used := 150 - remaining(t, direct, "150/day fixed-window", "r", fmt.Sprint(way, i))
				if n := passed[i].Load(); n > used {
					t.Errorf("key %d: %d passed, and %d are charged", i, n, used)
				}
			}
			t.Logf("%d of 1600 takes failed", failed.Load())
		})
	}
}

// TestCutInRead: a connection that ends before anything was written has decided
// nothing, and the next take has another one.
func TestCutInRead(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	var cuts atomic.Int64
	addr := proxytest.Start(t, server.Addr, func(answer bool, b []byte) (int, bool) {
		if answer && bytes.HasPrefix(b, []byte("EN")) && cuts.Add(1) == 1 {
			return 1, true
		}
		return len(b), false
	})
	s := open(t, &memcachedtest.Server{Addr: addr}, t.Name())
	_, err := take(t.Context(), s, "10/day", "r", "k")
	want(t, err, "nothing was decided", "EOF")
	if d, err := take(t.Context(), s, "10/day", "r", "k"); err != nil || d.Remaining != 9 {
		t.Errorf("the next take: %+v, %v", d, err)
	}
}

// TestNotMemcached: who answers in another way is named, with what to do.
func TestNotMemcached(t *testing.T) {
	for hello, says := range map[string]string{
		"-ERR unknown command 'version'\r\n":      "is it memcached, 1.6 or later?",
		"VERSION 1.5.22\r\n":                      "upgrade it",
		"VERSION x\r\n":                           "upgrade it",
		"ERROR Too many open connections\r\n":     "raise memcached's -c",
		"CLIENT_ERROR unauthenticated\r\n":        "start memcached without -Y",
		"HTTP/1.1 400 Bad Request\r\n\r\n":        "is it memcached, 1.6 or later?",
		"VERSION 1.6.18\r\nERROR unasked for\r\n": "is it memcached",
		"": "EOF",
	} {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.ReadFull(c, make([]byte, len("version\r\n"))) // the store may be gone
				_, _ = io.WriteString(c, hello)
				_ = c.Close()
			}
		}()
		s := open(t, &memcachedtest.Server{Addr: l.Addr().String()}, t.Name())
		_, err = take(t.Context(), s, "10/day", "r", "k")
		if says != "is it memcached" {
			want(t, err, l.Addr().String(), "nothing was decided", says)
		} else if err == nil {
			t.Errorf("%q: no error", hello)
		}
		_ = l.Close()
	}
}

func TestWithoutCAS(t *testing.T) {
	server := memcachedtest.Start(t, "-C")
	s := open(t, server, t.Name())
	_, _ = take(t.Context(), s, "10/day", "r", "k") // nothing is there yet
	_, err := take(t.Context(), s, "10/day", "r", "k")
	want(t, err, "numbers no writes", "without -C")
}

// TestForeign: what another program has written under our key is an error, and
// stays as it was.
func TestForeign(t *testing.T) {
	server := memcachedtest.Start(t)
	s := open(t, server, t.Name())
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, value := range []string{"5", "", "weir\x01", "weir\x01" + strings.Repeat("\xff", 40), strings.Repeat("x", 1_000_000)} {
		name := s.name(weir.StateKey{Rule: "r", Key: fmt.Sprint(len(value))})
		if _, err := fmt.Fprintf(c, "set %s 0 60 %d\r\n%s\r\n", name, len(value), value); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
		_, err := take(t.Context(), s, "10/day", "r", fmt.Sprint(len(value)))
		if value == "" {
			continue // says nothing, as a count never used does
		}
		want(t, err, "nothing was decided", "another program's", "prefix of its own")
		if strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("a key in %v", err)
		}
	}
	if d, err := take(t.Context(), s, "10/day", "r", "another"); err != nil || d.Remaining != 9 {
		t.Errorf("the connection is of no more use: %+v, %v", d, err)
	}
}

// TestTooLarge: an item that would be larger than a server takes is not sent,
// for the server would drop what it has.
func TestTooLarge(t *testing.T) {
	s := open(t, memcachedtest.Start(t), t.Name())
	_, err := take(t.Context(), s, "10/day", "r#"+strings.Repeat("x", 1<<20), "k")
	want(t, err, "give the limit a shorter name")
	var last error
	passed := 0
	for n := range 2 * maxValue / 1024 {
		if _, last = take(t.Context(), s, "10/day", fmt.Sprintf("r#%d%s", n, strings.Repeat("x", 1014)), "k"); last != nil {
			break
		}
		passed++
	}
	want(t, last, "nothing was decided", "fewer limits")
	if n := remaining(t, s, "10/day", "r#0"+strings.Repeat("x", 1014), "k"); n != 9 {
		t.Errorf("after %d limits and a failure, %d remain, want 9", passed, n)
	}
}

// TestFlush: what is flushed is as never used, and counted.
func TestFlush(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	s := open(t, server, t.Name())
	for n := range 3 {
		if d, err := take(t.Context(), s, "3/day", "r", "k"); err != nil || d.Remaining != int64(2-n) {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	if answer := server.Ask(t, "flush_all"); answer != "OK\r\n" {
		t.Fatal(answer)
	}
	if d, err := take(t.Context(), s, "3/day", "r", "k"); err != nil || d.Remaining != 2 {
		t.Errorf("after a flush: %+v, %v", d, err)
	}
	if n := s.Stats().Forgotten; n != 1 {
		t.Errorf("%d items were forgotten, want 1", n)
	}
}

// TestEviction: an item that was evicted is as never used; a receipt from before
// gives nothing back of what was charged since.
func TestEviction(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "2")
	s := open(t, server, t.Name())
	asks := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit("10/day fixed-window"), Cost: 4, Receipt: 1}}
	old, out := make([]weir.Decision, 1), make([]weir.Decision, 1)
	if err := s.Take(t.Context(), asks, old); err != nil {
		t.Fatal(err)
	}
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var b bytes.Buffer
	for n := range 40_000 { // of all sizes that the item may have with what memcached adds
		size := 20 + n%10*12
		fmt.Fprintf(&b, "set flood%d 0 0 %d noreply\r\n%0*d\r\n", n, size, size, n)
	}
	b.WriteString("version\r\n")
	if _, err := c.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	st := s.Status(t.Context())[0]
	if st.Err != nil || st.Evictions == 0 || st.Version == "" || st.MaxBytes != 2<<20 || st.Items == 0 || st.Skew.Abs() > 3*time.Second {
		t.Errorf("status %+v", st)
	}
	asks[0].Receipt = 2
	for range 2 { // what is known from before is tried first, and found wrong
		if err := s.Take(t.Context(), asks, out); err != nil {
			t.Fatal(err)
		}
	}
	if out[0].Remaining != 2 || s.Stats().Forgotten == 0 {
		t.Errorf("after an eviction: %+v, %+v", out[0], s.Stats())
	}
	if err := s.Settle(t.Context(), []weir.Settlement{{Receipt: old[0].Receipt}}); err != nil {
		t.Fatal(err)
	}
	if n := remaining(t, s, "10/day fixed-window", "r", "k"); n != 2 {
		t.Errorf("a receipt from before the eviction has given back %d", n-2)
	}
}

// TestNoEviction: a server that may not evict refuses, and the error says why.
func TestNoEviction(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "2", "-M")
	s := open(t, server, t.Name())
	var err error
	for n := 0; n < 50_000 && err == nil; n++ {
		_, err = take(t.Context(), s, "10/day", "r"+strings.Repeat("x", 150), fmt.Sprint(n))
	}
	want(t, err, server.Addr, "out of memory", "raise memcached's -m")
}

// TestServers: each item is on one server; while that is away its takes fail,
// and no other server takes them over.
func TestServers(t *testing.T) {
	a, b := memcachedtest.Start(t, "-m", "8"), memcachedtest.Start(t, "-m", "8")
	s, err := Dial("memcached://"+a.Addr+","+b.Addr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	on := map[string]int{}
	for n := range 100 {
		if _, err := take(t.Context(), s, "2/day", "r", fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
		on[pick(s.cells.servers, s.name(weir.StateKey{Rule: "r", Key: fmt.Sprint(n)})).server.addr]++
	}
	if on[a.Addr] < 25 || on[b.Addr] < 25 {
		t.Errorf("items are on %v", on)
	}
	for i, st := range s.Status(t.Context()) {
		if st.Err != nil || st.Items != int64(on[[]string{a.Addr, b.Addr}[i]]) {
			t.Errorf("%+v, want %v", st, on)
		}
	}
	b.Kill()
	for n := range 100 {
		d, err := take(t.Context(), s, "2/day", "r", fmt.Sprint(n))
		if away := pick(s.cells.servers, s.name(weir.StateKey{Rule: "r", Key: fmt.Sprint(n)})).server.addr == b.Addr; away != (err != nil) {
			t.Errorf("key %d: %+v, %v; its server is away: %t", n, d, err, away)
		} else if err == nil && d.Remaining != 0 {
			t.Errorf("key %d: %+v", n, d)
		}
	}
	if st := s.Status(t.Context())[1]; st.Err == nil {
		t.Errorf("%+v of a dead server", st)
	}
}

func TestUnixSocket(t *testing.T) {
	server := memcachedtest.StartUnix(t)
	s, err := Dial("memcached+unix://"+server.Addr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if d, err := take(t.Context(), s, "2/day", "r", "k"); err != nil || d.Remaining != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	server.Kill()
	_, _ = take(t.Context(), s, "2/day", "r", "k") // finds out
	_, err = take(t.Context(), s, "2/day", "r", "k")
	want(t, err, server.Addr, "is memcached running there?")
}

// TestRestartedServer: a server that was restarted numbers its writes anew. What
// is known from before matches no write of its new life.
func TestRestartedServer(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	a, b := open(t, server, t.Name()), open(t, server, t.Name())
	asks := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit("10/day"), Cost: 1}}
	out := make([]weir.Decision, 1)
	for range 3 {
		if err := a.Take(t.Context(), asks, out); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill()
	server.Restart(t)
	asks[0].Cost = 2
	for range 3 {
		if err := b.Take(t.Context(), asks, out); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Take(t.Context(), asks, out); err != nil || out[0].Remaining != 2 {
		t.Errorf("%+v, %v; want 2 of 10 to remain", out[0], err)
	}
}

// TestForgottenByWhomever: an item that was dropped is counted by each process that had
// seen it, though another finds it gone first; not by one that never saw it.
func TestForgottenByWhomever(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	saw, made, never := open(t, server, t.Name()), open(t, server, t.Name()), open(t, server, t.Name())
	for _, s := range []*Store{saw, made, saw} {
		if _, err := take(t.Context(), s, "3/day", "r", "k"); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Millisecond) // the clocks of two processes are never nearer
	if answer := server.Ask(t, "flush_all"); answer != "OK\r\n" {
		t.Fatal(answer)
	}
	for _, s := range []*Store{never, made, saw, saw} {
		if _, err := take(t.Context(), s, "3/day", "r", "k"); err != nil {
			t.Fatal(err)
		}
	}
	if a, b, c := saw.Stats().Forgotten, made.Stats().Forgotten, never.Stats().Forgotten; a != 1 || b != 1 || c != 0 {
		t.Errorf("%d, %d and %d were forgotten, want 1, 1 and 0", a, b, c)
	}
}

// TestForgottenOfMany: dropped items are counted of more keys than a store keeps lanes
// for.
func TestForgottenOfMany(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "64")
	s := open(t, server, t.Name())
	const keys = 1<<15 + 3000 // more than lanes
	use := func() {
		var wg sync.WaitGroup
		for worker := range 64 {
			wg.Go(func() {
				for n := worker; n < keys; n += 64 {
					if _, err := take(t.Context(), s, "1/day", "r", fmt.Sprint(n)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	use()
	if answer := server.Ask(t, "flush_all"); answer != "OK\r\n" {
		t.Fatal(answer)
	}
	time.Sleep(record.DenialLife)
	use()
	if n := s.Stats().Forgotten; n != keys {
		t.Errorf("%d items were forgotten, want %d", n, keys)
	}
}
