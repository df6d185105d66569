package h1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/internal/certtest"
)

// pipes is a listener of connections in memory.
type pipes struct {
	conns  chan net.Conn
	writes atomic.Int64 // of all its connections
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn)} }

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p *pipes) Close() error {
	defer func() { _ = recover() }() // it was closed before
	close(p.conns)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- &counting{server, p}
	return client
}

// counting is a connection whose writes count.
type counting struct {
	net.Conn

	of *pipes
}

func (c *counting) Write(b []byte) (int, error) {
	c.of.writes.Add(1)
	return c.Conn.Write(b)
}

// say is a handler that says what it was asked.
func say(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // it is in memory, or ends early
	h := w.Header()
	h["RateLimit"] = []string{`"a";r=1`}
	h["X-Many"] = []string{"one", "two\r\nX-Smuggled: 3"}
	switch r.Header.Get("X-Want") {
	case "close":
		h["Connection"] = []string{"close"}
	case "status":
		h["Content-Type"] = []string{"text/plain"}
		w.WriteHeader(http.StatusTooManyRequests)
	case "nothing":
		return
	case "panic":
		panic("as it was told")
	case "sleep":
		time.Sleep(time.Hour)
	}
	_, _ = io.WriteString(w, strings.Join([]string{r.Method, r.RequestURI, r.Host, string(body)}, " ")+"\n")
	if r.TLS != nil {
		_, _ = io.WriteString(w, "safe\n")
	}
}

// server is a server of h1, or of net/http alone.
type server struct {
	*pipes

	handed atomic.Int64
	small  *Server
	stop   func() error
}

func newServer(t *testing.T, o Options, alone bool) *server {
	t.Helper()
	s := &server{pipes: newPipes()}
	web := &http.Server{
		Handler: http.HandlerFunc(say), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	o.Takes, o.HandedOver = httpapi.Small, func() { s.handed.Add(1) }
	ended := make(chan error, 1)
	if alone {
		go func() { ended <- web.Serve(s) }()
		s.stop = func() error { return errors.Join(web.Shutdown(context.WithoutCancel(t.Context())), <-ended) }
	} else {
		s.small = New(web, o)
		go func() { ended <- s.small.Serve(s) }()
		s.stop = func() error { return errors.Join(s.small.Stop(context.WithoutCancel(t.Context())), <-ended) }
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

// ask sends a text on a connection of its own, and reads all that comes until it ends or is silent.
func (s *server) ask(t *testing.T, texts ...string) string {
	t.Helper()
	c := s.dial()
	defer c.Close()
	go func() {
		for i, text := range texts {
			if i > 0 {
				time.Sleep(time.Millisecond)
			}
			_, _ = io.WriteString(c, text) // the server may have gone
		}
	}()
	var all strings.Builder
	_ = c.SetReadDeadline(time.Now().Add(time.Minute)) // pipes take one
	_, _ = io.Copy(&all, c)
	return regexp.MustCompile(`Date: [^\r]+`).ReplaceAllString(all.String(), "Date: now")
}

func wanting(what string) string { return with("X-Want: " + what) }

// TestSameBytes: the answers are net/http's, to the byte.
func TestSameBytes(t *testing.T) {
	head := strings.Replace(auth, "GET", "HEAD", 1)
	for name, text := range map[string]string{
		"check": check, "auth": auth, "head": head, "pipeline": check + auth + head + check, "close": auth + wanting("close") + auth,
		"status": wanting("status") + check, "nothing": wanting("nothing") + strings.Replace(head, "a b", "x\r\nX-Want: nothing", 1) + check,
		"panic": check + wanting("panic") + check,
	} {
		synctest.Test(t, func(t *testing.T) {
			small, alone := newServer(t, Options{Here: true}, false), newServer(t, Options{}, true)
			got, want := small.ask(t, text), alone.ask(t, text)
			if got != want || got == "" {
				t.Errorf("%s: we say\n%s\nnet/http\n%s", name, got, want)
			}
			if n := small.handed.Load(); n != 0 {
				t.Errorf("%s: %d were handed over", name, n)
			}
		})
	}
}

// TestHandOver: at the first doubt net/http gets the connection, with all that was not answered, and no request is lost
// or answered twice.
func TestHandOver(t *testing.T) {
	for name, text := range map[string]string{
		"at first": with("TE: trailers") + check, "later": check + auth + with("Pragma: x") + auth, "a bad one": check + with("Content-Length: 5") + check,
		"another path": auth + "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n" + auth, "half a one": check + check[:70], "too large": check + with("X: "+strings.Repeat("x", MaxRequest)) + auth,
		"chunks": check + strings.Replace(strings.Replace(with("Transfer-Encoding: chunked"), "Content-Length: 4\r\n", "", 1), "body", "4\r\nbody\r\n0\r\n\r\n", 1) + auth,
	} {
		synctest.Test(t, func(t *testing.T) {
			small, alone := newServer(t, Options{Here: true}, false), newServer(t, Options{}, true)
			if got, want := small.ask(t, text), alone.ask(t, text); got != want {
				t.Errorf("%s: we say\n%s\nnet/http\n%s", name, got, want)
			}
			if n := small.handed.Load(); n != 1 {
				t.Errorf("%s: handed over %d times", name, n)
			}
		})
	}
}

// TestCut: wherever the bytes of requests are cut, the answers are the same.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		small := newServer(t, Options{Here: true}, false)
		text := check + auth + check
		want := small.ask(t, text)
		for n := 1; n < len(text); n += 7 {
			if got := small.ask(t, text[:n], text[n:]); got != want {
				t.Errorf("cut at %d: %s", n, got)
			}
		}
		if n := small.handed.Load(); n != 0 {
			t.Errorf("%d were handed over", n)
		}
	})
}

