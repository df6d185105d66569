// Package h2 is the server's side of HTTP/2 (RFC 9113, 7541) for connections that live long and carry
// many small calls. It knows nothing of what they ask.
//
// All work of a call is done on the goroutine that reads its connection: frames are read where they
// stand in the buffer, and what answers them is written once for each read. A call that must wait is handed
// over (Call.Later), and requests that are no such calls are answered by an http.Handler on the same
// connection.
//
// conn.go reads and writes, frame.go and head.go, hpack.go and huffman.go tell what frames and header blocks
// mean, stream.go and window.go follow streams, call.go and rest.go are the two ways to answer, waste.go bounds
// what a client may waste, and server.go has all connections begin and end.
package h2

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// The bounds of a connection.
const (
	// MaxBody is how large the body of a call may be that is answered on the connection's goroutine.
	MaxBody = 64 << 10
	// MaxStreams is how many streams a connection may have open, as it tells its client. Until the client
	// has said that it knows, it may have mostUntold.
	MaxStreams = 256
	mostUntold = 16 * MaxStreams
	// buffer is how much is read at a time. It holds a whole frame, and more.
	buffer = 32 << 10
	// streamWindow and connWindow are how much a client may send that nobody has read.
	streamWindow = 128 << 10
	connWindow   = 1 << 20
	// mostUnread is how much may wait to be written before no more is read.
	mostUnread = 128 << 10
	// mostBlock and mostPieces bound a header block and the frames it comes in, before it is decoded.
	mostBlock  = 16 << 10
	mostPieces = 8
)

// How long things may take.
const (
	// handshake is how long a connection may take to be set up.
	handshake = 10 * time.Second
	// inTime is how long a request may take to arrive.
	inTime = 10 * time.Second
	// unread is how long a client may take to read what was written, and to open a window for what waits.
	unread = 15 * time.Second
	// idle is how long a connection may be without calls; after silent, a ping finds those whose client is
	// gone: it is answered within pong.
	idle   = 15 * time.Minute
	silent = 2 * time.Minute
	pong   = 20 * time.Second
	// farewell is how long a client may take to read why its connection ends.
	farewell = 100 * time.Millisecond
)

// conn is a connection. Its fields down to mu are the reading goroutine's, which holds mu, too, while it goes
// through what it has read.
type conn struct {
	server *Server
	raw    net.Conn // below TLS: to close it never waits
	nc     net.Conn
	state  *tls.ConnectionState // nil: there is no TLS
	caller any                  // what Config.Connect said
	ctx    context.Context
	cancel context.CancelFunc
	seat   overload.Seat

	begun      time.Time // when it did
	buffer     []byte
	read       []byte    // what was read and not looked at
	now        time.Time // of the last read
	heard      time.Time // when something came last
	called     time.Time // when a call began last
	pinged     time.Time // when it was asked whether it lives; zero: it is not
	due        time.Time // the deadline of reading; zero: it is over
	decoder    decoder
	scratch    Head // of the block that was decoded last
	memos      [4]memo
	nextMemo   int
	block      []byte // of a header block that is not complete
	blockOf    frame
	pieces     int       // of it
	blockBegun time.Time // when it did
	growing    []*stream // those of which something came, except current; some are over
	settled    bool      // the client's first settings have come
	knows      bool      // the client has said that it knows ours
	told       int       // how many streams the client was told it may have
	receives   int64
	taken      int // what has come since the client was told of more
	wholeLast  time.Time

	mu        sync.Mutex
	greeted   bool      // the client was told our settings
	changed   sync.Cond // something was written
	out       []byte    // to be written
	spare     []byte
	writing   bool
	writeBy   time.Time
	broken    bool // it can't be written to
	encoder   encoder
	current   *stream // the one that began last, unless it is among streams
	streams   map[uint32]*stream
	unused    []*stream
	open      int
	partial   int // of them, those whose request has not arrived as a whole
	highest   uint32
	final     uint32     // the last stream that is answered, since leaving is last
	resets    [32]uint32 // streams that were reset here lately
	nextReset int
	blocked   []*stream // those that wait for a window
	window    int64     // what may be sent
	initial   int64     // of each stream's
	extra     int64     // the most that a stream's is beyond initial
	waste     waste
	leaving   leaving
	fault     *fault
}

