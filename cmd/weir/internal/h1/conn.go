package h1

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"time"
)

const (
	// patience is how long the rest of a request may take to come. Then net/http waits for it.
	patience = 250 * time.Millisecond
	// mostAnswers is how large answers are together when they are written before all requests of one read are
	// answered.
	mostAnswers = 32 << 10
	// keptAnswers is how much memory of them a connection keeps.
	keptAnswers = 8 << 10
)

// conn is one connection.
type conn struct {
	server *Server
	nc     net.Conn

	in       []byte // of MaxRequest bytes
	from, to int    // what of it was read and is not answered
	begun    time.Time
	served   bool // it has asked something

	question question
	ask      http.Request // what each request is before anything is read of it
	request  http.Request
	body     body
	answer   answer
	out      []byte
}

// serve answers the requests of a connection, and closes it or hands it over. Whatever happens in it, the process
// lives on.
func (s *Server) serve(nc net.Conn) {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), http.ServerContextKey, s.web))
	defer cancel()
	c := &conn{server: s, nc: nc}
	over := false
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			s.web.ErrorLog.Printf("http: panic serving %v: %v\n%s", nc.RemoteAddr(), p, debug.Stack())
			c.flush() // the answers before it
		}
		if !over {
			_ = nc.Close() // all that could be said was said
		}
	}()
	state, ok := s.safe(ctx, nc)
	if !ok {
		return
	}
	if state != nil && state.NegotiatedProtocol == "h2" {
		over = true
		s.rest.give(nc)
		return
	}
	c.init(s.begin(context.WithValue(ctx, http.LocalAddrContextKey, nc.LocalAddr()), nc), state)
	if over = c.run(); over {
		c.handOver()
	}
}

func (c *conn) init(ctx context.Context, state *tls.ConnectionState) {
	c.in = make([]byte, MaxRequest)
	c.answer.header = make(http.Header, 8)
	c.ask = *(&http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, TLS: state}).WithContext(ctx)
	if at := c.nc.RemoteAddr(); at != nil {
		c.ask.RemoteAddr = at.String()
	}
}

// run answers requests until the connection ends, or is to be handed over.
func (c *conn) run() (over bool) {
	for {
		last, doubt := c.answerAll()
		if !c.flush() || last {
			return false
		}
		if doubt {
			return true
		}
		if !c.fill() {
			return c.from < c.to
		}
	}
}

// answerAll answers the requests that are there as a whole.
func (c *conn) answerAll() (last, doubt bool) {
	for c.from < c.to {
		size, is := c.question.read(c.in[c.from:c.to], c.server.options.Takes)
		if is != whole {
			return false, is == doubtful
		}
		c.begun, c.served = time.Time{}, true
		last = c.answerOne()
		c.from += size
		if last {
			return true, false
		}
		if (!c.server.options.Here || len(c.out) > mostAnswers) && !c.flush() {
			return true, false
		}
	}
	return false, false
}

// answerOne appends the answer to a request, and says whether it is the last one.
func (c *conn) answerOne() (last bool) {
	q, r := &c.question, &c.request
	*r = c.ask
	r.Method, r.URL, r.RequestURI = q.method, &q.url, q.target
	r.Header, r.Host = q.fields.header, q.fields.host
	r.Body = http.NoBody
	if q.method == http.MethodPost {
		c.body.rest = q.body
		r.Body, r.ContentLength = &c.body, int64(len(q.body))
	}
	c.answer.reset()
	c.server.handler.ServeHTTP(&c.answer, r)
	last = c.answer.last() || c.server.conns.Leaving()
	c.out = c.answer.append(c.out, q.method, last, c.server.date(time.Now()))
	return last
}

// body is the body of a request.
type body struct{ rest []byte }

// Read is that of io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// Close is that of io.Closer.
func (b *body) Close() error { return nil }

// flush writes the answers.
func (c *conn) flush() bool {
	if len(c.out) == 0 {
		return true
	}
	if c.nc.SetWriteDeadline(time.Now().Add(c.server.web.WriteTimeout)) != nil {
		return false
	}
	_, err := c.nc.Write(c.out)
	if c.out = c.out[:0]; cap(c.out) > keptAnswers {
		c.out = nil
	}
	return err == nil
}

// fill waits for more bytes.
func (c *conn) fill() bool {
	c.to = copy(c.in, c.in[c.from:c.to])
	c.from = 0
	now := time.Now()
	until := now.Add(c.server.web.IdleTimeout)
	switch {
	case c.to > 0:
		if c.begun.IsZero() {
			c.begun = now
		}
		until = c.begun.Add(patience)
	case !c.served:
		until = now.Add(c.server.web.ReadHeaderTimeout)
	}
	if c.server.conns.ReadUntil(c.nc, until) != nil {
		return false
	}
	n, err := c.nc.Read(c.in[c.to:])
	c.to += n
	return n > 0 || err == nil
}

// handOver gives the connection to net/http, with what is not answered.
func (c *conn) handOver() {
	c.server.options.HandedOver()
	_ = c.nc.SetDeadline(time.Time{}) // one that fails is closed already, and net/http sees that
	c.server.rest.give(&handed{Conn: c.nc, unread: append([]byte(nil), c.in[c.from:c.to]...)})
}
