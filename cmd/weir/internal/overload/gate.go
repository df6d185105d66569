// Package overload keeps the daemon answering in time when more is asked of it
// than it can do. It measures how long work waits for a processor, and tells
// each listener how many calls to have in flight. Doors hold clients back by what
// their protocol has for it, and refuse what comes all the same: to refuse a
// call costs a good part of what it costs to decide it.
//
// gate.go and controller.go tell how many calls may be in flight, budget.go how much
// unfinished requests may hold together.
package overload

import (
	"sync/atomic"
	"time"
)

// How long work may wait. Envoy gives up after 20 ms unless told otherwise. When
// work waits for half of that, a limit comes down, to a quarter. Where that does
// not help, calls are refused when work waits for the whole.
const (
	target = 5 * time.Millisecond
	most   = 10 * time.Millisecond
	lost   = 20 * time.Millisecond
)

// Newcomer is how long a listener that is full waits after each new connection: to
// set one up costs more than an answer. Other connections wait in the backlog.
const Newcomer = 2 * time.Millisecond

// Gate is one listener's side. Its methods may be called at once by many. The zero
// Gate is open.
type Gate struct {
	// Standing is whether there is always a limit, for a listener that holds back
	// rather than refuses. It is set before use.
	Standing bool

	limit  atomic.Int64 // of calls in flight; 0 is none
	late   atomic.Bool
	shut   atomic.Bool
	epoch  atomic.Uint64
	seats  atomic.Int64 // taken in this epoch
	before atomic.Int64 // taken in the one before

	deciding atomic.Int64 // calls
}

// Begin counts a call that is being decided, until End.
func (g *Gate) Begin() { g.deciding.Add(1) }

// End is that of a Begin.
func (g *Gate) End() { g.deciding.Add(-1) }

// Limit is how many calls the listener may have in flight, or 0 for any number.
func (g *Gate) Limit() int { return int(g.limit.Load()) }

// Share is the part of the limit for one of the connections in use, or 0 when
// there is no limit.
func (g *Gate) Share() int {
	limit := g.limit.Load()
	if limit == 0 {
		return 0
	}
	return int(max(limit/max(g.taken(), 1), 1))
}

// taken is how many connections are in use.
func (g *Gate) taken() int64 { return max(g.seats.Load(), g.before.Load()) }

// busy is whether calls are being decided, or connections have come lately, or are limited.
func (g *Gate) busy() bool {
	return g.deciding.Load() > 0 || g.taken() > 0 || g.limited()
}

// limited is whether there is a limit that does not always stand.
func (g *Gate) limited() bool { return g.limit.Load() > 0 && !g.Standing }

// Late is whether work waits for longer than it should, so that it pays to ask
// for each piece whether its caller still waits.
func (g *Gate) Late() bool { return g.late.Load() || g.limited() }

// Shut is whether work waits so long that no call should be taken up.
func (g *Gate) Shut() bool { return g.shut.Load() }

// Full is whether there is a limit and no seat for newcomers.
func (g *Gate) Full() bool {
	limit := g.limit.Load()
	return limit > 0 && g.taken() >= limit
}

// Seat is the place of a connection that has one call at a time, or few. The zero
// Seat is that of a newcomer.
type Seat struct{ until atomic.Uint64 } // the epoch in which it is lost

// Take is whether the connection may ask now. Connections that have a seat and ask in each epoch
// keep it, as long as there are not too many, so that some clients get all they ask for, rather
// than all of them too little too late.
func (g *Gate) Take(s *Seat) bool {
	now := g.epoch.Load() + 1 // so that a newcomer's 0 is no epoch
	until := s.until.Load()
	if until == now+1 {
		return true
	}
	limit, taken := g.limit.Load(), g.seats.Load()
	if until != now {
		taken = max(taken, g.before.Load())
	}
	if limit > 0 && taken >= limit {
		return false
	}
	g.Use(s)
	return true
}

// Use takes a seat, even where there is none: a connection with a share of the
// limit is in use.
func (g *Gate) Use(s *Seat) {
	now := g.epoch.Load() + 1
	if until := s.until.Load(); until != now+1 && s.until.CompareAndSwap(until, now+1) {
		g.seats.Add(1)
	}
}

// SetLate is whether work waits. Watcher does.
func (g *Gate) SetLate(yes bool) { g.late.Store(yes) }

// SetShut shuts the gate or opens it. Watcher does.
func (g *Gate) SetShut(yes bool) { g.shut.Store(yes) }

// SetLimit begins an epoch with another limit. Watcher does.
func (g *Gate) SetLimit(limit int) {
	g.limit.Store(int64(limit))
	g.before.Store(g.seats.Swap(0))
	g.epoch.Add(1)
}
