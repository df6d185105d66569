package sharing

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-limit/weir"
)

// Delay is how long it takes at most until all nodes have heard of what one of them
// has let pass, where messages take up to d and none is lost. Each one that is lost
// adds a Sync.
func Delay(sharing weir.Sharing, nodes int, d time.Duration) time.Duration {
	switch {
	case nodes <= 1:
		return 0
	case sharing == weir.SharingGossip:
		turns := (nodes - 2 + Fanout) / Fanout
		return time.Duration(turns)*Sync + d
	case sharing == weir.SharingMesh:
		return Sync + d
	default:
		return 0
	}
}

// Bound is weir.Limit.Bound for what so many nodes let pass together, when each has
// heard of what others let pass more than delay ago. With leases, and where the
// limit is divided, it is that of the limit.
//
// Proof. Look at an event that node i lets pass at t. Its state has all that i itself
// let pass, when it did, and all that others let pass until t − delay, when i heard of
// it: later than it was. An event that is charged later is never less in use at t. So
// if all events were known at once, what is in use at t would be at most what i sees,
// and what the N − 1 others let pass after t − delay. Each of them keeps the limit by
// itself, so that is at most ahead = (N − 1) × Limit.Bound(delay). So all events
// together keep a limit that is larger by ahead, and pass no more than that does.
func Bound(sharing weir.Sharing, l *weir.Limit, nodes int, delay, width time.Duration, largest int64) int64 {
	ahead := Ahead(sharing, l, nodes, delay, largest)
	s := l.Spec()
	switch {
	case ahead == 0 || l.Bound(width, largest) == 0:
		return l.Bound(width, largest)
	case s.Algorithm == weir.FixedWindow || s.Algorithm == weir.SlidingWindow:
		s.Count = min(plus(s.Count, ahead), weir.MaxCount)
		if looser, err := s.Limit(); err == nil && s.Count < weir.MaxCount {
			return looser.Bound(width, largest)
		}
		return math.MaxInt64
	default:
		return plus(l.Bound(width, largest), ahead)
	}
}

// Ahead is how many events nodes may have let pass that one of them has not heard of.
func Ahead(sharing weir.Sharing, l *weir.Limit, nodes int, delay time.Duration, largest int64) int64 {
	if sharing != weir.SharingMesh && sharing != weir.SharingGossip || nodes <= 1 {
		return 0
	}
	each := l.Bound(delay, largest)
	if each > math.MaxInt64/int64(nodes) {
		return math.MaxInt64
	}
	return each * int64(nodes-1)
}

func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// The most nodes that tell each other by replicas. Each of a mesh sends all others 10
// messages a second for one key; with gossip what each tells of one key grows with
// them.
const (
	MaxMesh   = 50
	MaxGossip = 200
)

// UnfitFor says why so many nodes can't share l in this way, and what to take
// instead; empty when they can. nodes is 0 when it is not known.
func UnfitFor(sharing weir.Sharing, l *weir.Limit, nodes int) string {
	s := l.Spec()
	switch sharing {
	case weir.SharingDivided:
		return unfitDivided(l, &s, nodes)
	case weir.SharingMesh, weir.SharingGossip:
		if why := crowded(sharing, nodes); why != "" {
			return why
		}
		return unfitReplicated(l, &s, sharing)
	case weir.SharingSticky, weir.SharingLease:
	}
	return ""
}

func unfitDivided(l *weir.Limit, s *weir.Spec, nodes int) string {
	all, _ := l.Standing(nil, 0)
	if nodes > 1 && all < int64(nodes) && s.Count > 0 {
		return fmt.Sprintf("%d nodes can't each have a part of %d events: write nodes: %d or less, or take sharing: lease", nodes, all, max(all, 1))
	}
	return ""
}

func crowded(sharing weir.Sharing, nodes int) string {
	switch {
	case sharing == weir.SharingMesh && nodes > MaxMesh:
		return fmt.Sprintf("each of %d nodes would send %d messages a second for one key; a mesh is for up to %d: take sharing: lease", nodes, (nodes-1)*int(time.Second/Sync), MaxMesh)
	case sharing == weir.SharingGossip && nodes > MaxGossip:
		return fmt.Sprintf("%d nodes would pass on what each of them says of each key; gossip is for up to %d: take sharing: lease", nodes, MaxGossip)
	}
	return ""
}

func unfitReplicated(l *weir.Limit, s *weir.Spec, sharing weir.Sharing) string {
	switch {
	case s.Algorithm == weir.SlidingLog:
		return fmt.Sprintf("a log has the time of each event, and %s tells how many only; take sliding-window, or sharing: lease", sharing)
	case s.Algorithm == weir.LeakyQueue:
		return "leaky-queue gives every request a place in one line, and nodes that don't ask give the same place twice; take gcra, or sharing: lease"
	case s.Algorithm == weir.Concurrent:
		return "permits of a node that dies would be held for ever by those that heard of them; take sharing: lease"
	case s.Algorithm == weir.WarmUp:
		return "warm-up goes by when each event passes, of which others hear too late; take gcra, or sharing: lease"
	case s.Algorithm == weir.GCRA && s.Mode == weir.Strict, s.Mode == weir.Conservative:
		return fmt.Sprintf("%s lets more pass than the limit now and then, which is what %s is to prevent; leave it out, or take sharing: lease", sharing, s.Mode)
	case s.Anchored:
		return "an anchored window opens with the first event, of which others hear too late; leave out anchored, or take sharing: lease"
	case s.Debt > 0:
		return "debt is for who finds one event left, and nodes would all find the same; leave out debt, or take sharing: lease"
	case l.DenialCounts():
		return "what nodes deny is not told to others; leave out count-denied and initial, or take sharing: lease"
	case s.Algorithm != weir.GCRA && s.Algorithm != weir.TokenBucket && s.Algorithm != weir.LeakyBucket && Sync >= s.Period/2:
		return fmt.Sprintf("others hear of an event up to %v later, when half of the window is over; take a period of more than %v, or sharing: lease", Sync, 2*Sync)
	}
	return ""
}
