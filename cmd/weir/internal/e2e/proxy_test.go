package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// backend is what a proxy protects. It says back what it was sent, and hangs up
// at /broken.
type backend struct {
	address string
	calls   atomic.Int64
	doubled atomic.Int64 // calls with more than one X-Api-Key
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	b := new(backend)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.calls.Add(1)
		if len(r.Header.Values("X-Api-Key")) > 1 {
			b.doubled.Add(1)
		}
		switch r.URL.Path {
		case "/broken", "/export/broken":
			panic(http.ErrAbortHandler)
		case "/forbidden":
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" ")
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(s.Close)
	b.address = s.Listener.Addr().String()
	return b
}

// client asks a proxy over connections of its own.
type client struct {
	t *testing.T
	http.Client
}

func newClient(t *testing.T) *client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // of a certificate that a test made
	t.Cleanup(transport.CloseIdleConnections)
	return &client{t, http.Client{Transport: transport}}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (c *client) ask(method, url, body string, fields ...string) answer {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return answer{}
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
		if fields[i] == "Host" {
			r.Host = fields[i+1]
		}
	}
	response, err := c.Do(r)
	if err != nil {
		c.t.Error(err)
		return answer{}
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Error(err)
	}
	return answer{response.StatusCode, response.Header, string(b)}
}

// fields of an answer are looked up by how weir spells them: proxies may not.
func (a answer) field(name string) string { return a.header.Get(name) }

// throttles is what all recipes do, proxy by proxy: requests by address, exports
// by key, and what weir says reaches the client.
func throttles(t *testing.T, url string, b *backend) {
	t.Helper()
	c := newClient(t)
	if a := c.ask(http.MethodPost, url+"/x?a=b", "body"); a.status != http.StatusOK || a.body != "POST /x body" ||
		!strings.HasPrefix(a.field("RateLimit"), `"per-address";r=`) || a.field("RateLimit-Policy") != `"per-address";q=40;w=2` || a.field("Retry-After") != "" {
		t.Errorf("by address: %v", a)
	}
	if a := c.ask(http.MethodGet, url+"/forbidden", ""); a.status != http.StatusForbidden || a.body != "GET /forbidden " {
		t.Errorf("the backend's own 403: %v", a)
	}

	for _, key := range []string{"ann", "bob&cost=0", ""} {
		before := b.calls.Load()
		for i := range 7 {
			a := c.ask(http.MethodPost, url+"/export/all", "body", "X-Api-Key", key)
			switch {
			case i < 5 && (a.status != http.StatusOK || a.body != "POST /export/all body"):
				t.Errorf("export %d by %q: %v", i, key, a)
			case i >= 5 && (a.status != http.StatusTooManyRequests || a.field("Retry-After") != "720" ||
				!strings.HasPrefix(a.field("RateLimit"), `"exports";r=0;t=720, "exports-per-address";r=`) ||
				a.field("RateLimit-Policy") != `"exports";q=5;w=3600, "exports-per-address";q=60;w=3600` || len(a.field("Weir-Denial")) != 16):
				t.Errorf("export %d by %q: %v", i, key, a)
			}
		}
		if n := b.calls.Load() - before; n != 5 {
			t.Errorf("the backend was called %d times by %q", n, key)
		}
	}
	// Who is counted by one key must not get in by another.
	for i := range 3 {
		c.ask(http.MethodGet, url+"/export/all", "", "X-Api-Key", "real", "X-Api-Key", fmt.Sprint("made up ", i))
		c.ask(http.MethodGet, url+"/export/all", "", "X-Api-Key", fmt.Sprint("made up ", i), "X-Api-Key", "real")
	}
	if n := b.doubled.Load(); n > 0 {
		t.Errorf("the backend was called %d times with two keys", n)
	}
	crowd(t, url)
	readAsBackendsDo(t, url, b)
	refused(t, url, b)
	madeUp(t, url)
}

