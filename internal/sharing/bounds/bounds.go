// Package bounds works out how far nodes that share a limit may be apart, and which limits
// they can share in which way. The nodes themselves are in package sharing; rules, the
// simulator and the command only need these figures.
package bounds

import (
	"fmt"
	"math"
	"time"

	"github.com/weir-limit/weir"
)

// How nodes tell each other what they let pass, with weir.SharingMesh, weir.SharingGossip and weir.SharingHub:
// Delay, and so every bound, goes by it.
const (
	// TellEvery is how often a node tells others.
	TellEvery = 100 * time.Millisecond
	// TellSome is how many of them it tells each time with weir.SharingGossip; round and
	// round, so that all are told.
	TellSome = 3
)

// With more nodes, Unfit refuses them.
const (
	// maxMesh is how many nodes share by weir.SharingMesh: each tells all others.
	maxMesh = 50
	// maxGossip is how many nodes share by weir.SharingGossip: what each tells of one key
	// grows with them.
	maxGossip = 200
	// maxHub is how many nodes share by weir.SharingHub: the hub tells each of what all others let pass.
	maxHub = 200
)

// replicated is whether nodes decide by themselves and tell each other.
func replicated(s weir.Sharing) bool {
	return s == weir.SharingMesh || s == weir.SharingGossip || s == weir.SharingHub
}

// Delay is how long it takes until all of so many nodes know what one of them has let
// pass, when messages take up to d and none is lost; each that is lost adds TellEvery. It is 0
// where no node decides by what it was told.
func Delay(s weir.Sharing, nodes int, d time.Duration) time.Duration {
	switch {
	case nodes <= 1 || !replicated(s):
		return 0
	case s == weir.SharingGossip:
		turns := (nodes - 2 + TellSome) / TellSome
		return time.Duration(turns)*TellEvery + d
	case s == weir.SharingHub: // to the hub, and from it
		return 2 * (TellEvery + d)
	default:
		return TellEvery + d
	}
}

// Ahead is how many events all nodes but one may have let pass that this one does not
// know of, when they know of each other what is older than delay. It is 0 where no
// node decides by what it was told.
func Ahead(l *weir.Limit, s weir.Sharing, nodes int, delay time.Duration, largest int64) int64 {
	if !replicated(s) || nodes <= 1 {
		return 0
	}
	each := l.Bound(delay, largest)
	if l.Algorithm() == weir.FixedWindow {
		each = min(each, l.Spec().Count) // of another window nothing is in use
	}
	if others := int64(nodes - 1); each <= math.MaxInt64/others {
		return each * others
	}
	return math.MaxInt64
}

// Shared is weir.Limit.Bound for what so many nodes let pass together, when they know of each
// other what is older than delay.
//
// An event that a node learns of late is in use for it as long as one that it let pass then:
// never less than it really is. So if all events were known at once, no more than
// Ahead would be in use beyond what a node sees when it lets one pass. All together
// pass no more than a limit does that is larger by as much.
func Shared(l *weir.Limit, s weir.Sharing, nodes int, delay, width time.Duration, largest int64) int64 {
	return l.BoundAhead(width, largest, Ahead(l, s, nodes, delay, largest))
}

// Unfit says why so many nodes can't share l in this way, and what to take instead;
// empty when they can. nodes is 0 when it is not known.
func Unfit(s weir.Sharing, l *weir.Limit, nodes int) string {
	all, _ := l.Standing(nil, 0)
	switch {
	case s == weir.SharingDivided && nodes > 1 && all < int64(nodes) && l.Spec().Count > 0:
		return fmt.Sprintf("%d nodes can't each have a part of %d events: write nodes: %d or less, or take sharing: lease", nodes, all, max(all, 1))
	case s == weir.SharingMesh && nodes > maxMesh:
		return fmt.Sprintf("each of %d nodes would send %d messages a second for one key; a mesh is for up to %d: take sharing: lease", nodes, (nodes-1)*int(time.Second/TellEvery), maxMesh)
	case s == weir.SharingGossip && nodes > maxGossip:
		return fmt.Sprintf("%d nodes would pass on each other's reports of each key; gossip is for up to %d: take sharing: lease", nodes, maxGossip)
	case s == weir.SharingHub && nodes > maxHub:
		return fmt.Sprintf("the hub would tell each of %d nodes of all others' events of each key; a hub is for up to %d: take sharing: leader", nodes, maxHub)
	case replicated(s):
		return untold(s, l)
	}
	return ""
}

// late is how late nodes learn of an event at least.
func late(s weir.Sharing) time.Duration { return Delay(s, 2, 0) }

// untold says why nodes can't tell each other of l.
func untold(s weir.Sharing, l *weir.Limit) string {
	switch spec := l.Spec(); {
	case spec.Algorithm == weir.SlidingLog:
		return fmt.Sprintf("a log has the time of each event, and %s tells how many only; take sliding-window, or sharing: lease", s)
	case spec.Algorithm == weir.LeakyQueue:
		return "leaky-queue gives every request a place in one line, and nodes that decide locally give the same place twice; take gcra, or sharing: lease"
	case spec.Algorithm == weir.Concurrent:
		return "permits of a node that dies would stay held at other nodes; take sharing: lease"
	case spec.Algorithm == weir.WarmUp:
		return "warm-up depends on when each event passes, which other nodes learn too late; take gcra, or sharing: lease"
	case l.NeverOver():
		return fmt.Sprintf("%s lets more pass than the limit now and then, which %s is to prevent; leave it out, or take sharing: lease", s, spec.Mode)
	case spec.Anchored:
		return "an anchored window opens with the first event, of which other nodes learn too late; leave out anchored, or take sharing: lease"
	case spec.Debt > 0:
		return "debt is for a request that finds one event left, and all nodes would find the same one; leave out debt, or take sharing: lease"
	case l.DenialCounts():
		return "denials are not reported to other nodes; leave out count-denied and initial, or take sharing: lease"
	case spec.Algorithm.Family() != weir.GCRA && late(s) >= spec.Period/2:
		return fmt.Sprintf("other nodes learn of an event up to %v later, when half of the window is over; take a period of more than %v, or sharing: lease", late(s), 2*late(s))
	}
	return ""
}
