// Package pgstore keeps the states of limits in PostgreSQL (14 or later), so that many processes
// share one count, and a program that has PostgreSQL needs no other server.
//
// Package cas in internal decides: one row keeps all limits of a descriptor, is read, decided on by the
// same functions as in memory, and swapped in if no other process has written meanwhile. Swaps and
// looks of many rows travel in one statement, so that one connection serves thousands of takes a second.
//
// The store makes its table when it is not there. Where it may not, an error says what an administrator
// has to run; Table and Schema have the same words.
//
// Each process decides by its own clock. When these differ by up to s, a limit lets through in any
// interval what it promises for one that is longer by s: Limit.Bound(width + s), for an s of up to
// 2 s. That is why strict limits are refused. With clock=server each process reckons by the server's
// clock, as near as half of a round trip tells it: Stats.SkewBound says how near.
//
// PostgreSQL forgets nothing to make room. What a failover to a replica that lags has lost may pass once more; an
// unlogged table is emptied when the server crashes.
//
// Open puts the edge around the store that a URL names: see package edge. A Store of Dial is
// without it. Its calls take the time of their context, and about 2 s for each round trip at
// most; before that 1 s for each host that is silent, where a connection has to be made. Ask.Policy
// has no effect.
//
// In the code, cells.go is what the engine is given, gather.go has calls travel together, statement.go
// is the SQL, line.go connects, table.go makes and checks the table, sweep.go deletes what is over.
package pgstore

import (
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cas"
)

// Options of a store. There are none yet: all that can be chosen is in the URL.
type Options struct{}

// Store is a weir.Store in PostgreSQL. It must be made by Dial and closed. Its methods may be called
// from many goroutines.
type Store struct {
	*decides

	cells *cells
}

// decides has the methods of a weir.Store, and Close.
type decides = cas.Engine

// Stats are counts of a store since it was made.
type Stats struct {
	cas.Stats

	Statements  int64         // that read or wrote rows for takes
	Swept       int64         // rows that this process deleted because they were over
	Connections int64         // open now
	SkewBound   time.Duration // how far the clock that decides may be from the server's; 0: it is the process's own
}

// Stats are counts of the store.
func (s *Store) Stats() Stats {
	c := s.cells
	st := Stats{Stats: s.decides.Stats(), Statements: c.statements.Load(), Swept: c.swept.Load(), Connections: c.open.Load()}
	if c.options.serverClock {
		_, st.SkewBound = c.clock.now()
	}
	return st
}

// TraitsOf are those of a store of Open for a URL that CheckURL takes: the counts are those of all
// processes; all asks of a take are decided at one moment, of up to 64 placements and keys; each process has
// its own clock; an unlogged table is emptied when the server crashes.
func TraitsOf(url string) weir.Traits {
	_, o, err := parseURL(url)
	return traitsOf(err == nil && o.unlogged)
}

func traitsOf(unlogged bool) weir.Traits {
	return weir.Traits{Shared: true, Atomic: true, Forgets: unlogged, Evidence: true, Unfit: func(l *weir.Limit) string { return unfit(l, unlogged) }}
}

// unfit says of limits that PostgreSQL can't keep why, and what to take instead. A limit that promises
// that no window ever holds more needs one clock for all who decide, and half of a round trip is not
// nothing. Permits need a table that outlives a crash, for they are held then.
func unfit(l *weir.Limit, unlogged bool) string {
	s := l.Spec()
	const clocks = "promises that no window ever holds more, and PostgreSQL has no clock that decides for all; take "
	switch {
	case s.Algorithm == weir.SlidingLog:
		return "sliding-log " + clocks + "sliding-window 60, or a Redis store"
	case s.Algorithm == weir.Concurrent && unlogged:
		return "an unlogged table is emptied when PostgreSQL crashes, and permits are held then; leave unlogged=1 out"
	case s.Algorithm == weir.WarmUp:
		return "warm-up works in memory only; take leaky-queue, or keep counts with memory:"
	case s.Algorithm == weir.SlidingWindow && s.Mode == weir.Conservative:
		return "conservative " + clocks + "sliding-window without it, or a Redis store"
	case s.Algorithm != weir.SlidingWindow && s.Mode == weir.Strict:
		return "strict " + clocks + "a smaller burst without it, or a Redis store"
	}
	return ""
}
