//go:build !race

package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// nowhere is a client that does not look.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(int)             {}

// TestTraceAllocates: who does not trace pays nothing for those who do.
func TestTraceAllocates(t *testing.T) {
	measure := func(o Options) float64 {
		door := newDoor(t, "domain: d\ndescriptors: [{key: k, limits: [1000000000/s]}]", o)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/check", nil)
		body := strings.NewReader("")
		r.Body = http.NoBody
		r.ContentLength = -1
		w := &nowhere{http.Header{}}
		return testing.AllocsPerRun(200, func() {
			body.Reset(`{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`)
			r.Body = readCloser{body}
			clear(w.header)
			door.ServeHTTP(w, r)
		})
	}
	off := measure(Options{})
	on := measure(Options{Trace: func(r *http.Request, _ string) (*http.Request, func(int)) { return r, func(int) {} }})
	if off != on {
		t.Errorf("%v allocations without traces, %v with a hook that does nothing", off, on)
	}
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
