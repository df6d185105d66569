// Package bounds works out how far nodes that share a limit may be apart, and which limits
// they can share in which way. The nodes themselves are in packages lease and counter; rules, the
// simulator and the command only need these figures.
package bounds

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/weir-limit/weir"
)

// Log is how nodes share that each decide by themselves and tell each other through an event log: a
// store of the daemon's: kafka:, or nats: with a log. It is no word of rules.
const Log weir.Sharing = "log"

// How far nodes that share by a Log may be behind.
const (
	// LogUsual is a lag of a log that keeps up with what nodes append, for those who want one figure.
	LogUsual = 100 * time.Millisecond
	// LogMost is how long it may take at most until a node reads back what it has appended. When
	// it takes longer, the node decides nothing: the fallbacks of the rules do.
	LogMost = time.Second
	// LogBeat is how often a node appends something to each part of the log to measure that by.
	LogBeat = 250 * time.Millisecond
	// LogWorst is what a node may not know of others at most: those append within LogMost and a
	// LogBeat or decide nothing, and it reads within as long or decides nothing.
	LogWorst = 2 * (LogMost + LogBeat)
	// LogBack is how far back a node that starts reads at most. Limits whose events are in use for
	// longer don't fit.
	LogBack = 48 * time.Hour
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
	return s == weir.SharingMesh || s == weir.SharingGossip || s == weir.SharingHub || s == Log
}

// Delay is how long it takes until all of so many nodes know what one of them has let
// pass, when messages take up to d and none is lost; each that is lost adds TellEvery. With a Log
// d is all of it, from the event until it is seen. It is 0 where no node decides by what it was told.
func Delay(s weir.Sharing, nodes int, d time.Duration) time.Duration {
	switch {
	case nodes <= 1 || !replicated(s):
		return 0
	case s == Log:
		return d
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
func late(s weir.Sharing) time.Duration {
	if s == Log {
		return LogUsual
	}
	return Delay(s, 2, 0)
}

// Horizon is how long an event of l is in use at most.
func Horizon(l *weir.Limit) weir.Instant {
	s := l.Spec()
	if us, _, of := l.Span(s.Burst); of != 0 {
		return weir.Instant(us + 1)
	}
	return weir.Instant(2 * s.Period.Microseconds()) // a sliding window weighs the period before
}

// untold says why nodes can't tell each other of l.
func untold(s weir.Sharing, l *weir.Limit) string {
	how, instead := string(s), "sharing: lease"
	if s == Log {
		how, instead = "the event log", "redis:// as the store"
	}
	if why := untellable(how, instead, late(s), l); why != "" || s != Log {
		return why
	}
	if in := Horizon(l).Duration().Truncate(time.Second); in > LogBack {
		return fmt.Sprintf("its events are in use for up to %v, and a node that starts reads back %v of the log; take a shorter period, or %s", in, LogBack, instead)
	}
	return ""
}

// untellable is untold for a way of telling that is late by so much. how is that way, and
// instead what to take.
func untellable(how, instead string, late time.Duration, l *weir.Limit) string {
	switch spec := l.Spec(); {
	case spec.Algorithm == weir.SlidingLog:
		return fmt.Sprintf("a log has the time of each event, and %s tells how many only; take sliding-window, or %s", how, instead)
	case spec.Algorithm == weir.LeakyQueue:
		return "leaky-queue gives every request a place in one line, and nodes that decide locally give the same place twice; take gcra, or " + instead
	case spec.Algorithm == weir.Concurrent:
		return "permits of a node that dies would stay held at other nodes; take " + instead
	case spec.Algorithm == weir.WarmUp:
		return "warm-up depends on when each event passes, which other nodes learn too late; take gcra, or " + instead
	case l.NeverOver():
		return fmt.Sprintf("%s lets more pass than the limit now and then, which %s is to prevent; leave it out, or take %s", how, spec.Mode, instead)
	case spec.Anchored:
		return "an anchored window opens with the first event, of which other nodes learn too late; leave out anchored, or take " + instead
	case spec.Debt > 0:
		return "debt is for a request that finds one event left, and all nodes would find the same one; leave out debt, or take " + instead
	case l.DenialCounts():
		return "denials are not reported to other nodes; leave out count-denied and initial, or take " + instead
	case spec.Algorithm.Family() != weir.GCRA && late >= spec.Period/2:
		return fmt.Sprintf("other nodes learn of an event up to %v later, when half of the window is over; take a period of more than %v, or %s", late, 2*late, instead)
	}
	return ""
}

// Slow is how long an event of a limit is in use at least for keys to have backups, beside a cluster's node that owns them. Faster
// limits recover before anybody minds.
const Slow = time.Minute

// BackedUp is whether keys of l have backups, with weir.PartitionProportional.
func BackedUp(l *weir.Limit) bool {
	switch l.Algorithm() {
	case weir.Concurrent, weir.LeakyQueue, weir.WarmUp: // what they keep changes with each event that ends
		return false
	case weir.FixedWindow, weir.SlidingLog:
		return l.Spec().Period > Slow && !l.DenialCounts()
	default:
		return Horizon(l) > Micros(Slow)+1 && !l.DenialCounts() // a microsecond for rounding
	}
}

// Part is n·of/all, rounded down; 0 where n or all is none.
func Part(n, of, all int64) int64 {
	if n <= 0 || all <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(of))
	if hi >= uint64(all) {
		return 1 << 62
	}
	q, _ := bits.Div64(hi, lo, uint64(all))
	return int64(min(q, 1<<62))
}

// Micros is d as nodes count time.
func Micros(d time.Duration) weir.Instant { return weir.Instant(d.Microseconds()) }