// leaving is how far a connection has taken leave.
type leaving uint8

const (
	staying leaving = iota
	asked           // the client knows, and what it has sent meanwhile is answered
	last            // what comes now is refused
	gone
)

// fault is why a connection ends.
type fault struct {
	code   Code
	reason string // of Config.Refused; empty: the client makes mistakes, or it ended
	why    string
}

func (c *conn) init() {
	c.changed.L = &c.mu
	c.buffer = make([]byte, buffer)
	c.streams = map[uint32]*stream{}
	c.window, c.initial, c.receives = 65535, 65535, connWindow
	c.decoder.table.init()
	c.waste.left = wasteMost
	c.now = time.Now()
	c.begun, c.heard, c.called, c.wholeLast = c.now, c.now, c.now, c.now
}

// serve answers the connection until it ends.
func (c *conn) serve() {
	defer c.end()
	defer func() {
		if p := recover(); p != nil {
			c.server.config.Panicked("a connection", p)
		}
	}()
	if !c.greet() {
		return
	}
	for c.step() {
	}
}

// greet has both sides say how they want to speak.
func (c *conn) greet() bool {
	if err := c.raw.SetDeadline(c.now.Add(handshake)); err != nil {
		return false
	}
	if t, ok := c.nc.(*tls.Conn); ok {
		if err := t.HandshakeContext(c.ctx); err != nil {
			c.server.config.HandshakeFailed()
			return false
		}
		state := t.ConnectionState()
		c.state = &state
		if state.NegotiatedProtocol != "h2" {
			c.server.config.HandshakeFailed()
			return false
		}
	}
	begin := c.buffer[:len(preface)]
	if _, err := io.ReadFull(c.nc, begin); err != nil {
		return false
	}
	if err := c.raw.SetDeadline(time.Time{}); err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.config.Gate != nil {
		c.server.config.Gate.Use(&c.seat)
	}
	c.told = c.streamShare()
	c.out = appendSettings(c.out,
		setting{settingStreams, uint32(c.told)}, setting{settingWindow, streamWindow}, setting{settingList, maxHead})
	c.out = appendWindow(c.out, 0, connWindow-65535)
	if string(begin) != preface {
		c.fail(ProtocolError, "the connection does not begin as HTTP/2 does")
		c.goAway(c.fault.code, c.fault.why)
	}
	c.greeted = true
	if c.leaving == asked {
		c.askToLeave()
	}
	c.flush()
	return c.fault == nil && !c.broken
}