// readAsBackendsDo writes the path of a key that is used up in ways that backends
// read as the same.
func readAsBackendsDo(t *testing.T, url string, b *backend) {
	t.Helper()
	c, before := newClient(t), b.calls.Load()
	for _, path := range []string{
		"/%65xport/x", "/%65%78%70%6f%72%74/x", "/export%2fx", "/export%2Fx", "//export/x", "///export//x", "/y/../export/x", "/./export/x",
		"/y/%2e%2e/export/x", "/export/./x", "/%2e/export/x",
	} {
		if a := c.ask(http.MethodGet, url+path, "", "X-Api-Key", "ann"); a.status != http.StatusTooManyRequests {
			t.Errorf("%s by a key that is used up: %v", path, a)
		}
	}
	for _, path := range []string{"/y%2f..%2fexport/x", "/y%2f%2e%2e/export/x", "/%2fexport/x"} { // they are read in several ways
		if a := c.ask(http.MethodGet, url+path, "", "X-Api-Key", "ann"); a.status != http.StatusTooManyRequests && a.status != http.StatusBadRequest {
			t.Errorf("%s by a key that is used up: %v", path, a)
		}
	}
	if n := b.calls.Load() - before; n > 0 {
		t.Errorf("the backend was called %d times", n)
	}
}

// refused writes what weir refuses: that gets nobody around it, and is the fault
// of who wrote it.
func refused(t *testing.T, url string, b *backend) {
	t.Helper()
	before := b.calls.Load()
	for name, key := range map[string]string{"5000 bytes": strings.Repeat("x", 5000), "a control byte": "ann\x01", "two": "\x7f\x01"} {
		if status := raw(t, connect(t, url), "GET /export/all HTTP/1.1\r\nHost: edge\r\nConnection: close\r\nX-Api-Key: "+key+"\r\n\r\n"); status != http.StatusBadRequest {
			t.Errorf("a key of %s: status %d", name, status)
		}
	}
	if n := b.calls.Load() - before; n > 0 {
		t.Errorf("the backend was called %d times", n)
	}
}

// raw sends what no client of Go would, and reads the status.
func raw(t *testing.T, conn net.Conn, request string) int {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Error(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Error(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("no answer: %v", err)
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// connect is a connection to a proxy that ends with the test.
func connect(t *testing.T, url string) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// madeUp sends a new key each time: the address holds who makes them up.
func madeUp(t *testing.T, url string) {
	t.Helper()
	c, passed := newClient(t), 0
	for i := range 70 {
		if a := c.ask(http.MethodGet, url+"/export/all", "", "X-Api-Key", fmt.Sprint("random ", i)); a.status == http.StatusOK {
			passed++
		}
	}
	if passed > 60 {
		t.Errorf("%d of 70 passed, each by a key of its own", passed)
	}
}

// crowd sends what goes beyond a limit all at once.
func crowd(t *testing.T, url string) {
	t.Helper()
	c := newClient(t)
	var passed, denied atomic.Int64
	var g sync.WaitGroup
	for range 60 {
		g.Go(func() {
			switch a := c.ask(http.MethodGet, url+"/export/all", "", "X-Api-Key", "crowd"); a.status {
			case http.StatusOK:
				passed.Add(1)
			case http.StatusTooManyRequests:
				denied.Add(1)
			}
		})
	}
	g.Wait()
	if passed.Load() != 5 || denied.Load() != 55 {
		t.Errorf("of 60 at once %d passed, and %d were denied", passed.Load(), denied.Load())
	}
}

// open is what a recipe that fails open does when nobody answers.
func open(t *testing.T, url string, b *backend) {
	t.Helper()
	before := b.calls.Load()
	c := newClient(t)
	for range 7 {
		if a := c.ask(http.MethodPost, url+"/export/all", "body"); a.status != http.StatusOK || a.body != "POST /export/all body" || a.field("RateLimit") != "" {
			t.Errorf("without weir: %v", a)
		}
	}
	if n := b.calls.Load() - before; n != 7 {
		t.Errorf("the backend was called %d times", n)
	}
}

// closed is what a recipe that fails closed does.
func closed(t *testing.T, url string, b *backend, status int) {
	t.Helper()
	before := b.calls.Load()
	if a := newClient(t).ask(http.MethodGet, url+"/x", ""); a.status != status || b.calls.Load() != before {
		t.Errorf("without weir, status %d, %d calls", a.status, b.calls.Load()-before)
	}
}
