package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// ReasonMemory is why a request is cut off: those that have come in part hold too much
// together, and it is one of the slowest.
const ReasonMemory = "memory"

// Budgeted bounds the memory of all bodies of requests to next that have come in part. To next, a
// body that is cut off ends early. A body in chunks is the last thing on its connection. asked is
// called when a request has begun, and when something was read of its body, with its context.
func Budgeted(next http.Handler, b *overload.Budget, asked func(context.Context)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked(r.Context())
		if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			// It may have had a Content-Length, too, of which net/http tells nothing. A proxy that
			// went by that reads the rest as another request (RFC 9112 §6.1).
			w.Header().Set("Connection", "close")
		}
		if r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		c := &counted{ReadCloser: r.Body, writer: w, budget: b, expected: r.ContentLength, asked: func() { asked(r.Context()) }}
		if r.ProtoMajor > 1 { // a connection has many of them
			c.begin()
		}
		r.Body = c
		defer c.end()
		next.ServeHTTP(w, r)
	})
}

// counted is a body that counts what was read of it, from when it has not come in one
// piece.
type counted struct {
	io.ReadCloser

	writer   http.ResponseWriter
	budget   *overload.Budget
	asked    func()
	held     *overload.Holding // nil: nothing is counted yet
	expected int64             // bytes; less than 0: nobody knows
	bytes    int64
}

// maxPart is how much of a body is read at once. A connection that sends listen.MaxTalk between two parts is taken for a
// flood, and a caller that has much room would have it send that.
const maxPart = 64 << 10

// Read reads what has come.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p[:min(len(p), maxPart)])
	c.bytes += int64(n)
	if n > 0 {
		c.asked()
	}
	switch {
	case errors.Is(err, io.EOF) || c.bytes == c.expected:
		return n, err
	case c.held == nil:
		c.begin()
	}
	c.hold()
	return n, err
}

func (c *counted) hold() { c.held.Hold(time.Now(), c.bytes+overload.Unfinished) }

func (c *counted) begin() {
	c.held = c.budget.Begin(time.Now(), func() {
		// A body that can't be cut off is one that a test made up.
		_ = http.NewResponseController(c.writer).SetReadDeadline(time.Unix(1, 0))
	})
	c.hold()
}

func (c *counted) end() {
	if c.held != nil {
		c.held.End()
	}
}
