package httplimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// remaining is how many more events a rule of one count would pass.
func remaining(t testing.TB, store weir.Store, name, limit string) int64 {
	t.Helper()
	a, err := weir.NewLimiter(store, name, weir.MustParseLimit(limit)).Ask(t.Context(), weir.Request{Peek: true})
	if err != nil {
		t.Fatal(err)
	}
	return a.Remaining
}

// on is a server with a handler behind one rule for all.
func on(t testing.TB, limit string, h http.Handler) (store *memstore.Store, url string) {
	t.Helper()
	store = memstore.New(memstore.Options{})
	m, err := New(store, []Rule{{Name: "api", Limit: weir.MustParseLimit(limit)}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(m(h))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // of panics that are meant
	s.Start()
	t.Cleanup(s.Close)
	return store, s.URL
}

func fetch(t testing.TB, url string) (status int, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true // on a connection that was used before, a client asks again when it breaks
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, errors.Join(err, response.Body.Close())
}

// eventually waits until a condition holds: on a real server what happens after
// the answer takes a moment.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// TestB16PermitsComeBack: whichever way a request ends, its permit is free
// afterwards, and only then.
func TestB16PermitsComeBack(t *testing.T) {
	inside, out := make(chan struct{}), make(chan struct{})
	var h http.HandlerFunc
	store, url := on(t, "1 concurrent ttl 1h", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r) }))
	back := func() bool { return remaining(t, store, "api", "1 concurrent ttl 1h") == 1 }

	h = func(http.ResponseWriter, *http.Request) { inside <- struct{}{}; <-out }
	go func() { _, _ = fetch(t, url); out <- struct{}{} }()
	<-inside
	if status, err := fetch(t, url); status != http.StatusTooManyRequests || err != nil {
		t.Errorf("a second beside the first: %d %v", status, err)
	}
	out <- struct{}{}
	<-out
	eventually(t, "a handler returned, and the permit did not", back)

	for name, ends := range map[string]http.HandlerFunc{
		"a panic":       func(http.ResponseWriter, *http.Request) { panic("at the disco") },
		"an abort":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a late panic":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x"); panic("late") },
		"a short write": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "9") },
		"a hijack": func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = c.Close()
		},
	} {
		h = ends
		if status, err := fetch(t, url); status == http.StatusTooManyRequests {
			t.Errorf("%s: %d %v", name, status, err)
		}
		eventually(t, name+" kept the permit", back)
	}

	// The client leaves while the handler works for it.
	h = func(_ http.ResponseWriter, r *http.Request) { inside <- struct{}{}; <-r.Context().Done() }
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { <-inside; leave() }()
	if response, err := http.DefaultClient.Do(r); err == nil {
		_ = response.Body.Close()
		t.Error("it was answered")
	}
	eventually(t, "a client that left kept the permit", back)
}

// TestB16HijackedPermit: a connection that was taken over holds its permit until it
// is closed, however early its handler returns, and closing it twice frees one.
func TestB16HijackedPermit(t *testing.T) {
	conns := make(chan net.Conn, 2)
	const limit = "2 concurrent ttl 1h"
	store, url := on(t, limit, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\n")
		_ = rw.Flush()
		conns <- c
	}))
	for range 2 {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, "101") {
			t.Fatal(line, err)
		}
	}
	if n := remaining(t, store, "api", limit); n != 0 {
		t.Errorf("%d permits are free while both connections are open", n)
	}
	first := <-conns
	_, _ = first.Close(), first.Close()
	eventually(t, "the connection was closed, and the permit kept", func() bool { return remaining(t, store, "api", limit) == 1 })
	_ = (<-conns).Close()
	eventually(t, "the second connection was closed, and the permit kept", func() bool { return remaining(t, store, "api", limit) == 2 })
}

