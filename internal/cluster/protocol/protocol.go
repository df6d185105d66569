// Package protocol has what nodes that lend each other events of a limit have in common: the messages and their
// bytes, the times that they go by, and what each policy wants. docs/cluster-protocol.md tells the protocol.
package protocol

import (
	"time"

	"github.com/weir-limit/weir"
)

// The times of sharing. They suit nodes that reach each other within some
// milliseconds.
const (
	// Horizon is how long a lease lasts at the demand that it was asked with.
	Horizon = 100 * time.Millisecond
	// Retry is when an ask without an answer is sent again.
	Retry = 20 * time.Millisecond
	// Patience is how long a request waits for the owner before it is denied.
	Patience = 100 * time.Millisecond
	// Idle is when a holder gives back what nobody uses.
	Idle = 2 * Horizon
	// Lasting is the longest that a lease is used whose owner's heartbeats prolong it. It is
	// given back when nobody has used it for half of that.
	Lasting = time.Minute
)

// MaxShards is the largest number of nodes of one process.
const MaxShards = 64

// Pace is how many events of a limit pass in a Horizon, at least 1.
func Pace(l *weir.Limit) int64 { return max(1, l.Unsynced(Horizon)) }

// Unfit says why nodes can't share l by leases, and what to take instead. It is
// empty when they can.
func Unfit(l *weir.Limit) string {
	switch s := l.Spec(); {
	case s.Algorithm == weir.LeakyQueue:
		return "leaky-queue gives every request a place in one line, and events set aside for a node have none; keep it in redis://, or take gcra"
	case s.Algorithm == weir.Concurrent:
		return "permits last longer than leases; keep them in redis://"
	case s.Algorithm == weir.WarmUp:
		return "warm-up depends on when each event passes, which the owner learns too late; keep it in redis://, or take gcra"
	case s.Anchored:
		return "an anchored window opens with the first event, of which the owner learns too late; leave out anchored, or keep it in redis://"
	case s.Debt > 0:
		return "debt is for a request that finds one event left, and all nodes would find the same one; leave out debt, or keep it in redis://"
	case l.DenialCounts():
		return "denials by lease holders are not counted; leave out count-denied and initial, or keep it in redis://"
	}
	return ""
}
