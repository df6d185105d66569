package rls

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// watching makes connections, once they are safe, tell their clients how many calls
// they may have in flight, and bounds what these hold until they are answered. It is
// how HTTP/2 holds back who asks too much; grpc-go says it once, when a connection
// begins.
type watching struct {
	credentials.TransportCredentials

	gate    *overload.Gate
	budget  *overload.Budget
	refused func(reason string)
	failed  func()                      // a handshake of TLS
	client  func(address string) string // Options.Client; nil: all are one
}

// ServerHandshake makes a connection safe.
func (w *watching) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := w.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		w.failed()
		return c, info, err
	}
	return w.watch(raw, c), info, nil
}

// watch watches a connection that was made of another.
func (w *watching) watch(raw, safe net.Conn) *conn {
	// A close of TLS would wait for a client that does not read.
	cut := func() { _ = raw.Close() }
	return &conn{
		Conn: safe, from: w.caller(safe.RemoteAddr()), gate: w.gate, refused: w.refused, told: maxStreams,
		reads: frames{left: len(clientPreface)}, talk: talk{left: talkMost},
		calls: calls{budget: w.budget, cut: cut, open: map[uint32]call{}},
	}
}

func (w *watching) caller(address net.Addr) net.Addr {
	if w.client == nil || address == nil {
		return address
	}
	return caller{address, w.client(address.String())}
}

// Clone is gRPC's; the gate and the budget stay the same.
func (w *watching) Clone() credentials.TransportCredentials {
	clone := *w
	clone.TransportCredentials = w.TransportCredentials.Clone()
	return &clone
}

// caller is the address that calls of a connection come from, and what Options.Client says of it.
type caller struct {
	net.Addr

	client string
}

// conn is a connection that adds frames of its own to what is written, and follows
// those that are read.
type conn struct {
	net.Conn

	from    net.Addr // a caller, where there is an Options.Client
	gate    *overload.Gate
	seat    overload.Seat
	refused func(reason string)
	// The rest is for the goroutine that writes. That is one goroutine at a time.
	told   int // what the client knows
	writes frames
	// And this for the goroutine that reads, likewise.
	reads frames
	timed bool // reading has a deadline

	writing sync.Mutex // held to write
	mu      sync.Mutex
	calls   calls // guarded by mu
	talk    talk  // likewise
}

// RemoteAddr comes back with each call, as the address of its peer.
func (c *conn) RemoteAddr() net.Addr { return c.from }

// Read reads what is asked. It fails when a call does not arrive in time.
func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	due := c.calls.due()
	c.mu.Unlock()
	if c.timed || !due.IsZero() {
		c.timed = !due.IsZero()
		if err := c.Conn.SetReadDeadline(due); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	if c.timed && errors.Is(err, os.ErrDeadlineExceeded) {
		c.sendAway(ReasonSlow, "a call must arrive within "+inTime.String())
	}
	c.gate.Use(&c.seat)
	if reason, why := c.follow(p[:n], time.Now()); reason != "" {
		c.sendAway(reason, why)
		return 0, net.ErrClosed
	}
	return n, err
}

// follow follows what was read, and says why it is too much.
func (c *conn) follow(p []byte, now time.Time) (reason, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ok := true; ok; {
		if p, ok = c.reads.next(p); !ok {
			break
		}
		if c.calls.asksNothing(&c.reads, now) && c.talk.said(now) {
			return ReasonFlood, "too many frames that ask nothing, such as resets, pings and settings"
		}
		c.calls.asked(&c.reads, now)
	}
	c.calls.hold(now)
	if len(c.calls.open) > maxUnanswered {
		return ReasonUnread, "too many calls whose answers are not read"
	}
	return "", ""
}

// sendAway closes the connection, and tells its client why where that can be told now.
func (c *conn) sendAway(reason, why string) {
	c.refused(reason)
	if c.writing.TryLock() {
		if c.writes.between() && c.SetWriteDeadline(time.Now().Add(farewell)) == nil {
			_, _ = c.Conn.Write(goAway(why)) // it may not read
		}
		c.writing.Unlock()
	}
	c.calls.cut()
}

// goAway is a frame that says ENHANCE_YOUR_CALM (RFC 9113, 6.8 and 7).
func goAway(why string) []byte {
	frame := []byte{0, 0, byte(8 + len(why)), 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 11}
	return append(frame, why...)
}

// Write writes p and, where a frame has ended, what the client must know.
func (c *conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err := c.Conn.Write(p)
	if err != nil {
		return n, err
	}
	c.mu.Lock()
	for ok := true; ok; {
		if p, ok = c.writes.next(p); ok {
			if c.calls.answered(&c.writes) {
				c.talk.answered()
			}
		}
	}
	c.mu.Unlock()
	share := c.gate.Share()
	if share == 0 || share > maxStreams {
		share = maxStreams
	}
	if !differs(c.told, share) || !c.writes.between() {
		return n, nil
	}
	c.told = share
	_, err = c.Conn.Write(settings(share))
	return n, err
}

// Close also ends what its calls hold.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.endAll()
	return err
}

// differs is whether a share has changed by enough to tell.
func differs(told, share int) bool {
	apart := max(told, share) - min(told, share)
	return apart > told/8 || share == maxStreams && apart > 0
}

// settings is a frame with SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113, 6.5).
func settings(streams int) []byte {
	frame := []byte{0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3}
	return binary.BigEndian.AppendUint32(frame, uint32(streams))
}

// The kinds of frames that say something of a call (RFC 9113, 6).
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameContinuation = 9

	endStream  = 1 // a flag of data and headers
	endHeaders = 4
)

// clientPreface is what a client says before its first frame (RFC 9113, 3.4).
const clientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// frames follows HTTP/2 frames through pieces of any size.
type frames struct {
	head [9]byte
	have int  // of head
	left int  // of the payload
	open bool // a header block has begun and not ended
}

// between is whether another frame may stand here.
func (f *frames) between() bool { return f.have == 0 && f.left == 0 && !f.open }

// The frame whose head was the last to be complete: what it is, of which call, and
// whether that ends with it.
func (f *frames) kind() byte     { return f.head[3] }
func (f *frames) stream() uint32 { return binary.BigEndian.Uint32(f.head[5:]) &^ (1 << 31) }
func (f *frames) ends() bool {
	return (f.kind() == frameData || f.kind() == frameHeaders) && f.head[4]&endStream != 0
}

// next goes through p until the head of a frame is complete, and gives what is left.
func (f *frames) next(p []byte) (rest []byte, complete bool) {
	if f.left > 0 {
		n := min(f.left, len(p))
		f.left -= n
		p = p[n:]
	}
	if f.left > 0 || len(p) == 0 {
		return nil, false
	}
	n := copy(f.head[f.have:], p)
	f.have += n
	if p = p[n:]; f.have < len(f.head) {
		return nil, false
	}
	f.have = 0
	f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	if kind := f.kind(); kind == frameHeaders || kind == frameContinuation {
		f.open = f.head[4]&endHeaders == 0
	}
	return p, true
}
