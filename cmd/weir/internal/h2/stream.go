package h2

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// mostUnused and mostReused are how many streams a connection keeps to use them again, and how much memory each of
// their buffers may have.
const (
	mostUnused = 16
	mostReused = 4 << 10
)

// stream is a request and its answer.
type stream struct {
	id    uint32
	call  Call
	fast  func(*Call) // who answers it here; nil: rest does
	rest  *rest
	head  *Head
	own   Head // what head is, when it must outlive the next one
	body  []byte
	begun time.Time
	room  int64 // what may come of it
	came  int64 // of the body
	ended bool  // by the client
	both  bool  // it is answered while more of it comes, as a stream of messages is: so it is not late
	done  bool  // here
	lost  bool  // it is over: nobody waits for what is not answered
	later bool  // another goroutine knows it
	held  *overload.Holding
	stop  context.CancelFunc

	extra    int64 // the window to send in, beyond conn.initial
	pending  []byte
	trailers []Field
	ending   bool      // trailers, or the end, follow what is pending
	waits    time.Time // since when it has waited for a window
}

// memo is a header block and what it means, as long as no other has changed the table.
type memo struct {
	block   []byte
	changes uint64
	head    *Head
	fast    func(*Call)
}

// all goes through the open streams. mu is held.
func (c *conn) all(yield func(*stream) bool) {
	if c.current != nil && !yield(c.current) {
		return
	}
	for _, s := range c.streams {
		if !yield(s) {
			return
		}
	}
}

func (c *conn) find(id uint32) *stream {
	if c.current != nil && c.current.id == id {
		return c.current
	}
	return c.streams[id]
}

// park has the current stream stand among the others.
func (c *conn) park() {
	s := c.current
	if s == nil {
		return
	}
	if s.head == &c.scratch {
		s.own.clone(s.head)
		s.head = &s.own
	}
	if s.arriving() {
		c.growing = append(c.growing, s)
	}
	c.streams[s.id] = s
	c.current = nil
}

// arriving is whether the request is to arrive in time, and has not.
func (s *stream) arriving() bool { return !s.ended && !s.both }

// remove forgets a stream that is over.
func (c *conn) remove(s *stream) {
	if c.current == s {
		c.current = nil
	} else {
		delete(c.streams, s.id)
	}
	c.open--
	if s.arriving() {
		c.partial--
	}
	s.lost = true
	if s.held != nil {
		s.held.End()
	}
	if s.stop != nil {
		s.stop()
	}
	if s.rest != nil {
		s.rest.changed.Broadcast()
		if !s.done {
			c.wastes(wasteRest)
		}
	}
	if !s.later && s.rest == nil && len(s.pending) == 0 && len(c.unused) < mostUnused &&
		cap(s.body) <= mostReused && cap(s.own.bytes) <= mostReused {
		c.unused = append(c.unused, s)
	}
}

// newStream opens a stream.
func (c *conn) newStream(id uint32, head *Head) *stream {
	c.park()
	var s *stream
	if n := len(c.unused); n > 0 {
		s = c.unused[n-1]
		c.unused = c.unused[:n-1]
		*s = stream{own: s.own, body: s.body[:0]}
	} else {
		s = new(stream)
	}
	s.id, s.head, s.begun, s.room = id, head, c.now, streamWindow
	c.current = s
	c.open++
	c.partial++
	return s
}

// headers begins a request, or ends one.
func (c *conn) headers(f *frame) {
	if f.stream == 0 || f.stream&1 == 0 {
		c.fail(ProtocolError, "a stream of a client has an odd number")
		return
	}
	if !f.unpad() {
		c.fail(ProtocolError, "the padding is longer than the frame")
		return
	}
	if f.has(flagPriority) {
		if len(f.payload) < 5 {
			c.fail(FrameSize, "a priority has 5 bytes")
			return
		}
		if binary.BigEndian.Uint32(f.payload)&^(1<<31) == f.stream {
			c.fail(ProtocolError, "a stream can't depend on itself")
			return
		}
		f.payload = f.payload[5:]
	}
	if f.has(flagEndHeaders) {
		c.head(f, f.payload)
		return
	}
	c.block, c.blockOf, c.pieces, c.blockBegun = append(c.block[:0], f.payload...), *f, 1, c.now
}

