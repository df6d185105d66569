package gossip

import (
	"errors"
	"net"
	"runtime"
	"time"
)

// room is how many bytes of messages a datagram holds.
const room = packetSize - headerSize - sealSize

// Send gives a message to be brought to a member, with others that go there.
// Without others it goes at once. It may be lost, come twice as a message of its
// own if it is sent twice, or be overtaken. It is not taken, and false is
// returned, when nobody has the name, when the message is longer than MaxMessage or
// empty, and when too much waits already. The message is copied.
func (g *Gossip) Send(to string, message []byte) bool {
	r := g.send(to, message)
	if r != None {
		g.out.drop(r)
	}
	return r == None
}

func (g *Gossip) send(to string, message []byte) Reason {
	p := (*g.names.Load())[to]
	switch {
	case p == nil:
		return Unknown
	case len(message) == 0 || len(message) > MaxMessage:
		return Oversize
	case g.streams(p) || len(message)+lengthMax > room:
		return g.sendStream(p, message)
	}
	due, r := p.queue(message)
	if due {
		g.flushSoon(p)
	}
	return r
}

// streams is whether all goes to p by its stream.
func (g *Gossip) streams(p *peer) bool { return g.tcp || p.tcp }

// flushSoon tells the flusher of p, which tells so once until it was there.
func (g *Gossip) flushSoon(p *peer) {
	select {
	case g.due <- p:
	case <-g.done:
	}
}

// flusher sends what waits, member after member. While it sends, or others run
// that have more to say, more comes together in a packet.
func (g *Gossip) flusher() {
	packet := make([]byte, 0, packetSize)
	for {
		select {
		case <-g.done:
			return
		case p := <-g.due:
			runtime.Gosched() // who has woken this up may have more for the packet
			if wait := g.flush(p, packet); wait > 0 {
				time.AfterFunc(wait, func() { g.flushSoon(p) })
			}
		}
	}
}

// flush sends what waits for p. If the budget does not allow all, it tells when to
// come again.
func (g *Gossip) flush(p *peer, packet []byte) (wait time.Duration) {
	now := sinceBoot()
	for messages, heartbeat := p.take(); len(messages) > 0 || heartbeat; heartbeat = false {
		if !p.packets.take(now, maxPackets, packetBurst) {
			return time.Millisecond
		}
		n := prefix(messages, room)
		g.sendPacket(p, now, packet, messages[:n])
		messages = messages[n:]
		p.taken = messages
	}
	if !p.idle() {
		g.flushSoon(p) // after the others
	}
	return 0
}

func (g *Gossip) sendPacket(p *peer, now time.Duration, packet, messages []byte) {
	p.sequence++
	h := g.header(p, datagram, p.sequence, now)
	packet = p.seals.Load().append(packet[:0], &h, messages)
	if _, err := g.port.udp.WriteToUDPAddrPort(packet, p.address); err != nil {
		g.lose(messages, Unreachable)
		return
	}
	g.sent(p, now, len(packet), messages)
}

// header is what a packet to p begins with.
func (g *Gossip) header(p *peer, kind uint8, sequence uint64, now time.Duration) header {
	return header{
		kind: kind, sender: g.me.id, round: uint8(g.round.Load()),
		heard: p.echo(now, time.Duration(g.limit.Load())), sequence: sequence,
	}
}

func (g *Gossip) sent(p *peer, now time.Duration, size int, messages []byte) {
	p.hearing.sent.Store(int64(now))
	g.out.packets.Add(1)
	g.out.bytes.Add(uint64(size))
	g.out.messages.Add(count(messages))
}

// lose counts messages that were taken and did not go.
func (g *Gossip) lose(messages []byte, r Reason) { g.out.dropped[r].Add(count(messages)) }

// count is how many messages b is: nothing else is in it.
func count(b []byte) (n uint64) {
	for ; len(b) > 0; n++ {
		_, b, _ = cut(b)
	}
	return n
}

// read takes datagrams until the port is closed.
func (g *Gossip) read() {
	b := make([]byte, packetMaximum)
	for {
		n, from, err := g.port.udp.ReadFromUDPAddrPort(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // of an earlier packet: its address does not answer
		case n > 0 && b[0] == labelMark:
			if theirs, ok := packetLabel(b[:n]); ok && theirs != g.port.label {
				g.foreign(from.String(), theirs)
			} else if !g.port.handPacket(b[:n], from) {
				g.in.drop(Membership)
			}
		default:
			g.receive(b[:n], datagram, packetSize)
		}
	}
}

// receive opens a packet and delivers what is in it, or tells why not.
func (g *Gossip) receive(packet []byte, kind uint8, most int) Reason {
	h, r := parseHeader(packet, kind, most)
	if r == None {
		r = g.open(packet, &h)
	}
	if r != None {
		g.in.drop(r)
	}
	return r
}

func (g *Gossip) open(packet []byte, h *header) Reason {
	p := (*g.numbers.Load())[h.sender]
	switch {
	case h.sender == g.me.id:
		return OwnName
	case p == nil:
		return Unknown
	case !p.member.Load():
		return Old
	}
	now := sinceBoot()
	g.awake(now)

	g.receiving.Lock()
	defer g.receiving.Unlock()
	seen := &p.datagrams
	if h.kind == frame {
		seen = &p.frames
	}
	if !seen.fresh(h.sequence) {
		return Replayed
	}
	messages, r := p.seals.Load().unseal(packet, h)
	if r != None {
		return r
	}
	p.hear(now, h, uint8(g.round.Load()), seen.take(h.sequence))
	if p.silent.Load() {
		g.nudge()
	}
	switch {
	case !p.arrivals.take(now, 2*maxPackets, maxPackets):
		return Budget
	case !whole(messages):
		return Garbled
	}
	g.deliver(p, len(packet), messages)
	return None
}

// deliver hands messages on, in their order.
func (g *Gossip) deliver(p *peer, size int, messages []byte) {
	g.in.packets.Add(1)
	g.in.bytes.Add(uint64(size))
	for len(messages) > 0 {
		var message []byte
		message, messages, _ = cut(messages)
		g.in.messages.Add(1)
		g.received(p.name, message)
	}
}
