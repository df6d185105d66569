// Package load makes calls cheaply, so that what is measured is the server: by
// HTTP/2 frames and HTTP/1.1 requests that are encoded before.
package load

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Outcome is what became of a call.
type Outcome uint8

// The outcomes.
const (
	Answered Outcome = iota // with a message: OK or OVER_LIMIT
	Refused                 // with a status alone
)

// H2 is one HTTP/2 connection for unary gRPC calls of one method.
type H2 struct {
	deadline time.Duration
	traced   bool
	start    time.Time
	read     *bufio.Reader // of its reader alone

	mu         sync.Mutex
	conn       net.Conn
	closed     bool
	head       head
	out        []byte
	next       uint32      // stream
	oldest     uint32      // stream that may be in flight
	begun      [ring]int64 // of each call in flight, in nanoseconds since the start
	active     int
	maxStreams int
	window     int // bytes of DATA that may be sent
}

// ring is how many streams are remembered, more than a server has at a time.
const ring = 1 << 12

const method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"

// DialH2 opens a connection. Its calls have the deadline, when it is not 0, in
// their header, as Envoy's have.
func DialH2(address string, deadline time.Duration) (*H2, error) {
	return dialH2(address, deadline, false)
}

func dialH2(address string, deadline time.Duration, traced bool) (*H2, error) {
	c := &H2{deadline: deadline, traced: traced, start: time.Now().Add(-time.Hour)}
	if err := c.dial(address); err != nil {
		return nil, err
	}
	// One call alone, so that the table of the server is filled before others.
	for done := false; !done; {
		if err := c.Receive(func(time.Time, Outcome) { done = true }); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// dial opens the connection, or another one in its place, and begins the first
// call, which fills the table of the server.
func (c *H2) dial(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close() // nothing was sent
		return net.ErrClosed
	}
	c.conn, c.head = conn, newHead(c.deadline, c.traced)
	c.read = bufio.NewReaderSize(conn, 64<<10)
	c.next, c.oldest, c.active, c.maxStreams, c.window = 1, 1, 0, ring/2, 65535
	var preface bytes.Buffer
	preface.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&preface, nil)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	_ = framer.WriteWindowUpdate(0, 1<<31-1-65535)
	c.out = preface.Bytes()
	c.call(nil, time.Now())
	_, err = conn.Write(c.out)
	c.out = nil
	return err
}

// redial takes the calls of a connection that has ended as refused, and opens
// another. It says whether there is none because Close was called.
func (c *H2) redial(address string, done func(time.Time, Outcome)) (ended bool) {
	c.mu.Lock()
	var lost []time.Time
	for ; c.oldest < c.next; c.oldest += 2 {
		if begun := c.at(c.oldest); *begun != 0 {
			lost = append(lost, c.start.Add(time.Duration(*begun)))
			*begun = 0
		}
	}
	c.maxStreams, c.out = 0, nil // no calls until there is another
	ended = c.closed
	c.mu.Unlock()
	_ = c.conn.Close() // it is broken
	for _, begun := range lost {
		done(begun, Refused)
	}
	for !ended {
		err := c.dial(address)
		if err == nil {
			break
		}
		ended = errors.Is(err, net.ErrClosed)
		time.Sleep(time.Millisecond)
	}
	return ended
}

// head writes the header blocks of the calls of a connection. After the first they are
// indexes into the table that it filled, and, when calls are traced, a traceparent.
type head struct {
	fields  []hpack.HeaderField
	block   *bytes.Buffer
	encoder *hpack.Encoder
	calls   uint64
	traced  bool
}

func newHead(deadline time.Duration, traced bool) head {
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: "ratelimit"},
		{Name: "te", Value: "trailers"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "user-agent", Value: "weir-bench"},
	}
	if deadline > 0 {
		fields = append(fields, hpack.HeaderField{Name: "grpc-timeout", Value: fmt.Sprintf("%dm", deadline.Milliseconds())})
	}
	block := &bytes.Buffer{}
	return head{fields: fields, block: block, encoder: hpack.NewEncoder(block), traced: traced}
}

// next is the block of the next call, until the one after it.
func (h *head) next() []byte {
	h.calls++
	if h.calls > 2 && !h.traced {
		return h.block.Bytes() // the second one and those after it are alike
	}
	h.block.Reset()
	for _, f := range h.fields {
		_ = h.encoder.WriteField(f) // to memory
	}
	if h.traced {
		trace := fmt.Sprintf("00-%016x%016x-%016x-01", h.calls*0x9e3779b97f4a7c15, h.calls, h.calls*0xbf58476d1ce4e5b9)
		_ = h.encoder.WriteField(hpack.HeaderField{Name: "traceparent", Value: trace})
	}
	return h.block.Bytes()
}

func (c *H2) call(body []byte, begun time.Time) {
	header := c.head.next()
	id := c.next
	c.next += 2
	c.active++
	*c.at(id) = int64(begun.Sub(c.start))
	c.out = frame(c.out, len(header), http2.FrameHeaders, http2.FlagHeadersEndHeaders, id)
	c.out = append(c.out, header...)
	c.out = frame(c.out, len(body)+5, http2.FrameData, http2.FlagDataEndStream, id)
	c.out = append(c.out, 0)
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(len(body)))
	c.out = append(c.out, body...)
	c.window -= len(body) + 5
}

