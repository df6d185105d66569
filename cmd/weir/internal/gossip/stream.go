package gossip

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// The bounds of streams.
const (
	// maxStreamed is how many bytes of messages wait for the stream to one member.
	// A message more is not taken.
	maxStreamed = 1 << 20
	// ways is how many streams go to one member where datagrams do not: all that goes by one waits while TCP sends a lost segment again,
	// for 0.2 s or more. wayTime is how long all messages take the same one: what is sent again takes another.
	ways    = 4
	wayTime = 10 * time.Millisecond

	streamIdle     = time.Minute // without use it is closed
	streamPatience = 2 * time.Second
	streamPause    = 100 * time.Millisecond // after a failure
)

// stream is a way to a peer over TCP: for messages that fit into no datagram,
// and for all where datagrams do not pass. It is opened when there is something to
// send. Each frame has its length before it, in 4 bytes. Nothing comes back by it.
type stream struct {
	mu        sync.Mutex
	out       []byte
	heartbeat bool
	running   bool
	wake      chan struct{}
}

// put takes a message for the stream; without one a heartbeat.
func (s *stream) put(message []byte) (start bool, r Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(message) == 0:
		s.heartbeat = true
	case len(s.out)+len(message)+lengthMax > maxStreamed:
		return false, Budget
	default:
		s.out = appendMessage(s.out, message)
	}
	if s.wake == nil {
		s.wake = make(chan struct{}, 1)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	start, s.running = !s.running, true
	return start, None
}

// take is all that waits. Without anything, and last, the stream ends.
func (s *stream) take(last bool) (messages []byte, heartbeat, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	messages, heartbeat = s.out, s.heartbeat
	s.out, s.heartbeat = nil, false
	if last && len(messages) == 0 && !heartbeat {
		s.running = false
		return nil, false, true
	}
	return messages, heartbeat, false
}

// sendStream sends a message to p by a stream, or a heartbeat.
func (g *Gossip) sendStream(p *peer, message []byte) Reason {
	s := &p.streams[0]
	if g.streams(p) {
		s = &p.streams[sinceBoot()/wayTime%ways]
	}
	start, r := s.put(message)
	if start && !g.start(func() { g.stream(p, s) }) {
		return Unreachable // all is closing
	}
	return r
}

// stream sends what comes for p by one stream, until nothing has for a while.
func (g *Gossip) stream(p *peer, s *stream) {
	var c net.Conn
	defer func() { closeIf(c) }()
	idle := false
	for {
		messages, heartbeat, ended := s.take(idle)
		if ended {
			return
		}
		if len(messages) > 0 || heartbeat {
			if c = g.write(p, c, messages); c == nil && g.sleep(streamPause) {
				return
			}
		}
		select {
		case <-s.wake:
			idle = false
		case <-time.After(streamIdle):
			idle = true
		case <-g.done:
			return
		}
	}
}

// write sends messages, as many frames as they need, over c or a new connection.
// When it fails, the rest is dropped: the sender sends again what matters.
func (g *Gossip) write(p *peer, c net.Conn, messages []byte) net.Conn {
	if c == nil {
		var err error
		if c, err = g.port.dial(p.address.String(), streamPatience); err != nil {
			g.lose(messages, Unreachable)
			return nil
		}
	}
	for first := true; first || len(messages) > 0; first = false {
		n := prefix(messages, frameSize-headerSize-sealSize)
		_ = c.SetWriteDeadline(time.Now().Add(streamPatience)) // fails when it is closed, and so does the write
		if _, err := c.Write(g.frame(p, messages[:n])); err != nil {
			g.lose(messages, Unreachable)
			closeIf(c)
			return nil
		}
		messages = messages[n:]
	}
	return c
}

// frame is messages sealed, with the length before.
func (g *Gossip) frame(p *peer, messages []byte) []byte {
	now := sinceBoot()
	h := g.header(p, frame, p.framed.Add(1), now)
	b := make([]byte, 4, 4+headerSize+len(messages)+sealSize)
	b = p.seals.Load().append(b, &h, messages)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	g.sent(p, now, len(b), messages)
	return b
}

func closeIf(c net.Conn) {
	if c != nil {
		_ = c.Close() // what it had to say is said, or lost
	}
}

// accept takes connections, until the port is closed.
func (g *Gossip) accept() {
	for {
		c, err := g.port.tcp.AcceptTCP()
		if err != nil {
			if g.sleep(10 * time.Millisecond) { // too many open files, say; or all is closing
				return
			}
			continue
		}
		if !g.port.accepted.add(c) {
			_ = c.Close()
			g.in.drop(Budget)
			continue
		}
		if !g.start(func() { g.greet(c) }) {
			g.port.accepted.remove(c)
		}
	}
}

// greet finds out what a connection is for. memberlist closes its own connections.
func (g *Gossip) greet(c net.Conn) {
	first := make([]byte, 1)
	_ = c.SetReadDeadline(time.Now().Add(firstBytes)) // fails when it is closed, and so does the read
	if _, err := io.ReadFull(c, first); err != nil {
		g.port.accepted.remove(c)
		return
	}
	if first[0] == labelMark {
		head, theirs, err := readLabel(c)
		if err != nil {
			g.port.accepted.remove(c)
			return
		}
		if theirs != g.port.label {
			g.foreign(c.RemoteAddr().String(), theirs)
			g.port.turnAway(c)
			return
		}
		if !g.port.handStream(c, head) {
			g.in.drop(Membership)
			g.port.accepted.remove(c)
		}
		return
	}
	defer g.port.accepted.remove(c)
	g.frames(c, first[0])
}

// frames reads a stream's frames until one is bad. A stream that brings nothing is
// closed later than its sender closes it.
func (g *Gossip) frames(c net.Conn, first byte) {
	length, packet := [4]byte{first}, []byte(nil)
	for read := 1; ; read = 0 {
		if _, err := io.ReadFull(c, length[read:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(length[:])
		if n > frameSize {
			g.in.drop(Oversize)
			return
		}
		if uint32(cap(packet)) < n {
			packet = make([]byte, n)
		}
		packet = packet[:n]
		if _, err := io.ReadFull(c, packet); err != nil {
			g.in.drop(Truncated)
			return
		}
		if r := g.receive(packet, frame, frameSize); r != None && r != Replayed { // by another stream many have overtaken it
			return
		}
		_ = c.SetReadDeadline(time.Now().Add(2 * streamIdle)) // as above
	}
}
