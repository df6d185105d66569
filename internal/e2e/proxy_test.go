package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
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
				a.field("RateLimit") != `"exports";r=0;t=720` || a.field("RateLimit-Policy") != `"exports";q=5;w=3600` || len(a.field("Weir-Denial")) != 16):
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
	// Who writes what weir refuses does not get around it.
	if a := c.ask(http.MethodGet, url+"/export/all", "", "X-Api-Key", strings.Repeat("x", 5000)); a.status < 400 {
		t.Errorf("a key of 5000 bytes: %v", a)
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