// step reads once, and answers what has come.
func (c *conn) step() bool {
	if !c.wait() {
		return false
	}
	kept := len(c.read)
	if kept > 0 && &c.read[0] != &c.buffer[0] {
		copy(c.buffer, c.read)
	}
	n, err := c.nc.Read(c.buffer[kept:])
	c.read = c.buffer[:kept+n]
	if c.server.config.Gate != nil {
		c.server.config.Gate.Use(&c.seat)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = time.Now()
	if n > 0 {
		c.heard, c.pinged = c.now, time.Time{}
		c.answer()
	}
	if err != nil && c.fault == nil {
		c.failed(err)
	}
	if c.fault != nil && c.fault.why != "" {
		c.goAway(c.fault.code, c.fault.why)
	}
	c.flush()
	return c.fault == nil && !c.broken
}

// answer goes through what was read, frame by frame.
func (c *conn) answer() {
	for c.fault == nil {
		f, size := next(c.read)
		if size > frameHead+largest {
			c.fail(FrameSize, "a frame is larger than 16384 bytes")
			return
		}
		if size > len(c.read) {
			break
		}
		c.read = c.read[size:]
		c.frame(&f)
	}
	c.hold()
	c.share()
}

// frame answers one.
func (c *conn) frame(f *frame) {
	if c.pieces > 0 && (f.kind != frameContinuation || f.stream != c.blockOf.stream) {
		c.fail(ProtocolError, "a header block is interrupted")
		return
	}
	if !c.settled && f.kind != frameSettings {
		c.fail(ProtocolError, "the first frame is not settings")
		return
	}
	switch f.kind {
	case frameHeaders:
		c.headers(f)
	case frameData:
		c.data(f)
	case frameContinuation:
		c.continuation(f)
	case frameReset:
		c.reset(f)
	case frameSettings:
		c.settings(f)
	case framePing:
		c.ping(f)
	case frameWindow:
		c.moreWindow(f)
	case framePriority:
		c.priority(f)
	case framePush:
		c.fail(ProtocolError, "a client must not push")
	case frameGoAway:
		if f.stream != 0 {
			c.fail(ProtocolError, "GOAWAY is of a stream")
		}
		c.wastes(1)
	default:
		c.wastes(1)
	}
}

// fail ends the connection for a mistake of the client.
func (c *conn) fail(code Code, why string) {
	if c.fault == nil {
		c.fault = &fault{code: code, why: why}
	}
}

// wastes is for what brings no call to its end.
func (c *conn) wastes(cost int) {
	if c.waste.spend(cost, c.now) && c.fault == nil {
		c.fault = &fault{EnhanceYourCalm, ReasonFlood, "too many frames that ask nothing, such as resets, pings and settings"}
	}
}

// failed ends the connection when it can't be read, unless only its time was over.
func (c *conn) failed(err error) {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		c.fault = &fault{}
		return
	}
	c.due = time.Time{}
	switch {
	case c.leaving == gone:
		c.fault = &fault{}
	case c.late():
		c.fault = &fault{EnhanceYourCalm, ReasonSlow, "a call must arrive within " + inTime.String()}
	case c.shut():
		c.fault = &fault{EnhanceYourCalm, ReasonUnread, "a window must open for an answer within " + unread.String()}
	case !c.pinged.IsZero():
		if c.now.Sub(c.pinged) >= pong {
			c.fault = &fault{}
		}
	case c.open == 0 && c.now.Sub(c.called) >= idle:
		c.fault = &fault{why: "no call came for " + idle.String()}
	case c.now.Sub(c.heard) >= silent:
		c.pinged = c.now
		c.out = append(appendHead(c.out, 8, framePing, 0, 0), aliveMark...)
	}
}

// late is whether a request takes too long to arrive.
func (c *conn) late() bool {
	if c.partial == 0 && c.pieces == 0 {
		return false
	}
	c.wholeLast = c.now
	if c.pieces > 0 {
		c.wholeLast = c.blockBegun
	}
	for s := range c.all {
		if s.arriving() && s.begun.Before(c.wholeLast) {
			c.wholeLast = s.begun
		}
	}
	return c.now.Sub(c.wholeLast) >= inTime
}

// wait waits while too much is to be written, and sets the time by which something must have come. A
// deadline that is too early stays: to set it costs more than to find that nothing is due.
func (c *conn) wait() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) > mostUnread && !c.broken {
		c.changed.Wait()
	}
	due := c.heard.Add(silent)
	if !c.pinged.IsZero() {
		due = c.pinged.Add(pong)
	}
	if whole := c.wholeLast.Add(inTime); c.partial+c.pieces > 0 && whole.Before(due) {
		due = whole
	}
	if len(c.blocked) > 0 && c.blocked[0].waits.Add(unread).Before(due) {
		due = c.blocked[0].waits.Add(unread)
	}
	if c.broken {
		return false
	}
	if c.leaving == gone || !c.due.IsZero() && !due.Before(c.due) {
		return true
	}
	c.due = due
	return c.nc.SetReadDeadline(due) == nil
}

