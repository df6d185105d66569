// Package memcachestore keeps the states of limits in memcached (1.6 or later),
// so that many processes share one count.
//
// Package cas in internal decides: one item keeps all limits of a descriptor, is read, decided on by
// the same functions as in memory, and swapped in if no other process has written meanwhile.
//
// Memcached has no clock that could decide, so each process brings its own. When
// these differ by up to s, a limit lets through in any interval what it promises
// for one that is longer by s: Limit.Bound(width + s), for an s of up to 2 s. That
// is why strict limits are refused.
//
// Memcached also forgets: an item that is evicted, flushed or lost with its server
// is as never used, and may pass its limit again. Stats.Forgotten and
// Status.Evictions tell. Started with -M it evicts nothing, but drops a count that
// it has no room to write; the error says so.
//
// Several servers share the items. One that is away is an error for its items;
// no other takes its place.
//
// Open puts the edge around the store that a URL names: see package edge. A Store of Dial is
// without it. Its calls take the time of their context, and about 2 s for each round trip at
// most; Ask.Policy has no effect.
//
// In the code, command.go has the protocol, conn.go pipelines it, cells.go is what the engine is given.
package memcachestore

import (
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cas"
)

// DefaultPrefix is what the names of all items begin with when Options say
// nothing.
const DefaultPrefix = "weir:"

// Options of a store.
type Options struct {
	// Prefix is what the names of all items begin with: up to 64 letters, digits
	// and other visible ASCII. Empty: DefaultPrefix.
	Prefix string
}

// Store is a weir.Store in memcached. It must be made by Dial and closed. Its
// methods may be called from many goroutines.
type Store struct {
	*decides

	prefix string
	cells  *cells
}

// decides has the methods of a weir.Store, Stats and Close.
type decides = cas.Engine

// Stats are counts of a store since it was made.
type Stats = cas.Stats

// TraitsOf are those of a store of Open: the counts are those of all processes; asks of one
// placement and key are decided at one moment; each process has its own clock; memcached evicts.
func TraitsOf() weir.Traits {
	return weir.Traits{Shared: true, Forgets: true, Evidence: true, Unfit: unfit}
}

// maxKeep is how long a count may have to be kept. Memcached's expiry ends in
// January 2038: an item that needed more would be dropped too early, and pass its limit again.
//
// Beyond 30 days a time is told to memcached as an end, not as a length, so what is kept longer
// depends on two clocks.
const maxKeep = 5 * 365 * 24 * time.Hour

// unfit says of limits that memcached can't keep why, and what to take instead. A limit that
// promises that no window ever holds more needs one clock for all who decide. Permits are not fit
// because a server may evict them while they are held: then more would be given out than there are.
// For all other limits only the bound grows, by how far clocks are apart.
func unfit(l *weir.Limit) string {
	s := l.Spec()
	const clocks = "promises that no window ever holds more, and memcached has no clock that all share; take "
	switch {
	case s.Algorithm == weir.SlidingLog:
		return "sliding-log " + clocks + "sliding-window 60, or a Redis store"
	case s.Algorithm == weir.Concurrent:
		return "memcached may forget permits that are held; take a Redis store, or keep permits with memory:"
	case s.Algorithm == weir.WarmUp:
		return "warm-up works in memory only; take leaky-queue, or keep counts with memory:"
	case s.Algorithm == weir.SlidingWindow && s.Mode == weir.Conservative:
		return "conservative " + clocks + "sliding-window without it, or a Redis store"
	case s.Algorithm != weir.SlidingWindow && s.Mode == weir.Strict:
		return "strict " + clocks + "a smaller burst without it, or a Redis store"
	}
	most := s.Burst + s.Debt
	if s.Algorithm == weir.LeakyQueue {
		most = *s.Queue + 1
	}
	if us, _, _ := l.Span(most); us > int64(maxKeep/time.Microsecond) {
		return "it recovers in more than 5 years, and memcached keeps nothing beyond January 2038; take a smaller burst, or a Redis store"
	}
	return ""
}
