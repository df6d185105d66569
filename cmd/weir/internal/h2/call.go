package h2

import (
	"bytes"
	"context"
	"slices"
	"time"
)

// Answer is what answers a call.
type Answer struct {
	Status   int     // of HTTP
	Head     []Field // beside the status
	Body     []byte
	Trailers []Field // behind the body; nil: none
}

// Call is a request whose body is here. It is answered once, by Answer: before the function returns that
// was called for it, or later, if it has called Later.
type Call struct {
	Head    *Head
	Body    []byte
	Arrived time.Time

	conn   *conn
	stream *stream
	here   bool // on the connection's goroutine
}

// Caller is what Config.Connect said of the connection.
func (c *Call) Caller() any { return c.conn.caller }

// Context ends with the connection, and after Later with the stream.
func (c *Call) Context() context.Context { return c.conn.ctx }

// Later has another goroutine answer: what the call has is copied, and may be used until it is answered. The
// context ends when the client gives up.
func (c *Call) Later() (later *Call, ctx context.Context) {
	s, conn := c.stream, c.conn
	s.later = true
	if conn.current == s {
		conn.park()
	}
	ctx, s.stop = context.WithCancel(conn.ctx)
	return &Call{Head: s.head, Body: bytes.Clone(c.Body), Arrived: c.Arrived, conn: conn, stream: s}, ctx
}

// Answer answers the call. It keeps nothing of a.
func (c *Call) Answer(a *Answer) {
	if c.here {
		c.conn.send(c.stream, a)
		return
	}
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	c.conn.send(c.stream, a)
	c.conn.flush()
}

// send answers a stream. mu is held.
func (c *conn) send(s *stream, a *Answer) {
	if s.lost || s.done {
		return
	}
	ends := len(a.Body) == 0 && a.Trailers == nil
	c.fields(s, a.Status, a.Head, ends)
	if ends {
		c.finish(s)
		return
	}
	s.pending, s.trailers, s.ending = a.Body, a.Trailers, true
	if !c.push(s) {
		s.pending = bytes.Clone(s.pending) // it is the caller's
		c.holdBack(s)
	}
}

// fields appends a header block: with a status that of an answer's head, else trailers.
func (c *conn) fields(s *stream, status int, all []Field, ends bool) {
	at := len(c.out)
	flags := byte(0)
	if ends {
		flags = flagEndStream
	}
	c.out = c.encoder.begin(appendHead(c.out, 0, frameHeaders, flags, s.id))
	if status != 0 {
		c.out = c.encoder.status(c.out, status)
	}
	for _, f := range all {
		c.out = c.encoder.field(c.out, f, s.rest == nil)
	}
	size := len(c.out) - at - frameHead
	for size > largest { // the rest goes on in a frame of its own
		c.out[at], c.out[at+1], c.out[at+2] = 0, 0, 0
		appendHead(c.out[:at], largest, c.out[at+3], c.out[at+4], s.id)
		at += frameHead + largest
		size -= largest
		c.out = slices.Insert(c.out, at, appendHead(nil, 0, frameContinuation, 0, s.id)...)
	}
	c.out[at], c.out[at+1], c.out[at+2] = byte(size>>16), byte(size>>8), byte(size)
	c.out[at+4] |= flagEndHeaders
}

// finish ends a stream that is answered. A request that has not arrived as a whole need not (RFC 9113, 8.1).
func (c *conn) finish(s *stream) {
	s.done = true
	c.waste.answered()
	if !s.ended {
		c.sendReset(s.id, NoError)
	}
	c.remove(s)
}
