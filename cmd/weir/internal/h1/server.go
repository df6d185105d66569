package h1

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/listen"
)

// Options of a Server.
type Options struct {
	// Takes says which requests are in the subset. It may be called at once by many.
	Takes func(method, path string) bool
	// Here is that the handler never waits: then one write answers all requests that one read has brought. Else
	// each answer is written before the next request is looked at.
	Here bool
	// HandedOver is called for each connection that is handed over to net/http.
	HandedOver func()
}

// Server answers connections by the handler of an http.Server, with its bounds. It is made by New.
type Server struct {
	options Options
	web     *http.Server
	handler http.Handler // of web, as it was
	begin   func(context.Context, net.Conn) context.Context
	rest    *handover
	conns   listen.Conns
	second  atomic.Pointer[second] // of the last answer
}

// New makes a server before web, which answers all that is handed over. web must not be used in another way.
func New(web *http.Server, o Options) *Server {
	if o.HandedOver == nil {
		o.HandedOver = func() {}
	}
	s := &Server{
		options: o, web: web, handler: web.Handler, begin: web.ConnContext,
		rest: newHandover(),
	}
	if s.begin == nil {
		s.begin = func(ctx context.Context, _ net.Conn) context.Context { return ctx }
	}
	adopt(web)
	return s
}

// Serve answers connections of l until Stop. It closes l.
func (s *Server) Serve(l net.Listener) error {
	ended := make(chan error, 1)
	go func() { ended <- s.web.Serve(heir{s.rest, l.Addr()}) }()
	retried := func(err error, wait time.Duration) {
		s.web.ErrorLog.Printf("http: Accept error: %v; retrying in %v", err, wait)
	}
	if err := s.conns.Each(l, retried, s.serve); err != nil {
		_ = s.rest.Close() // it never fails
		return err
	}
	return <-ended
}

// Stop closes the listeners, answers what was sent until then, and closes the connections. When ctx ends first, those
// that are left get no answer.
func (s *Server) Stop(ctx context.Context) error {
	err := s.conns.Stop(ctx)
	if stopped := listen.Stop(ctx, s.web); err == nil { // no other is handed over
		err = stopped
	}
	return err
}

// toldPlain is how long a client may take to read that it has not spoken TLS.
const toldPlain = 100 * time.Millisecond

// safe makes a connection of TLS safe, in time, as net/http does. Any other connection is as safe as it gets.
func (s *Server) safe(ctx context.Context, nc net.Conn) (state *tls.ConnectionState, ok bool) {
	c, ok := nc.(*tls.Conn)
	if !ok {
		return nil, true
	}
	ctx, cancel := context.WithTimeout(ctx, s.web.ReadHeaderTimeout)
	defer cancel()
	err := c.HandshakeContext(ctx)
	if err == nil {
		return new(c.ConnectionState()), true
	}
	why := err.Error()
	if re, is := err.(tls.RecordHeaderError); is && re.Conn != nil && speaksHTTP(re.RecordHeader) { //nolint:errorlint // as net/http
		_ = re.Conn.SetWriteDeadline(time.Now().Add(toldPlain)) // a client that does not read it has asked for nothing
		_, _ = re.Conn.Write([]byte("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"))
		why = "client sent an HTTP request to an HTTPS server"
	}
	s.web.ErrorLog.Printf("http: TLS handshake error from %s: %s", nc.RemoteAddr(), why)
	return nil, false
}

// speaksHTTP is whether bytes in the place of a record of TLS begin a request of HTTP.
func speaksHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}
