package h2

import (
	"context"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
)

// rest is a request that an http.Handler answers, on a goroutine of its own.
type rest struct {
	conn   *conn
	stream *stream
	// changed is that there is more of the body, less to be sent, or that the stream is over. It is the stream's own:
	// to wake all of a connection for each would cost far more than the bytes.
	changed sync.Cond
	body    []byte // that has come; guarded by conn.mu, as are
	taken   int    // what was read of it
	credit  int    // and since the client was told of more
	closed  bool   // nobody reads it any more

	header  http.Header
	status  int // that was sent; 0: none was
	written []byte
	sent    bool // the head was
}

// held back is how much of an answer is written together.
const heldBack = 4 << 10

// toRest has the rest of the server answer a stream. s.body is the part of its body that has come.
func (c *conn) toRest(s *stream, end bool) {
	u, err := url.ParseRequestURI(string(s.head.Path()))
	if err != nil || string(s.head.Method()) == http.MethodConnect {
		if end {
			c.endOf(s)
		}
		c.send(s, &Answer{Status: http.StatusBadRequest})
		return
	}
	c.park()
	r := &rest{conn: c, stream: s, header: http.Header{}, body: s.body}
	r.changed.L = &c.mu
	s.rest, s.body = r, nil
	ctx, cancel := context.WithCancel(c.ctx)
	s.stop = cancel
	q := &http.Request{
		Method: string(s.head.Method()), URL: u, Proto: "HTTP/2.0", ProtoMajor: 2, Header: http.Header{},
		Host: string(s.head.value(s.head.authority)), ContentLength: s.head.length,
		RemoteAddr: c.nc.RemoteAddr().String(), RequestURI: string(s.head.Path()), TLS: c.state, Body: r,
	}
	for i := range s.head.Len() {
		if name, value := s.head.At(i); name[0] != ':' {
			q.Header.Add(string(name), string(value))
		}
	}
	if q.Host == "" {
		q.Host = q.Header.Get("Host")
	}
	if end {
		c.endOf(s)
		q.ContentLength = int64(len(r.body))
	}
	ctx = context.WithValue(context.WithValue(ctx, callerKey{}, c.caller), headKey{}, s.head)
	q = q.WithContext(ctx)
	c.server.running.Go(func() { r.serve(q) })
}

type callerKey struct{}

// Caller is what Config.Connect said of the connection that a request of Config.Rest came on.
func Caller(ctx context.Context) any { return ctx.Value(callerKey{}) }

// serve answers the request.
func (r *rest) serve(q *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				r.conn.server.config.Panicked("a request", p)
			}
			r.conn.mu.Lock()
			defer r.conn.mu.Unlock()
			if !r.stream.lost {
				r.conn.resetStream(r.stream, InternalError)
				r.conn.flush()
			}
		}
	}()
	r.conn.server.config.Rest.ServeHTTP(r, q)
	r.end()
}

// feed is a part of the request's body.
func (c *conn) feed(s *stream, data []byte, end bool) {
	r := s.rest
	if r.taken > len(r.body)/2 {
		r.body = r.body[:copy(r.body, r.body[r.taken:])]
		r.taken = 0
	}
	r.body = append(r.body, data...)
	if end {
		c.endOf(s)
	}
	r.changed.Broadcast()
}

// Read reads the request's body.
func (r *rest) Read(p []byte) (int, error) {
	c := r.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(r.body) == r.taken && !r.stream.ended && !r.stream.lost && !r.closed {
		r.changed.Wait()
	}
	switch {
	case len(r.body) == r.taken && r.stream.ended:
		return 0, io.EOF
	case r.stream.lost, r.closed:
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, r.body[r.taken:])
	r.taken += n
	if r.credit += n; r.credit >= streamWindow/2 && !r.stream.ended {
		c.out = appendWindow(c.out, r.stream.id, r.credit)
		r.stream.room += int64(r.credit)
		r.credit = 0
		c.flush()
	}
	return n, nil
}

// Close ends reading, also a Read that waits.
func (r *rest) Close() error {
	r.conn.mu.Lock()
	defer r.conn.mu.Unlock()
	r.closed = true
	r.changed.Broadcast()
	return nil
}

// Header is that of the answer.
func (r *rest) Header() http.Header { return r.header }

// WriteHeader says how the request was answered.
func (r *rest) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
}

// Write writes the answer. Flush sends it.
func (r *rest) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	r.written = append(r.written, p...)
	if len(r.written) < heldBack {
		return len(p), nil
	}
	return len(p), r.FlushError()
}

// Flush sends what was written.
func (r *rest) Flush() { _ = r.FlushError() }

// FlushError sends what was written, and waits until it may be sent. It fails when nobody waits for it any more.
func (r *rest) FlushError() error {
	r.WriteHeader(http.StatusOK)
	c, s := r.conn, r.stream
	c.mu.Lock()
	defer c.mu.Unlock()
	r.sendHead(false)
	if len(r.written) > 0 && !s.lost {
		s.pending = r.written
		if !c.push(s) {
			c.holdBack(s)
		}
	}
	c.flush()
	for len(s.pending) > 0 && !s.lost {
		r.changed.Wait()
	}
	r.written = nil
	if s.lost {
		return io.ErrClosedPipe
	}
	return nil
}

// end ends the answer.
func (r *rest) end() {
	r.WriteHeader(http.StatusOK)
	if len(r.written) > 0 && r.FlushError() != nil {
		return
	}
	c, s := r.conn, r.stream
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.lost {
		return
	}
	trailers := r.trailers()
	switch {
	case !r.sent && len(trailers) == 0:
		r.sendHead(true)
		c.finish(s)
	default:
		r.sendHead(false)
		s.trailers, s.ending = trailers, true
		c.push(s)
	}
	c.flush()
}

// sendHead sends the answer's head, once.
func (r *rest) sendHead(ends bool) {
	if r.sent || r.stream.lost {
		return
	}
	r.sent = true
	if s := r.stream; s.arriving() {
		s.both = true
		r.conn.partial--
		if s.held != nil {
			s.held.End()
			s.held = nil
		}
	}
	var head []Field
	for name, values := range r.header {
		if name == "Trailer" || strings.HasPrefix(name, http.TrailerPrefix) || r.declared(name) {
			continue
		}
		for _, v := range values {
			head = append(head, Field{strings.ToLower(name), v})
		}
	}
	r.conn.fields(r.stream, r.status, head, ends)
}

// declared is whether the field is one that the handler has called a trailer.
func (r *rest) declared(name string) bool {
	for _, v := range r.header["Trailer"] {
		for one := range strings.SplitSeq(v, ",") {
			if textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(one)) == name {
				return true
			}
		}
	}
	return false
}

// trailers are the fields behind the answer's body.
func (r *rest) trailers() (all []Field) {
	for name, values := range r.header {
		own, prefixed := strings.CutPrefix(name, http.TrailerPrefix)
		if !prefixed && !r.declared(name) {
			continue
		}
		for _, v := range values {
			all = append(all, Field{strings.ToLower(own), v})
		}
	}
	return all
}

type headKey struct{}

// HeadOf is the head of a request of Config.Rest, as it came; nil: it did not come here.
func HeadOf(r *http.Request) *Head {
	h, _ := r.Context().Value(headKey{}).(*Head) // nil where there is none
	return h
}