// continuation goes on with a header block.
func (c *conn) continuation(f *frame) {
	if c.pieces == 0 {
		c.fail(ProtocolError, "a header block goes on that has not begun")
		return
	}
	if c.pieces++; c.pieces > mostPieces || len(c.block)+len(f.payload) > mostBlock {
		c.fault = &fault{EnhanceYourCalm, ReasonFlood, "too many frames, or bytes, of one header block: there may be 8, and 16384"}
		return
	}
	c.wastes(1)
	c.block = append(c.block, f.payload...)
	if f.has(flagEndHeaders) {
		c.pieces = 0
		c.head(&c.blockOf, c.block)
	}
}

// decode reads a header block, unless it is one of the last and no other has changed the table since.
func (c *conn) decode(block []byte) (m *memo, ok bool) {
	for i := range c.memos {
		if m := &c.memos[i]; m.changes == c.decoder.changes && m.head != nil && bytes.Equal(m.block, block) {
			return m, true
		}
	}
	if len(block) > freeHead {
		c.wastes((len(block) - freeHead) / wasteBlock)
	}
	before := c.decoder.changes
	if err := c.decoder.decode(block, &c.scratch); errors.Is(err, errList) {
		c.fault = &fault{EnhanceYourCalm, ReasonFlood, err.Error()}
		return nil, false
	} else if err != nil {
		c.fail(Compression, err.Error())
		return nil, false
	}
	if c.decoder.changes != before || len(block) > freeHead {
		return nil, true
	}
	if !c.scratch.check() || c.scratch.large {
		return nil, true
	}
	m = &c.memos[c.nextMemo]
	c.nextMemo = (c.nextMemo + 1) % len(c.memos)
	*m = memo{block: append(m.block[:0], block...), changes: before, head: new(Head)}
	m.head.clone(&c.scratch)
	m.fast = c.server.config.Fast(m.head)
	return m, true
}

// head is a header block that is complete.
func (c *conn) head(f *frame, block []byte) {
	if c.current != nil && c.current.head == &c.scratch {
		c.park() // or its head would be overwritten
	}
	m, ok := c.decode(block)
	if !ok {
		return
	}
	if f.stream <= c.highest {
		c.ends(f, m == nil && c.scratch.trailers())
		return
	}
	c.highest = f.stream
	head := &c.scratch
	if m != nil {
		head = m.head
	} else if !head.check() {
		c.refuse(f.stream, ProtocolError)
		return
	}
	most := mostUntold
	if c.knows || c.now.Sub(c.begun) >= inTime {
		most = MaxStreams
	}
	if c.leaving >= last || c.open >= most {
		c.refuse(f.stream, RefusedStream)
		return
	}
	c.called = c.now
	s := c.newStream(f.stream, head)
	end := f.has(flagEndStream)
	if m != nil {
		s.fast = m.fast
	} else if !head.large {
		s.fast = c.server.config.Fast(head)
	}
	switch {
	case end && head.length > 0:
		c.resetStream(s, ProtocolError)
	case head.large:
		if end {
			c.endOf(s)
		}
		c.send(s, &Answer{Status: 431})
	case s.fast == nil:
		c.toRest(s, end)
	case end:
		c.calls(s, nil)
	}
}

// ends is a second header block of a stream: it ends the request, if its fields may be trailers.
func (c *conn) ends(f *frame, trailers bool) {
	s := c.find(f.stream)
	switch {
	case s == nil && c.wasReset(f.stream):
		c.wastes(1)
	case s == nil:
		c.fail(StreamClosed, "a header block is of a stream that is closed")
	case s.ended:
		c.resetStream(s, StreamClosed)
	case !f.has(flagEndStream) || !trailers || s.head.length >= 0 && s.came != s.head.length:
		c.resetStream(s, ProtocolError)
	case s.rest != nil:
		c.feed(s, nil, true)
	default:
		c.calls(s, s.body)
	}
}

