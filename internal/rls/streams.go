package rls

import (
	"encoding/binary"
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/weir-limit/weir/internal/overload"
)

// sharing makes connections, once they are safe, tell their clients how many
// calls they may have in flight. It is how HTTP/2 holds back who asks too much,
// and costs the door nothing; grpc-go says it once, when a connection begins.
type sharing struct {
	credentials.TransportCredentials

	gate *overload.Gate
}

// ServerHandshake makes a connection safe.
func (s *sharing) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := s.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return c, info, err
	}
	return &conn{Conn: c, gate: s.gate, told: maxStreams}, info, nil
}

// Clone is gRPC's; the gate stays the same.
func (s *sharing) Clone() credentials.TransportCredentials {
	return &sharing{s.TransportCredentials.Clone(), s.gate}
}

// conn is a connection that adds frames of its own to what is written.
type conn struct {
	net.Conn

	gate *overload.Gate
	seat overload.Seat
	// The rest is for who writes. That is one goroutine at a time.
	told   int // what the client knows
	frames frames
}

// Read reads what is asked.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.gate.Use(&c.seat)
	return n, err
}

// Write writes p and, where a frame has ended, what the client must know.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		return n, err
	}
	c.frames.skip(p)
	share := c.gate.Share()
	if share == 0 || share > maxStreams {
		share = maxStreams
	}
	if !differs(c.told, share) || !c.frames.between() {
		return n, nil
	}
	c.told = share
	_, err = c.Conn.Write(settings(share))
	return n, err
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

// frames follows HTTP/2 frames through pieces of any size.
type frames struct {
	head [9]byte
	have int  // of head
	left int  // of the payload
	open bool // a header block has begun and not ended
}

// between is whether another frame may stand here.
func (f *frames) between() bool { return f.have == 0 && f.left == 0 && !f.open }

func (f *frames) skip(p []byte) {
	const headers, continuation, endHeaders = 1, 9, 4
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, len(p))
			f.left -= n
			p = p[n:]
			continue
		}
		n := copy(f.head[f.have:], p)
		f.have += n
		if p = p[n:]; f.have < len(f.head) {
			return
		}
		f.have = 0
		f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
		if kind := f.head[3]; kind == headers || kind == continuation {
			f.open = f.head[4]&endHeaders == 0
		}
	}
}
