package h1

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// handover gives net/http the connections that are handed over to it.
type handover struct {
	conns   chan net.Conn
	done    chan struct{}
	closing sync.Once
}

func newHandover() *handover {
	return &handover{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Accept is that of net.Listener.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close is that of net.Listener.
func (h *handover) Close() error {
	h.closing.Do(func() { close(h.done) })
	return nil
}

// heir is the listener of net/http in the place of one that is at an address.
type heir struct {
	*handover

	at net.Addr
}

// Addr is that of net.Listener.
func (h heir) Addr() net.Addr { return h.at }

// give hands a connection over, or closes it if net/http has ended.
func (h *handover) give(c net.Conn) {
	select {
	case h.conns <- c:
	case <-h.done:
		_ = c.Close() // nobody answers it any more
	}
}

// handed is a connection of which something was read that nobody has answered.
type handed struct {
	net.Conn

	unread []byte
}

// Read is that of net.Conn.
func (h *handed) Read(b []byte) (int, error) {
	if len(h.unread) == 0 {
		return h.Conn.Read(b)
	}
	n := copy(b, h.unread)
	if h.unread = h.unread[n:]; len(h.unread) == 0 {
		h.unread = nil
	}
	return n, nil
}

// CloseWrite lets net/http end a connection of TLS as it does its own.
func (h *handed) CloseWrite() error {
	if c, ok := h.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

type tlsKey struct{}

// adopt has a server treat connections that are handed over as its own: net/http does not see TLS below.
func adopt(web *http.Server) {
	before, next := web.ConnContext, web.Handler
	web.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		h, ok := c.(*handed)
		if ok {
			c = h.Conn
		}
		if before != nil {
			ctx = before(ctx, c)
		}
		if safe, isTLS := c.(*tls.Conn); ok && isTLS {
			ctx = context.WithValue(ctx, tlsKey{}, new(safe.ConnectionState()))
		}
		return ctx
	}
	web.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if state, ok := r.Context().Value(tlsKey{}).(*tls.ConnectionState); ok {
			r.TLS = state
		}
		next.ServeHTTP(w, r)
	})
}