// TestB16ClosedInTheHandler: a handler that closes the connection that it took over
// still works for its client, and holds the permit until it returns.
func TestB16ClosedInTheHandler(t *testing.T) {
	closed, out := make(chan struct{}), make(chan struct{})
	const limit = "1 concurrent ttl 1h"
	store, url := on(t, limit, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = c.Close()
		close(closed)
		<-out
	}))
	_, _ = fetch(t, url) // which fails: there is no answer
	<-closed
	if n := remaining(t, store, "api", limit); n != 0 {
		t.Error("the permit is free while the handler works")
	}
	close(out)
	eventually(t, "the handler returned, and the permit did not", func() bool { return remaining(t, store, "api", limit) == 1 })
}

// TestB16LongRequests: a permit is renewed as long as its request takes, and one of
// a process that was killed is free after its ttl.
func TestB16LongRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Options{})
		m, err := New(store, []Rule{{Name: "api", Limit: weir.MustParseLimit("1 concurrent ttl 1min")}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan int)
		go func() {
			done <- get(m(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Hour) }))).Code
		}()
		for range 59 {
			time.Sleep(time.Minute)
			if code := get(m(ok)).Code; code != http.StatusTooManyRequests {
				t.Fatalf("%d beside a request that is still there", code)
			}
		}
		if code := <-done; code != http.StatusOK {
			t.Error(code)
		}
		if code := get(m(ok)).Code; code != http.StatusOK {
			t.Errorf("%d after it", code)
		}
		// One that is killed renews nothing.
		if _, err := weir.NewLimiter(store, "api", weir.MustParseLimit("1 concurrent ttl 1min")).Take(t.Context(), "", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - time.Microsecond)
		if code := get(m(ok)).Code; code != http.StatusTooManyRequests {
			t.Error(code)
		}
		time.Sleep(time.Microsecond)
		if code := get(m(ok)).Code; code != http.StatusOK {
			t.Error(code)
		}
	})
}

// TestB16Held: a request that a queue holds for longer than the ttl of its permit has the
// permit when it goes.
func TestB16Held(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var serving atomic.Int64
		h := middlewareOf(t, []Rule{
			{Name: "slots", Limit: weir.MustParseLimit("2 concurrent ttl 1s")},
			{Name: "pace", Limit: weir.MustParseLimit("1/10s leaky-queue queue 9")},
		}, Options{})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { serving.Add(1); time.Sleep(time.Minute) }))
		for range 2 {
			go get(h)
		}
		time.Sleep(9 * time.Second)
		if code := get(h).Code; serving.Load() != 1 || code != http.StatusTooManyRequests {
			t.Errorf("%d requests served; a third is answered by %d", serving.Load(), code)
		}
		time.Sleep(2 * time.Minute)
	})
}

// TestB17Reconnects: streams that come and go all the time are never more at once
// than the limit lets.
func TestB17Reconnects(t *testing.T) {
	const permits = 5
	var open, most atomic.Int64
	store, url := on(t, "5 concurrent ttl 1h", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := open.Add(1)
		defer open.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		_, _ = io.WriteString(w, "data: x\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			for range 50 {
				ctx, leave := context.WithCancel(t.Context())
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				if err != nil {
					t.Error(err)
				}
				if response, err := http.DefaultClient.Do(r); err == nil {
					_, _ = response.Body.Read(make([]byte, 1))
					leave()
					_ = response.Body.Close()
				}
				leave()
			}
		})
	}
	clients.Wait()
	if m := most.Load(); m > permits || m == 0 {
		t.Errorf("%d streams at once, of %d", m, permits)
	}
	eventually(t, "permits are missing", func() bool { return remaining(t, store, "api", "5 concurrent ttl 1h") == permits })
}

