package leased

import (
	"time"

	"github.com/weir-limit/weir"
)

const (
	// coverTimes is how many times lease a portion may last. A key that is asked for seldom is
	// then asked of the store once in that time.
	coverTimes = 10
	// turnTimes is how many times lease a node waits at least between two portions of a key that
	// is short. It gives back what is left of each, so that makes a call in each lease.
	turnTimes = 2
	// largestPart is the part of a limit that one portion is at most: so that a crash, or a node
	// that falls silent, takes no more of it along.
	largestPart = 8
	// lowPart is the part of a portion that is left when the next one is asked for.
	lowPart = 16
	// leastShares is into how many parts what remains is divided; with nodes it is their number, if that
	// is more.
	leastShares = 4
	// turnPart is the part of the time in which a limit recovers that a node waits at most, though
	// lease is longer: else a small bucket would be full again before somebody asks.
	turnPart = 8
	// mostCounted is the most events that demand is reckoned with, so that no product overflows.
	mostCounted = 1 << 30
)

// Largest is the most events of l that a process holds beforehand of one key, but for requests that
// cost more: these it takes whole.
func Largest(l *weir.Limit) int64 { return max(whole(l)/largestPart, 1) }

// whole is what a limit passes at once.
func whole(l *weir.Limit) int64 {
	if s := l.Spec(); s.Burst > 0 {
		return s.Burst
	}
	return l.Spec().Count
}

// Lasts is for how long a portion is meant at most, and how long a key stays unasked for until its
// portion is given back.
func Lasts(lease time.Duration) time.Duration { return coverTimes * span(lease) }

// shortest is the shortest lease there is: demand is reckoned by it, and a shorter one is taken for it.
const shortest = time.Millisecond

// span is a lease within its bounds.
func span(lease time.Duration) time.Duration { return min(max(lease, shortest), weir.MaxLease) }

// Turn is how long a node leaves a key alone that had less than it wanted.
func Turn(l *weir.Limit, lease time.Duration) time.Duration {
	recovers := l.Spec().Period
	if us, _, of := l.Span(whole(l)); of > 0 {
		recovers = time.Duration(us) * time.Microsecond
	}
	return min(turnTimes*span(lease), recovers/turnPart)
}

// need is what a portion is sized by. All are events.
type need struct {
	cost   int64 // of the request that waits: the portion is no smaller
	demand int64 // that are asked for while a portion lasts, 0…mostCounted
	melts  int64 // of a charge, in that time
	left   int64 // in the store, as far as is known
	whole  int64 // of the limit
	shares int64 // into which what is left is divided
}

// size is how many events to take beforehand. A portion is what is asked for while it lasts, and what
// melts meanwhile, but no more than a part of the limit and of what is left. So the portions become
// smaller as the limit is used up, down to single requests. A portion of which hardly anything would
// be spent before it has melted is none: then each request asks.
//
// A node that would use up what is left in one turn takes all of that turn: it holds nothing for long.
func (n *need) size() int64 {
	all := n.demand + n.melts
	events := min(all, n.left/n.shares)
	if n.demand*turnTimes/coverTimes >= n.left {
		events = max(events, all*turnTimes/coverTimes)
	}
	events = min(events, max(n.whole/largestPart, 1))
	if all == 0 || events*n.demand/all < 2*n.cost {
		return n.cost
	}
	return max(events, n.cost)
}