// hold counts what requests hold that have not arrived as a whole. It looks at those only of which something came.
func (c *conn) hold() {
	if c.partial == 0 && c.pieces == 0 {
		c.wholeLast = c.now
	}
	if c.current != nil {
		c.growing = append(c.growing, c.current)
	}
	for _, s := range c.growing {
		if !s.arriving() || s.lost {
			continue
		}
		if s.held == nil {
			s.held = c.server.config.Budget.Begin(s.begun, c.cut)
		}
		s.held.Hold(c.now, overload.Unfinished+s.came) // who reads it may keep it all
	}
	clear(c.growing)
	c.growing = c.growing[:0]
}

// cut ends the connection at once.
func (c *conn) cut() { _ = c.raw.Close() }

// streamShare is how many streams the client may have.
func (c *conn) streamShare() int {
	if c.server.config.Gate == nil {
		return MaxStreams
	}
	if share := c.server.config.Gate.Share(); share > 0 {
		return min(share, MaxStreams)
	}
	return MaxStreams
}

// share tells the client how many streams it may have, when that has changed by enough.
func (c *conn) share() {
	share := c.streamShare()
	apart := max(share, c.told) - min(share, c.told)
	if apart > c.told/8 || share == MaxStreams && apart > 0 {
		c.told = share
		c.out = appendSettings(c.out, setting{settingStreams, uint32(share)})
	}
}

// flush writes what is to be written, unless another goroutine does that already. mu is held, but not while it
// writes.
func (c *conn) flush() {
	if c.writing {
		return
	}
	c.writing = true
	for len(c.out) > 0 && !c.broken {
		text := c.out
		c.out, c.spare = c.spare[:0], nil
		if now := time.Now(); c.writeBy.Sub(now) < unread-time.Second {
			c.writeBy = now.Add(unread)
			_ = c.nc.SetWriteDeadline(c.writeBy) // if it fails, so does the write
		}
		c.mu.Unlock()
		_, err := c.nc.Write(text)
		c.mu.Lock()
		c.spare = text[:0]
		if err != nil {
			c.broken = true
			if errors.Is(err, os.ErrDeadlineExceeded) {
				c.server.config.Refused(ReasonUnread)
			}
			c.cut()
		}
	}
	c.writing = false
	if cap(c.out)+cap(c.spare) > 2*mostUnread {
		c.out, c.spare = nil, nil // a connection that rests holds little
	}
	c.changed.Broadcast()
	c.mayClose()
}

// end closes the connection and all that is left of it.
func (c *conn) end() {
	c.mu.Lock()
	if c.fault != nil && c.fault.reason != "" {
		c.server.config.Refused(c.fault.reason)
	}
	told := c.fault != nil && c.fault.why != "" && !c.broken || c.leaving == gone
	for told && c.writing && !c.broken {
		c.changed.Wait() // whoever writes does so to the end
	}
	c.broken = true
	for s := range c.all {
		c.remove(s)
	}
	c.blocked = nil
	c.mu.Unlock()
	c.cancel()
	if told {
		c.linger()
	}
	c.cut()
}

// linger reads for a moment what the client still sends: a connection that is closed with something unread
// would have its client lose what it was told.
func (c *conn) linger() {
	if t, ok := c.nc.(*tls.Conn); ok {
		_ = t.SetWriteDeadline(time.Now().Add(farewell))
		_ = t.CloseWrite() // the connection ends anyway
	}
	if t, ok := c.raw.(interface{ CloseWrite() error }); ok {
		_ = t.CloseWrite()
	}
	if c.raw.SetReadDeadline(time.Now().Add(farewell)) != nil {
		return
	}
	for n := 0; n < buffer; {
		more, err := c.raw.Read(c.buffer)
		if n += more; err != nil {
			return
		}
	}
}
