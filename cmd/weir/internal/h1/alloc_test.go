//go:build !race

package h1

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
)

// again is a connection on which the same comes again and again.
type again struct {
	net.Conn

	text []byte
}

func (a *again) Read(b []byte) (int, error)       { return copy(b, a.text), nil }
func (a *again) Write(b []byte) (int, error)      { return len(b), nil }
func (a *again) SetReadDeadline(time.Time) error  { return nil }
func (a *again) SetWriteDeadline(time.Time) error { return nil }
func (a *again) RemoteAddr() net.Addr             { return nil }

// quiet is a handler that allocates nothing itself.
func quiet(w http.ResponseWriter, r *http.Request) {
	n, _ := r.Body.Read(room[:]) // its end does not matter
	w.Header()["Cache-Control"] = noStore
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(room[:n]) // it is in memory
}

var (
	noStore = []string{"no-store"}
	room    [64]byte
)

func answering(h http.HandlerFunc, text string) *conn {
	s := New(&http.Server{Handler: h}, Options{Takes: httpapi.Small, Here: true})
	c := &conn{server: s, nc: &again{text: []byte(text)}}
	c.init(context.Background(), nil)
	return c
}

// turn reads, and answers what was read.
func (c *conn) turn() bool {
	ok := c.fill()
	last, doubt := c.answerAll()
	return ok && c.flush() && !last && !doubt
}

// TestAllocs: reading and answering allocate nothing beside what the handler does.
func TestAllocs(t *testing.T) {
	for name, text := range map[string]string{"check": check, "auth": auth, "pipeline": check + check + check + check} {
		c := answering(quiet, text)
		if n := testing.AllocsPerRun(1000, func() {
			if !c.turn() {
				t.Fatal("it ended")
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkRequest is what it costs to read and to answer, without the kernel and without a handler.
func BenchmarkRequest(b *testing.B) {
	c := answering(quiet, check)
	b.ReportAllocs()
	for b.Loop() {
		c.turn()
	}
}
