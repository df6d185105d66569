package h2

import (
	"context"
	"crypto/tls"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// Reasons for which connections are closed, of Config.Refused.
const (
	ReasonSlow   = "slow"   // a request did not arrive in time
	ReasonUnread = "unread" // what answers it is not read
	ReasonFlood  = "flood"  // frames ask nothing
)

// Config is what a Server answers. All functions may be called at once by many.
type Config struct {
	// Fast says who answers requests with this head once their body is here, on the goroutine that reads the
	// connection; nil: Rest does. Its answer may be remembered for all requests with the same head.
	Fast func(*Head) func(*Call)
	// Rest answers all other requests, and those whose body is larger than MaxBody.
	Rest http.Handler
	// TLS is how connections are made safe. Nil: they are not.
	TLS *tls.Config
	// Gate says how many streams a connection may have. Nil: MaxStreams.
	Gate *overload.Gate
	// Budget is what requests may hold together that have not arrived as a whole.
	Budget *overload.Budget
	// MaxAge is for how long a connection takes new streams, or up to a tenth more: then the client is told to open
	// another one. Zero: for ever.
	MaxAge time.Duration
	// Connect is called for each connection; Call.Caller and Caller return what it says.
	Connect func(net.Conn) any
	// Refused is called for each connection that is closed because too much is asked, with the reason.
	Refused func(reason string)
	// HandshakeFailed is called after each handshake of TLS that failed.
	HandshakeFailed func()
	// Panicked is called after something has panicked.
	Panicked func(where string, p any)
}

// Server answers connections. It is made by NewServer.
type Server struct {
	config  Config
	running sync.WaitGroup

	mu        sync.Mutex
	conns     map[*conn]struct{}
	listeners []net.Listener
	leaving   bool
}

// NewServer is a server that answers as c says.
func NewServer(c Config) *Server { return &Server{config: c, conns: map[*conn]struct{}{}} }

// Serve answers connections of l until Shutdown. It closes l.
func (s *Server) Serve(l net.Listener) error {
	defer func() { _ = l.Close() }() // it may be closed already
	if !s.listens(l) {
		return net.ErrClosed
	}
	if err := listen.Each(l, s.leaves, func(error, time.Duration) {}, s.begin); err != nil {
		return err
	}
	return net.ErrClosed
}

func (s *Server) leaves() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaving
}

func (s *Server) listens(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		return false
	}
	s.listeners = append(s.listeners, l)
	return true
}

// begin has a connection answered on a goroutine of its own.
func (s *Server) begin(raw net.Conn) {
	c := &conn{server: s, raw: raw, nc: raw}
	if s.config.TLS != nil {
		c.nc = tls.Server(raw, s.config.TLS)
	}
	if s.config.Connect != nil {
		c.caller = s.config.Connect(raw)
	}
	c.init()
	c.ctx, c.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	if s.leaving {
		s.mu.Unlock()
		c.cancel()
		c.cut()
		return
	}
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	if s.config.MaxAge > 0 {
		s.running.Go(c.age)
	}
	s.running.Go(func() {
		c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
}

// Shutdown closes the listeners, and the connections when what was asked on them is answered. When ctx ends
// first, what is left gets no answer.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.leaving = true
	for _, l := range s.listeners {
		_ = l.Close() // Serve tells
	}
	for c := range s.conns {
		go c.leave()
	}
	s.mu.Unlock()
	return listen.Finish(ctx, &s.running, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			c.cut()
		}
	})
}

// leavePause is how long a client has at most to know that its connection ends.
const leavePause = 100 * time.Millisecond

// greetPause is the same for a connection that is being set up.
const greetPause = time.Second

// ageGrace is how long streams may go on whose connection is too old. It is for those of health services, which would
// never end.
const ageGrace = 10 * time.Second

// age has the connection end when it is too old.
func (c *conn) age() {
	most := c.server.config.MaxAge
	for i, wait := range [...]time.Duration{most + rand.N(most/10+1), ageGrace} {
		select {
		case <-c.ctx.Done():
			return
		case <-time.After(wait):
		}
		if i == 0 {
			c.leave()
		} else {
			c.cut()
		}
	}
}

// leave has the connection end when all is answered. A client may have sent calls before it knows that; they are
// answered, too: what comes after the answer to a ping is not.
func (c *conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving != staying || c.fault != nil {
		return
	}
	c.leaving = asked
	if c.greeted {
		c.askToLeave()
		c.flush()
	}
	pause := leavePause
	if !c.greeted {
		pause = greetPause
	}
	time.AfterFunc(pause, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.greeted {
			c.cut() // nothing was asked on it
			return
		}
		c.leaveNow()
		c.flush()
	})
}

// askToLeave tells the client that its connection ends. It must know the settings before. mu is held.
func (c *conn) askToLeave() {
	c.out = appendGoAway(c.out, math.MaxInt32, NoError, "")
	c.out = append(appendHead(c.out, 8, framePing, 0, 0), leaveMark...)
}

// leaveNow has the client know what is answered yet. mu is held.
func (c *conn) leaveNow() {
	if c.leaving == asked && c.fault == nil {
		c.goAway(NoError, "")
		c.leaving = last
	}
}

// goAway tells the client which stream is the last that may be answered. Later ones are refused, so it never becomes
// one of them (RFC 9113, 6.8).
func (c *conn) goAway(code Code, why string) {
	if c.leaving < last {
		c.final = c.highest
	}
	c.out = appendGoAway(c.out, c.final, code, why)
}

// mayClose has the connection end, if it takes leave and all is answered. mu is held.
func (c *conn) mayClose() {
	if c.leaving != last || c.open > 0 || len(c.out) > 0 {
		return
	}
	c.leaving = gone
	_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // its goroutine sees that it is to end; if that fails, so does reading
}
