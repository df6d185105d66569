package gossip

import (
	"net/netip"
	"sync"
	"sync/atomic"
)

// maxQueued is how many bytes of messages wait for packets to one member. A
// message more is not taken.
const maxQueued = 64 << 10

// peer is another process on the data plane.
type peer struct {
	identity
	address netip.AddrPort
	tcp     bool // it takes streams only

	member atomic.Bool // packets from it are taken
	alive  atomic.Bool // memberlist reaches it
	seals  atomic.Pointer[seals]
	hearing
	streams [ways]stream  // to it
	framed  atomic.Uint64 // frames to it

	mu        sync.Mutex
	out       []byte // messages that wait for packets
	heartbeat bool   // a packet is to go even without messages
	queued    bool   // the flusher will come

	// The flusher's own:
	taken    []byte // what it took of out and has not sent
	spare    []byte // for the next out
	sequence uint64
	packets  budget

	// The receivers' own, under Gossip.receiving:
	datagrams, frames window
	arrivals          budget
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
	p.heartbeat = true
	due, p.queued = !p.queued, true
	return due
}

// take is what is to be sent now, for the flusher: what it left the last time, or
// what has come since. heartbeat is whether a packet goes out even without.
func (p *peer) take() (messages []byte, heartbeat bool) {
	if len(p.taken) > 0 {
		return p.taken, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken, p.out = p.out, p.spare[:0]
	p.spare = p.taken
	heartbeat, p.heartbeat = p.heartbeat, false
	return p.taken, heartbeat
}

// idle is whether nothing is left to send; else the flusher has to come again.
func (p *peer) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queued = len(p.taken) > 0 || len(p.out) > 0 || p.heartbeat
	return !p.queued
}
