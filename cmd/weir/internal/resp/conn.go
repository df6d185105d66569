package resp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/overload"
	"github.com/weir-limit/weir/rules"
)

// The names by which Options.Observe hears of bytes that are no command.
const (
	other    = "other"
	protocol = "protocol"
)

// conn is one connection.
type conn struct {
	writer // writes by drain

	server *Server
	net    net.Conn
	id     int64
	name   string
	from   string // what Options.Client says of its address

	stranger bool      // has not said the password yet
	since    time.Time // when it became one

	in     *bufio.Reader     // reads by fill
	inside bool              // a command has begun and not ended
	begun  time.Time         // when more of it had to be waited for; else zero
	held   *overload.Holding // what has come of it, when that is much; else nil
	gone   bool              // the client does not read any more

	room  []byte   // the words of the command, one after the other
	ends  []int    // of each word in room
	words [][]byte // the words themselves

	clock time.Time // when work on the command began
	last  bool      // it was the last one

	asks    [1]weir.Ask
	taken   [1]weir.Decision
	request rules.Request
}

// serve answers the commands of a connection and closes it. Whatever happens in
// it, the process lives on.
func (s *Server) serve(ctx context.Context, nc net.Conn) {
	c := s.conn(nc)
	c.from = s.options.Client(nc.RemoteAddr().String())
	defer func() {
		if p := recover(); p != nil {
			s.options.Log.Error("a call panicked", "listener", "resp", "panic", p, "stack", string(debug.Stack()))
			s.options.Panicked()
			c.fail("ERR this is a bug of the daemon; its log says more")
			_ = c.out.Flush() // the client may be gone
		}
		c.release()
		_ = nc.Close() // all that could be said was said
	}()
	if !s.safe(ctx, nc) {
		return
	}
	for !c.last && !c.gone {
		if err := c.read(); err != nil {
			c.end(err)
			break
		}
		if len(c.words) == 0 {
			continue
		}
		c.failed = false
		route := c.answer(ctx)
		c.observe(route)
	}
	_ = c.out.Flush() // the client may be gone
	if c.last && !c.gone {
		c.linger()
	}
}

// safe makes a connection of TLS safe, in time. Any other connection is as safe as it gets.
func (s *Server) safe(ctx context.Context, nc net.Conn) bool {
	c, ok := nc.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	err := c.HandshakeContext(ctx)
	if err != nil {
		s.options.HandshakeFailed()
	}
	return err == nil
}

func (s *Server) conn(nc net.Conn) *conn {
	c := &conn{server: s, net: nc, id: s.ids.Add(1), writer: writer{proto: 2}}
	c.estrange()
	c.in = bufio.NewReaderSize(filler{c}, readBuffer)
	c.out = bufio.NewWriterSize(drain{c}, writeBuffer)
	c.request.Descriptors = make([]rules.Descriptor, 1)
	return c
}

// estrange makes the client one who has not said the password, if there is one.
func (c *conn) estrange() { c.stranger, c.since = c.server.options.Password != nil, time.Now() }

func (c *conn) observe(route string) {
	now := time.Now()
	c.server.options.Observe(route, !c.failed, now.Sub(c.clock))
	c.clock = now
}

// end says why there is no next command, where there is somebody to hear it.
func (c *conn) end(err error) {
	bad, broken := errors.AsType[*protocolError](err)
	late := errors.Is(err, os.ErrDeadlineExceeded)
	switch {
	case c.gone, late && c.server.conns.Leaving():
		return
	case late && c.stranger:
		c.server.options.Reached(BoundStranger)
		return
	case late && !c.inside:
		c.server.options.Reached(BoundIdle)
		return
	case late:
		bad = &protocolError{"the command did not end within " + slow.String(), BoundSlow}
	case !broken: // the client is gone
		return
	}
	c.fail("ERR Protocol error: " + bad.text)
	if bad.bound != "" {
		c.server.options.Reached(bad.bound)
	}
	c.observe(protocol)
	c.last = true
	c.room, c.words = nil, nil // it is given back before the client has read why
}

// linger lets the client read the last answer.
func (c *conn) linger() {
	if c.server.conns.ReadUntil(c.net, time.Now().Add(linger)) == nil {
		_, _ = io.CopyN(io.Discard, c.net, maxLinger) // until the client goes, or the time is over
	}
}

// filler fills the buffer of a connection. Answers go out before the connection waits for more, so
// that a pipeline is answered at once.
type filler struct{ *conn }

// Read reads what has come.
func (c filler) Read(p []byte) (int, error) {
	if err := c.out.Flush(); err != nil {
		return 0, err
	}
	now := time.Now()
	until := now.Add(idle)
	if c.inside {
		if c.begun.IsZero() {
			c.begun = now
		}
		until = c.begun.Add(slow)
	}
	if end := c.since.Add(stranger); c.stranger && end.Before(until) {
		until = end
	}
	if err := c.server.conns.ReadUntil(c.net, until); err != nil {
		return 0, err
	}
	c.hold(now)
	// Asked after the deadline was set: the budget does both the other way round.
	if c.held != nil && c.held.Gone() {
		return 0, errHeld
	}
	n, err := c.net.Read(p)
	c.clock = time.Now()
	if err != nil && c.held != nil && c.held.Gone() {
		return n, errHeld
	}
	return n, err
}

// errHeld is for a command that was cut off because of the budget.
var errHeld = &protocolError{"commands that have not ended are too large together, and this one is slow; send it again", BoundMemory}

// hold counts the memory of a command that has come in part. It does not count the buffer that a
// connection always has.
func (c *conn) hold(now time.Time) {
	if !c.inside || cap(c.room) <= keptBuffer {
		return
	}
	if c.held == nil {
		c.held = c.server.options.Budget.Begin(c.begun, func() {
			_ = c.net.SetReadDeadline(time.Unix(1, 0)) // one that fails is closed already
		})
	}
	c.held.Hold(now, int64(cap(c.room)))
}

// release ends what hold counts.
func (c *conn) release() {
	if c.held != nil {
		c.held.End()
		c.held = nil
	}
}

// drain empties the buffer of a connection, if the client reads.
type drain struct{ *conn }

// Write writes all of p in time, or nothing more at all.
func (c drain) Write(p []byte) (int, error) {
	if err := c.net.SetWriteDeadline(time.Now().Add(stuck)); err != nil {
		return 0, err
	}
	n, err := c.net.Write(p)
	c.gone = err != nil
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.server.options.Reached(BoundStuck)
	}
	return n, err
}