// TestCounts: what does not count is given back, and many at once are no way
// around.
func TestCounts(t *testing.T) {
	status := http.StatusOK
	const limit = "3/h"
	failures := Options{Counts: func(status int) bool { return status >= 400 }}
	store := memstore.New(memstore.Options{})
	m, err := New(store, []Rule{{Name: "api", Limit: weir.MustParseLimit(limit)}}, failures)
	if err != nil {
		t.Fatal(err)
	}
	h := m(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := remaining(t, store, "api", limit); n > 2 {
			t.Errorf("while it is served the request does not count: %d left", n)
		}
		switch status {
		case 0:
			panic("at the disco")
		case 200: // as when nothing is said
		default:
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, "x")
	}))
	for _, c := range []struct {
		status int
		left   int64
	}{{200, 3}, {204, 3}, {302, 3}, {401, 2}, {200, 2}, {500, 1}, {0, 0}} {
		status = c.status
		func() {
			defer func() { _ = recover() }() // which is meant
			get(h)
		}()
		if n := remaining(t, store, "api", limit); n != c.left {
			t.Errorf("after %d there are %d left, want %d", c.status, n, c.left)
		}
	}
	if w := get(h); w.Code != http.StatusTooManyRequests {
		t.Errorf("three failures, and %d", w.Code)
	}
}

// TestSettle: what was used stays charged, of each unit its own, whichever way
// the request ends.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		name      string
		h         func(*Charge)
		remaining int64 // of 1000
	}{
		{"nothing told", func(*Charge) {}, 900},
		{"less", func(c *Charge) { c.Use("tokens", 20); c.Use("tokens", 10) }, 970},
		{"none", func(c *Charge) { c.Use("tokens", 0) }, 1000},
		{"more", func(c *Charge) { c.Use("tokens", 150) }, 850},
		{"a panic in the middle", func(c *Charge) { c.Use("tokens", 30); panic(http.ErrAbortHandler) }, 970},
		{"less than nothing", func(c *Charge) { c.Use("tokens", -500) }, 1000},
		{"another rule", func(c *Charge) { c.Use("requests", 0); c.Use("token", 7) }, 900},
	} {
		store := memstore.New(memstore.Options{})
		m, err := New(store, []Rule{
			{Name: "requests", Limit: weir.MustParseLimit("10/h")},
			{Name: "tokens", Limit: weir.MustParseLimit("1000/h burst 1000"), Cost: func(*http.Request) int64 { return 100 }, Unit: "tokens"},
		}, Options{Settle: true})
		if err != nil {
			t.Fatal(err)
		}
		h := m(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			charge := ChargeOf(r.Context())
			if charged, used := charge.Cost("tokens"); charged != 100 || used != 0 {
				t.Errorf("%s: charged %d, used %d", c.name, charged, used)
			}
			c.h(charge)
		}))
		func() {
			defer func() { _ = recover() }() // which is meant
			get(h)
		}()
		if n := remaining(t, store, "tokens", "1000/h burst 1000"); n != c.remaining {
			t.Errorf("%s: %d left, want %d", c.name, n, c.remaining)
		}
		want := int64(9)
		if c.name == "another rule" {
			want = 10
		}
		if n := remaining(t, store, "requests", "10/h"); n != want {
			t.Errorf("%s: %d requests left", c.name, n)
		}
	}
}

// TestUseEnds: Use tells when what was charged is used up.
func TestUseEnds(t *testing.T) {
	m := middlewareOf(t, []Rule{{Name: "tokens", Limit: weir.MustParseLimit("100/h"), Cost: func(*http.Request) int64 { return 10 }}}, Options{Settle: true})
	outer := middlewareOf(t, []Rule{{Name: "bytes", Limit: weir.MustParseLimit("100/h"), Cost: func(*http.Request) int64 { return 5 }}}, Options{Settle: true})
	get(outer(m(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c := ChargeOf(r.Context())
		if !c.Use("tokens", 6) || !c.Use("tokens", 3) || c.Use("tokens", 1) || c.Use("tokens", 1) {
			t.Error("Use does not end at 10")
		}
		if !c.Use("bytes", 4) || c.Use("bytes", 1<<62) || !c.Use("unknown", 1) {
			t.Error("Use of the middleware around does not end at 5")
		}
		if charged, used := c.Cost("bytes"); charged != 5 || used != weir.MaxCount {
			t.Error(charged, used)
		}
	}))))
	var none *Charge
	if charged, used := none.Cost("tokens"); !none.Use("tokens", 1) || charged != 0 || used != 0 || ChargeOf(t.Context()) != nil {
		t.Error("a request that nobody has charged has a charge")
	}
}

