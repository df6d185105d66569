// Package lease lets nodes keep one limit together. Every key has an owner among
// the nodes, which keeps its state. The other nodes hold leases: events that the owner has set
// aside for them, to let pass without asking. Package member says which node owns a key, and on whose votes.
//
// A Node is a state machine without clock, network and goroutine: its caller tells it what happens
// and when, and sends what it wants sent. So a simulation runs the code of the daemon.
//
// At no time do all nodes together let more pass than the limit lets pass on one, whatever is lost,
// late, doubled, cut, paused or killed: docs/cluster-protocol.md has the invariants, by the numbers that
// stand beside the code that keeps them, and the proof. Package simulation looks for a way round it.
//
// In the code, node.go is told what happens and tells what to send, holder.go decides by a
// lease or asks the key's owner, ledger.go is what the owner keeps, message.go what they
// say to each other: an ask brings its limit along, so that an owner need not have the
// rule. call.go is what an owner decides whole, entitle.go how much of a limit it may grant, distance.go how long it is
// waited for, prolong.go how heartbeats prolong leases, evidence.go what a denial stood on. handoff.go is how a ledger goes
// to its next owner, and backup.go how what an owner grants of a slow limit outlives it. leads.go says who leads a rule.
package lease

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

// The bounds of sharing.
const (
	// MaxWaiting is how many requests of one key wait at a node for its owner; more
	// are denied.
	MaxWaiting = 64
	// AskBudget is how many messages a second a node spends on a key before it
	// takes leases instead of asking for each request.
	AskBudget = 50
	// MaxShards is the largest number of nodes of one process.
	MaxShards = 64
)

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
