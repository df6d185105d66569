package h2

import (
	"encoding/binary"
	"slices"
	"time"
)

// mostWindow is the largest window there is (RFC 9113, 6.9.1).
const mostWindow = 1<<31 - 1

// takes counts bytes that have come, and has the client send more in time.
func (c *conn) takes(size int) bool {
	if c.receives -= int64(size); c.receives < 0 {
		c.fail(FlowControl, "more data came than the connection's window allows")
		return false
	}
	if c.taken += size; c.taken >= connWindow/2 {
		c.out = appendWindow(c.out, 0, c.taken)
		c.receives += int64(c.taken)
		c.taken = 0
	}
	return true
}

// settings takes note of what the client wants.
func (c *conn) settings(f *frame) {
	switch {
	case f.stream != 0:
		c.fail(ProtocolError, "settings are of the connection")
		return
	case f.has(flagAck):
		if len(f.payload) != 0 {
			c.fail(FrameSize, "an answer to settings is empty")
		}
		c.knows = true
		c.wastes(1)
		return
	case len(f.payload)%6 != 0:
		c.fail(FrameSize, "a setting has 6 bytes")
		return
	}
	if c.settled {
		c.wastes(wasteSettings + len(f.payload)/6)
	}
	c.settled = true
	for p := f.payload; len(p) > 0 && c.fault == nil; p = p[6:] {
		c.setting(binary.BigEndian.Uint16(p), binary.BigEndian.Uint32(p[2:]))
	}
	if c.fault != nil {
		return
	}
	c.out = appendHead(c.out, 0, frameSettings, flagAck, 0)
	c.pump()
}

func (c *conn) setting(id uint16, value uint32) {
	switch id {
	case settingTable:
		c.encoder.resize(value)
	case settingPush:
		if value > 1 {
			c.fail(ProtocolError, "ENABLE_PUSH is 0 or 1")
		}
	case settingWindow:
		// A stream's window is what is beyond the initial one, so that a change costs the same for any
		// number of streams.
		if int64(value)+c.extra > mostWindow {
			c.extra = 0 // what it was may be sent since
			for s := range c.all {
				c.extra = max(c.extra, s.extra)
			}
		}
		if int64(value)+c.extra > mostWindow {
			c.fail(FlowControl, "INITIAL_WINDOW_SIZE makes a window larger than 2^31-1")
			return
		}
		c.initial = int64(value)
	case settingFrame:
		if value < largest || value >= 1<<24 {
			c.fail(ProtocolError, "MAX_FRAME_SIZE is 16384 to 16777215")
		}
	}
}

// aliveMark and leaveMark are what pings of ours say.
const (
	aliveMark = "weir liv"
	leaveMark = "weir lev"
)

// ping answers a ping, or is the answer to one.
func (c *conn) ping(f *frame) {
	switch {
	case f.stream != 0:
		c.fail(ProtocolError, "a ping is of the connection")
	case len(f.payload) != 8:
		c.fail(FrameSize, "a ping has 8 bytes")
	case !f.has(flagAck):
		c.wastes(1)
		c.out = append(appendHead(c.out, 8, framePing, flagAck, 0), f.payload...)
	case string(f.payload) == leaveMark && c.leaving == asked:
		c.leaveNow()
	case string(f.payload) != aliveMark:
		c.wastes(1)
	}
}

// moreWindow lets more be sent.
func (c *conn) moreWindow(f *frame) {
	if len(f.payload) != 4 {
		c.fail(FrameSize, "WINDOW_UPDATE has 4 bytes")
		return
	}
	c.wastes(1)
	more := int64(binary.BigEndian.Uint32(f.payload) &^ (1 << 31))
	if f.stream == 0 {
		before := c.window
		if c.window += more; more == 0 {
			c.fail(ProtocolError, "WINDOW_UPDATE is 0")
		} else if c.window > mostWindow {
			c.fail(FlowControl, "the connection's window is larger than 2^31-1")
		}
		if before <= 0 { // else all that wait do so for their own windows
			c.pump()
		}
		return
	}
	if f.stream > c.highest {
		c.fail(ProtocolError, "WINDOW_UPDATE is of no stream that was opened")
		return
	}
	s := c.find(f.stream)
	switch {
	case s == nil: // it is closed, and its client did not know
	case more == 0:
		c.resetStream(s, ProtocolError)
	case c.initial+s.extra+more > mostWindow:
		c.resetStream(s, FlowControl)
	default:
		s.extra += more
		c.extra = max(c.extra, s.extra)
		c.resume(s)
	}
}

// resume sends what waits for the stream's window.
func (c *conn) resume(s *stream) {
	if (len(s.pending) > 0 || s.ending) && c.push(s) {
		c.blocked = slices.DeleteFunc(c.blocked, func(o *stream) bool { return o == s })
	}
}

// pump sends what waits for a window, oldest first. To look at all costs something, too.
func (c *conn) pump() {
	c.wastes(len(c.blocked) / MaxStreams)
	still := c.blocked[:0]
	for _, s := range c.blocked {
		if !s.lost && !c.push(s) {
			still = append(still, s)
		}
	}
	clear(c.blocked[len(still):])
	c.blocked = still
}

// holdBack has a stream wait for a window.
func (c *conn) holdBack(s *stream) {
	s.waits = time.Now()
	c.blocked = append(c.blocked, s)
}

// shut is whether the oldest of what waits for a window has waited too long.
func (c *conn) shut() bool {
	return len(c.blocked) > 0 && c.now.Sub(c.blocked[0].waits) >= unread
}

// unblock forgets what waits for a window.
func (c *conn) unblock(s *stream) {
	if len(s.pending) > 0 || s.ending {
		c.blocked = slices.DeleteFunc(c.blocked, func(o *stream) bool { return o == s })
	}
}

// push sends what is pending of a stream, and says whether that was all.
func (c *conn) push(s *stream) bool {
	for len(s.pending) > 0 {
		n := int(min(int64(len(s.pending)), largest, c.window, c.initial+s.extra))
		if n <= 0 {
			return false
		}
		flags := byte(0)
		if n == len(s.pending) && s.ending && s.trailers == nil {
			flags = flagEndStream
		}
		c.out = append(appendHead(c.out, n, frameData, flags, s.id), s.pending[:n]...)
		c.window -= int64(n)
		s.extra -= int64(n)
		s.pending = s.pending[n:]
		if flags != 0 {
			c.finish(s)
			return true
		}
	}
	s.pending = nil
	if s.rest != nil {
		s.rest.changed.Broadcast()
	}
	if s.ending {
		if s.trailers == nil {
			c.out = appendHead(c.out, 0, frameData, flagEndStream, s.id)
		} else {
			c.fields(s, 0, s.trailers, true)
		}
		c.finish(s)
	}
	return true
}
