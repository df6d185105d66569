package gossip

import (
	"sync/atomic"
	"time"
)

// The times of silence.
const (
	// shortestHeartbeat is how often each member is told that this one lives, if nothing else
	// goes there. In large clusters it is longer: heartbeatPace packets a second go out.
	shortestHeartbeat = 100 * time.Millisecond
	// heartbeatPace is how many packets a second are spent on heartbeats.
	heartbeatPace = 500
	// heartbeats is after how many without one a member is silent.
	heartbeats = 3
)

// heartbeat is how often members are told of, where there are n.
func heartbeat(n int) time.Duration {
	return max(shortestHeartbeat, time.Duration(n)*time.Second/heartbeatPace)
}

// silence is how long nothing may be heard of a member, where there are n.
func silence(n int) time.Duration { return heartbeats * heartbeat(n) }

const never = time.Duration(-1 << 62)

// hearing is who hears whom between this process and a peer. Times are of
// sinceBoot.
type hearing struct {
	heard  atomic.Int64  // when something came from it last
	mutual atomic.Int64  // when it last said that it hears this process, in this round
	deaf   atomic.Bool   // it has said since that it does not, or must say it anew
	sent   atomic.Int64  // when something went to it last
	round  atomic.Uint32 // its round
	silent atomic.Bool   // as members were told; tell sets it

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
// none sent later has come. A peer that no longer says that it hears this process counts as not
// heard, too: else a cut one way would be known on one side only.
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
