// Package overload keeps the daemon answering in time when more is asked of it
// than it can do. It measures how long work waits for a processor, and tells
// each door how many calls to have in flight. Doors hold clients back by what
// their protocol has for it, and refuse what comes all the same: to refuse a
// call costs a good part of what it costs to decide it.
package overload

import (
	"sync/atomic"
	"time"
)

// How long work may wait. Envoy gives up after 20 ms unless told otherwise. What
// waits for half of that is too much; a limit aims for a quarter, and a call that
// would wait longer than the whole is not taken up.
const (
	target = 5 * time.Millisecond
	most   = 10 * time.Millisecond
	lost   = 20 * time.Millisecond
)

// Newcomer is how long a door waits after each new connection while it is full:
// to set one up costs more than an answer. Others wait in the backlog.
const Newcomer = 2 * time.Millisecond

// Gate is one door's side. Its methods may be called at once by many. The zero
// Gate is open.
type Gate struct {
	limit  atomic.Int64 // of calls in flight; 0 is none
	shut   atomic.Bool
	epoch  atomic.Uint64
	seats  atomic.Int64 // taken in this epoch
	before atomic.Int64 // taken in the one before

	decided, late atomic.Int64 // calls in this epoch
}

// Decided counts a call that was decided.
func (g *Gate) Decided() { g.decided.Add(1) }

// Late counts a call whose caller had given up before its turn came: it waited
// where this package does not see it, on the way in.
func (g *Gate) Late() { g.late.Add(1) }

// Limit is how many calls the door may have in flight, or 0 for any number.
func (g *Gate) Limit() int { return int(g.limit.Load()) }

// Epoch changes when the limit may have changed.
func (g *Gate) Epoch() uint64 { return g.epoch.Load() }

// Shut is whether work waits so long that no call should be taken up.
func (g *Gate) Shut() bool { return g.shut.Load() }

// Full is whether there is a limit and no seat for newcomers.
func (g *Gate) Full() bool {
	limit := g.limit.Load()
	return limit > 0 && max(g.seats.Load(), g.before.Load()) >= limit
}

// Seat is the place of a connection that has one call at a time, or few. The zero
// Seat is that of a newcomer.
type Seat struct{ until atomic.Uint64 } // the epoch in which it is lost

// Take is whether the connection may ask now. Those that have a seat and ask in
// each epoch keep it, as long as there are not too many, so that some clients
// get all they ask for, rather than all of them too little too late.
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
	if s.until.CompareAndSwap(until, now+1) { // else another call has taken it
		g.seats.Add(1)
	}
	return true
}

// SetShut shuts the gate or opens it. Watcher does.
func (g *Gate) SetShut(yes bool) { g.shut.Store(yes) }

// SetLimit begins an epoch with another limit. Watcher does.
func (g *Gate) SetLimit(limit int) {
	g.limit.Store(int64(limit))
	g.before.Store(g.seats.Swap(0))
	g.epoch.Add(1)
}