// TestOneWrite: one write answers what one read has brought, unless the handler may wait.
func TestOneWrite(t *testing.T) {
	for here, want := range map[bool]int64{true: 1, false: 20} {
		synctest.Test(t, func(t *testing.T) {
			small := newServer(t, Options{Here: here}, false)
			if got := small.ask(t, strings.Repeat(auth, 20)); strings.Count(got, "200 OK") != 20 || small.writes.Load() != want {
				t.Errorf("%d writes, want %d: %s", small.writes.Load(), want, got)
			}
		})
	}
}

// TestWaits: a call that waits holds up neither an answer before it nor another connection.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		small := newServer(t, Options{}, false)
		c := small.dial()
		defer c.Close()
		go func() { _, _ = io.WriteString(c, auth+wanting("sleep")) }()
		in := bufio.NewReader(c)
		begun := time.Now()
		for i := range 2 {
			if _, err := http.ReadResponse(in, &http.Request{Method: http.MethodHead}); err != nil { //nolint:bodyclose // it is read as an answer to HEAD, which has none
				t.Fatal(err)
			}
			if i == 0 {
				_, _ = in.Discard(in.Buffered()) // its body
				small.ask(t, check)
			}
			if waited := time.Since(begun); (waited > 2*time.Minute) != (i == 1) {
				t.Errorf("answer %d after %v", i, waited)
			}
		}
	})
}

// TestSilence: a connection that asks nothing is closed when net/http closes it.
func TestSilence(t *testing.T) {
	for _, text := range []string{"", auth} {
		synctest.Test(t, func(t *testing.T) {
			for _, alone := range []bool{false, true} {
				c := newServer(t, Options{Here: true}, alone).dial()
				defer c.Close()
				go func() { _, _ = io.WriteString(c, text) }()
				begun := time.Now()
				_, _ = io.Copy(io.Discard, c)
				want := 5 * time.Second
				if text != "" {
					want = 2 * time.Minute
				}
				if took := time.Since(begun); took != want {
					t.Errorf("after %q it ends in %v, want %v", text, took, want)
				}
			}
		})
	}
}

// TestStop: what comes until the listener closes is answered, and is told that its connection ends.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		small := newServer(t, Options{Here: true}, false)
		idle, busy := small.dial(), small.dial()
		defer idle.Close()
		defer busy.Close()
		synctest.Wait()
		stopped := make(chan error, 1)
		begun := time.Now()
		go func() { stopped <- small.small.Stop(context.WithoutCancel(t.Context())) }()
		synctest.Wait()
		go func() { _, _ = io.WriteString(busy, check) }()
		answer, err := io.ReadAll(busy)
		if err != nil || !strings.Contains(string(answer), "Connection: close") {
			t.Errorf("%s %v", answer, err)
		}
		if text, err := io.ReadAll(idle); len(text) > 0 || err != nil {
			t.Errorf("%s %v", text, err)
		}
		if err := <-stopped; err != nil || time.Since(begun) > time.Second {
			t.Error(err, time.Since(begun))
		}
	})
}

// TestTLS: of a connection of TLS the handler knows that it is one, before and after net/http gets it.
func TestTLS(t *testing.T) {
	ca := certtest.NewCA(t)
	small := newServer(t, Options{Here: true}, false)
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	issued := ca.Issue(t)
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = small.small.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}}))
	}()
	c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: ca.Pool()}}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	for i, text := range []string{check, with("TE: trailers"), check} {
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(in, nil) //nolint:bodyclose // it is read, and the connection is closed
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(r.Body); !strings.HasSuffix(string(body), "safe\n") {
			t.Errorf("answer %d: %s", i, body)
		}
	}
	if n := small.handed.Load(); n != 1 {
		t.Errorf("handed over %d times", n)
	}
}
