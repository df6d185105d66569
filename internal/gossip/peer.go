package gossip

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// The times of silence.
const (
	// Beat is how often each member is told that this one lives, if nothing else
	// goes there. In large clusters it is longer: BeatPace packets a second go out.
	Beat = 100 * time.Millisecond
	// BeatPace is how many packets a second are spent on beats.
	BeatPace = 500
	// beats is after how many without one a member is silent.
	beats = 3
)

// beat is how often members are told of, where there are n.
func beat(n int) time.Duration { return max(Beat, time.Duration(n)*time.Second/BeatPace) }

// silence is how long nothing may be heard of a member, where there are n.
func silence(n int) time.Duration { return beats * beat(n) }

// maxQueued is how many bytes of messages wait for packets to one member. A
// message more is not taken.
const maxQueued = 64 << 10

const never = time.Duration(-1 << 62)

// peer is another process on the data plane.
type peer struct {
	identity
	address netip.AddrPort
	tcp     bool // it takes streams only

	member atomic.Bool // packets from it are taken
	alive  atomic.Bool // memberlist reaches it
	seals  atomic.Pointer[seals]
	hearing
	stream stream // to it

	mu     sync.Mutex
	out    []byte // messages that wait for packets
	beat   bool   // a packet is to go even without messages
	queued bool   // the flusher will come

	// The flusher's own:
	taken    []byte // what it took of out and has not sent
	spare    []byte // for the next out
	sequence uint64
	packets  budget

	// The receivers' own, under Gossip.receiving:
	datagrams, frames window
	arrivals          budget
}

// hearing is who hears whom between this process and a peer. Times are of
// sinceBoot.
type hearing struct {
	heard  atomic.Int64  // when something came from it last
	mutual atomic.Int64  // when it last said that it hears this process, in this round
	deaf   atomic.Bool   // it has said since that it does not, or must say it anew
	sent   atomic.Int64  // when something went to it last
	round  atomic.Uint32 // its round
	silent atomic.Bool   // as members were told

	known bool // it has heard this process before; of hear
}

// begin has a peer whom this process reaches count as heard at now, until it has
// had time to say so.
func (h *hearing) begin(now time.Duration, reached bool) {
	h.heard.Store(int64(never))
	h.mutual.Store(int64(now))
	h.deaf.Store(!reached)
}

// hear takes note of an opened packet, of this process's round. newest is whether
// none sent later has come. Who says no more that it hears this process counts
// as not heard, too: else a cut one way would be known on one side only.
func (h *hearing) hear(now time.Duration, p *header, round uint8, newest bool) {
	h.heard.Store(int64(now))
	switch {
	case p.heard == round:
		h.known = true
		h.mutual.Store(int64(now))
		h.deaf.Store(false)
	case newest && h.known:
		h.deaf.Store(true)
	}
	if newest {
		h.round.Store(uint32(p.round))
	}
}

// echo is what packets to it tell: its round, or 0 when nothing was heard of late.
func (h *hearing) echo(now, limit time.Duration) uint8 {
	if now-time.Duration(h.heard.Load()) > limit {
		return 0
	}
	return uint8(h.round.Load())
}

// quiet is for how long the two have not heard each other, and whether that makes
// the peer silent.
func (h *hearing) quiet(now, limit time.Duration) (time.Duration, bool) {
	quiet := max(now-time.Duration(h.mutual.Load()), 0)
	return quiet, quiet > limit || h.deaf.Load()
}

// queue takes a message for the next packet. due is whether the flusher has to
// be told.
func (p *peer) queue(message []byte) (due bool, r Reason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.out)+len(message)+lengthMax > maxQueued {
		return false, Budget
	}
	p.out = appendMessage(p.out, message)
	due, p.queued = !p.queued, true
	return due, None
}

// due makes a packet go out, whatever waits.
func (p *peer) due() (due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat = true
	due, p.queued = !p.queued, true
	return due
}

// take is what is to be sent now, for the flusher: what it left the last time, or
// what has come since. beat is whether a packet goes out even without.
func (p *peer) take() (messages []byte, beat bool) {
	if len(p.taken) > 0 {
		return p.taken, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken, p.out = p.out, p.spare[:0]
	p.spare = p.taken
	beat, p.beat = p.beat, false
	return p.taken, beat
}

// idle is whether nothing is left to send; else the flusher has to come again.
func (p *peer) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queued = len(p.taken) > 0 || len(p.out) > 0 || p.beat
	return !p.queued
}