// TestSettleByRules: the same by a rule file, where a name stands for all limits of
// its descriptor.
func TestSettleByRules(t *testing.T) {
	set, err := rules.Parse("llm.yaml", []byte(`domain: llm
descriptors:
  - {key: user, name: requests, limits: [10/h]}
  - {key: tokens, name: tokens, limits: [1000/h, 5000/day]}
  - {key: rows, name: rows, limits: [500/h]}
`))
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(memstore.Options{})
	limiter := rules.NewLimiter(store, set)
	describe := func(*http.Request, []rules.Descriptor) []rules.Descriptor {
		return []rules.Descriptor{
			{Entries: []rules.Entry{{Key: "user", Value: "ann"}}, Cost: 1},
			{Entries: []rules.Entry{{Key: "tokens", Value: "ann"}}, Cost: 100},
			{Entries: []rules.Entry{{Key: "rows", Value: "ann"}}, Cost: 20}, // added up, for they have one count
			{Entries: []rules.Entry{{Key: "rows", Value: "ann"}}, Cost: 30},
		}
	}
	m, err := NewFromRules(limiter, "llm", describe, Options{Settle: true})
	if err != nil {
		t.Fatal(err)
	}
	get(m(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if c := ChargeOf(r.Context()); !c.Use("tokens", 99) || c.Use("tokens", 51) {
			t.Error("the charge is not 100")
		}
		if c := ChargeOf(r.Context()); !c.Use("rows", 40) {
			t.Error("the charge is not 50")
		}
	})))
	a, err := limiter.Check(t.Context(), &rules.Request{Domain: "llm", Descriptors: describe(nil, nil), Peek: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{9, 850, 4850, 460} {
		if got := a.Decisions[i].Remaining; got != want {
			t.Errorf("%s: %d left, want %d", a.Decisions[i].Rule.Name, got, want)
		}
	}
}

// TestAbortedStreams: a client that leaves in the middle of a stream pays for what
// it got, and not for what it might have got.
func TestAbortedStreams(t *testing.T) {
	store := memstore.New(memstore.Options{})
	m, err := New(store, []Rule{{
		Name: "tokens", Limit: weir.MustParseLimit("1000/day burst 1000"), Cost: func(*http.Request) int64 { return 500 },
	}}, Options{Settle: true})
	if err != nil {
		t.Fatal(err)
	}
	var used atomic.Int64
	s := httptest.NewServer(m(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := ChargeOf(r.Context())
		for range 3 {
			c.Use("tokens", 7)
			used.Add(7)
			_, _ = io.WriteString(w, "data: x\n\n")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	})))
	defer s.Close()
	for i := range int64(5) {
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(response.Body, make([]byte, 3*len("data: x\n\n"))); err != nil {
			t.Fatal(err)
		}
		if n := remaining(t, store, "tokens", "1000/day burst 1000"); n > 500 {
			t.Errorf("%d left while a stream may need 500", n)
		}
		leave()
		_ = response.Body.Close()
		eventually(t, "what was not used did not come back", func() bool {
			return remaining(t, store, "tokens", "1000/day burst 1000") == 1000-21*(i+1)
		})
	}
	if n := used.Load(); n != 105 {
		t.Error(n)
	}
}

// unsettled is a store that does not settle.
type unsettled struct{ *memstore.Store }

func (unsettled) Settle(context.Context, []weir.Settlement) error { return weir.ErrFull }

// TestUnsettled: what can't be settled stays charged, and that is said once.
func TestUnsettled(t *testing.T) {
	var log strings.Builder
	store := unsettled{memstore.New(memstore.Options{})}
	m, err := New(store, []Rule{{Name: "api", Limit: weir.MustParseLimit("5/h")}},
		Options{Counts: func(int) bool { return false }, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if w := get(m(ok)); w.Code != http.StatusOK {
			t.Error(w.Code)
		}
	}
	if n := strings.Count(log.String(), "could not be settled"); n != 1 || remaining(t, store, "api", "5/h") != 2 {
		t.Errorf("%d times, %d left: %s", n, remaining(t, store, "api", "5/h"), log.String())
	}
}