func (c *H2) at(id uint32) *int64 { return &c.begun[id/2%ring] }

func frame(b []byte, size int, kind http2.FrameType, flags http2.Flags, id uint32) []byte {
	b = append(b, byte(size>>16), byte(size>>8), byte(size), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(b, id)
}

// Call begins a call, unless the server takes no more now. It is sent by Flush.
func (c *H2) Call(body []byte, begun time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active >= c.maxStreams || c.window < len(body)+5 || c.next-c.oldest >= 2*ring {
		return false
	}
	c.call(body, begun)
	return true
}

// Expire gives up the calls that began before, and returns how many.
func (c *H2) Expire(before time.Time) (expired int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := int64(before.Sub(c.start))
	for ; c.oldest < c.next; c.oldest += 2 {
		begun := c.at(c.oldest)
		if *begun == 0 {
			continue
		}
		if *begun >= limit {
			break
		}
		*begun = 0
		c.active--
		expired++
		c.out = frame(c.out, 4, http2.FrameRSTStream, 0, c.oldest)
		c.out = binary.BigEndian.AppendUint32(c.out, uint32(http2.ErrCodeCancel))
	}
	return expired
}

// Flush sends what was begun. It is for one goroutine at a time.
func (c *H2) Flush() error {
	c.mu.Lock()
	out, conn := c.out, c.conn
	c.out = nil
	c.mu.Unlock()
	if len(out) == 0 {
		return nil
	}
	_, err := conn.Write(out)
	c.mu.Lock()
	if c.out == nil && c.conn == conn {
		c.out = out[:0]
	}
	c.mu.Unlock()
	return err
}

// Receive waits for frames and calls done for each call that has ended, until
// nothing more is buffered.
func (c *H2) Receive(done func(begun time.Time, o Outcome)) error {
	for {
		if err := c.receive(done); err != nil {
			return err
		}
		if c.read.Buffered() < 9 {
			return nil
		}
	}
}

func (c *H2) receive(done func(time.Time, Outcome)) error {
	head, err := c.read.Peek(9)
	if err != nil {
		return err
	}
	size := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	kind, flags, id := http2.FrameType(head[3]), http2.Flags(head[4]), binary.BigEndian.Uint32(head[5:])
	whole, err := c.read.Peek(9 + size)
	if err != nil {
		return err
	}
	payload := whole[9:]
	end, outcome := false, Refused
	switch kind {
	case http2.FrameHeaders:
		// An answer's first header has no end; the header after the message is
		// small, as it is in the table.
		end = flags.Has(http2.FlagHeadersEndStream)
		if end && c.trailer(payload) {
			outcome = Answered
		}
	case http2.FrameRSTStream:
		if binary.BigEndian.Uint32(payload) != uint32(http2.ErrCodeNo) {
			end = true
		}
	case http2.FrameSettings:
		c.settings(flags, payload)
	case http2.FramePing:
		if !flags.Has(http2.FlagPingAck) {
			c.mu.Lock()
			c.out = append(frame(c.out, size, http2.FramePing, http2.FlagPingAck, 0), payload...)
			c.mu.Unlock()
		}
	case http2.FrameWindowUpdate:
		if id == 0 {
			c.mu.Lock()
			c.window += int(binary.BigEndian.Uint32(payload))
			c.mu.Unlock()
		}
	case http2.FrameGoAway:
		return errors.New("the server sent GOAWAY")
	case http2.FrameData, http2.FramePriority, http2.FramePushPromise, http2.FrameContinuation, http2.FramePriorityUpdate:
	}
	if _, err := c.read.Discard(9 + size); err != nil {
		return err
	}
	if end {
		c.end(id, outcome, done)
	}
	return nil
}

// end tells of a call that has ended, unless it was given up before.
func (c *H2) end(id uint32, o Outcome, done func(time.Time, Outcome)) {
	c.mu.Lock()
	begun := *c.at(id)
	if *c.at(id) = 0; begun != 0 {
		c.active--
	}
	c.mu.Unlock()
	if begun != 0 {
		done(c.start.Add(time.Duration(begun)), o)
	}
}

// trailer is whether a block is the header after a message. A header that comes
// alone, as an error does, begins with :status, which stands in the first 14
// places of the table.
func (c *H2) trailer(block []byte) bool {
	return len(block) > 0 && (block[0] < 0x88 || block[0] > 0x8e)
}

func (c *H2) settings(flags http2.Flags, payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if flags.Has(http2.FlagSettingsAck) {
		return
	}
	for ; len(payload) >= 6; payload = payload[6:] {
		if http2.SettingID(binary.BigEndian.Uint16(payload)) == http2.SettingMaxConcurrentStreams {
			c.maxStreams = min(ring/2, int(binary.BigEndian.Uint32(payload[2:])))
		}
	}
	c.out = frame(c.out, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)
}

// Close closes the connection.
func (c *H2) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.conn.Close()
}

var _ io.Closer = (*H2)(nil)
