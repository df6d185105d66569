package rls

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/credentials"

	"github.com/weir-limit/weir/internal/overload"
)

// sharing makes connections, once they are safe, tell their clients how many
// calls they may have in flight. It is how HTTP/2 holds back who asks too much,
// and costs the door nothing; grpc-go says it once, when a connection begins.
type sharing struct {
	credentials.TransportCredentials
	*shares
}

// shares are those of all connections of a door.
type shares struct {
	gate  *overload.Gate
	epoch atomic.Uint64 // of the gate, when it was last asked
	share atomic.Uint32 // calls in flight of one connection

	mu    sync.Mutex
	conns map[*conn]struct{}
}

func share(safe credentials.TransportCredentials, gate *overload.Gate) *sharing {
	s := &shares{gate: gate, conns: map[*conn]struct{}{}}
	s.share.Store(maxStreams)
	return &sharing{safe, s}
}

// ServerHandshake makes a connection safe.
func (s *sharing) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	nc, info, err := s.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nc, info, err
	}
	c := &conn{Conn: nc, of: s.shares, told: maxStreams}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	return c, info, nil
}

// Clone is gRPC's; the shares stay the same.
func (s *sharing) Clone() credentials.TransportCredentials {
	return &sharing{s.TransportCredentials.Clone(), s.shares}
}

// split gives the connections that were answered since the last time equal
// shares of the limit, when it may have changed.
func (s *shares) split() {
	epoch, limit := s.gate.Epoch(), s.gate.Limit()
	if last := s.epoch.Load(); last == epoch || !s.epoch.CompareAndSwap(last, epoch) {
		return
	}
	if limit == 0 {
		s.share.Store(maxStreams)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := 0
	for c := range s.conns {
		if c.busy.Swap(false) {
			busy++
		}
	}
	s.share.Store(uint32(min(max(limit/max(busy, 1), 1), maxStreams)))
}

// conn is a connection that adds frames of its own to what is written.
type conn struct {
	net.Conn

	of   *shares
	busy atomic.Bool
	// The rest is for who writes. That is one goroutine at a time.
	told   uint32 // what the client knows
	frames frames
}

// Write writes p and, where a frame has ended, what the client must know.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		return n, err
	}
	if !c.busy.Load() {
		c.busy.Store(true)
	}
	c.frames.skip(p)
	c.of.split()
	share := c.of.share.Load()
	if !differs(c.told, share) || !c.frames.between() {
		return n, nil
	}
	c.told = share
	_, err = c.Conn.Write(settings(share))
	return n, err
}

// differs is whether a share has changed by enough to tell.
func differs(told, share uint32) bool {
	apart := max(told, share) - min(told, share)
	return apart > told/8 || share == maxStreams && apart > 0
}

// settings is a frame with SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113, 6.5).
func settings(streams uint32) []byte {
	frame := []byte{0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3}
	return binary.BigEndian.AppendUint32(frame, streams)
}

// Close closes the connection.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
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