// data is a part of a request's body.
func (c *conn) data(f *frame) {
	if f.stream == 0 || f.stream > c.highest {
		c.fail(ProtocolError, "data is of no stream that was opened")
		return
	}
	size := len(f.payload)
	if !c.takes(size) {
		return
	}
	if !f.unpad() {
		c.fail(ProtocolError, "the padding is longer than the frame")
		return
	}
	s := c.find(f.stream)
	if s == nil {
		if !c.wasReset(f.stream) {
			c.refuse(f.stream, StreamClosed)
		}
		c.wastes(1)
		return
	}
	end := f.has(flagEndStream)
	if len(f.payload) == 0 && !end {
		c.wastes(1)
	}
	if s != c.current {
		c.growing = append(c.growing, s)
	}
	s.room -= int64(size)
	s.came += int64(len(f.payload))
	length := s.head.length
	switch {
	case s.ended:
		c.resetStream(s, StreamClosed)
	case s.room < 0:
		c.resetStream(s, FlowControl)
	case length >= 0 && (s.came > length || end && s.came < length):
		c.resetStream(s, ProtocolError)
	case s.rest != nil:
		s.rest.credit += size - len(f.payload) // nobody reads padding
		c.feed(s, f.payload, end)
	case end && len(s.body) == 0:
		c.calls(s, f.payload)
	default:
		s.body = append(s.body, f.payload...)
		switch {
		case len(s.body) > MaxBody:
			c.toRest(s, end)
		case end:
			c.calls(s, s.body)
		}
	}
}

// endOf is the end of a request.
func (c *conn) endOf(s *stream) {
	if s.arriving() {
		c.partial--
	}
	s.ended = true
}

// calls has a call answered whose request is here.
func (c *conn) calls(s *stream, body []byte) {
	c.endOf(s)
	s.call = Call{Head: s.head, Body: body, Arrived: c.now, conn: c, stream: s, here: true}
	s.fast(&s.call)
	if !s.later && !s.lost && !s.done && !s.ending {
		c.resetStream(s, InternalError)
	}
}

// reset is that the client gives up a stream.
func (c *conn) reset(f *frame) {
	if len(f.payload) != 4 {
		c.fail(FrameSize, "RST_STREAM has 4 bytes")
		return
	}
	if f.stream == 0 || f.stream > c.highest {
		c.fail(ProtocolError, "RST_STREAM is of no stream that was opened")
		return
	}
	c.wastes(1)
	if s := c.find(f.stream); s != nil {
		c.unblock(s)
		c.remove(s)
	}
}

// priority is what a client thinks of streams; it is not asked (RFC 9113, 5.3.2).
func (c *conn) priority(f *frame) {
	c.wastes(1)
	switch {
	case f.stream == 0:
		c.fail(ProtocolError, "PRIORITY is of no stream")
	case len(f.payload) != 5:
		c.refuse(f.stream, FrameSize)
	case binary.BigEndian.Uint32(f.payload)&^(1<<31) == f.stream:
		c.refuse(f.stream, ProtocolError)
	}
}

// refuse resets a stream that is not open.
func (c *conn) refuse(id uint32, code Code) {
	c.wastes(1)
	c.sendReset(id, code)
}

// sendReset tells the client that a stream ends, and remembers that.
func (c *conn) sendReset(id uint32, code Code) {
	c.resets[c.nextReset] = id
	c.nextReset = (c.nextReset + 1) % len(c.resets)
	c.out = appendReset(c.out, id, code)
}

// resetStream ends a stream at once.
func (c *conn) resetStream(s *stream, code Code) {
	c.unblock(s)
	c.remove(s)
	c.refuse(s.id, code)
}

// wasReset is whether a stream was reset here lately: its client may not know.
func (c *conn) wasReset(id uint32) bool { return slices.Contains(c.resets[:], id) }
