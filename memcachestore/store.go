// Package memcachestore keeps the states of limits in memcached (1.6 or later),
// so that many processes share one count.
//
// One item keeps all limits of a descriptor. It is read, decided on by the same
// functions as in memory, and swapped in if no other process has written meanwhile: two round
// trips, one where this process was the last to write, one for a first denial, and none for those
// like it within a second. Takes of one item that meet in a process are decided one after the other
// and written at once; between processes up to four tries decide, then weir.ErrBusy says that
// nothing was.
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
// Why no limit is passed while memcached keeps an item: a swap names the number that the server
// gave the write which was read (cas), and the server refuses it when there was another since. So
// each write stands on the one before it, and no charge is written over. All limits of a descriptor
// are in one item, hence they are charged together or not at all. A take of several descriptors
// looks at all, charges one after the other and gives back when one denies after all: meanwhile
// others may be denied, and none passes too much.
//
// An answer that is lost may have been a charge; the error says so. It is not tried again, unless
// the take asked for Once: then a note in the same item tells whether it was charged.
//
// Several servers share the items. One that is away is an error for its items;
// no other takes its place.
//
// Open puts the edge around the store that a URL names: see package edge. A Store of Dial is
// without it. Its calls take the time of their context, and about 2 s for each round trip at
// most; Ask.Policy has no effect.
//
// In the code, command.go has the protocol, conn.go pipelines it, lane.go decides takes of
// one item together, item.go is what is kept.
package memcachestore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
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
//
// Goroutines: each lane with jobs has one, each connection has one that reads, and a status has
// one while it asks. All are in own, and Close waits for them. Callers wait on their own
// goroutines and touch nothing of a lane but running and waiting, under mu.
//
// Processes act on each other through the items alone. A process that crashes takes with it what
// it knew of items, denials and sightings; none of it is a count.
type Store struct {
	// These never change. The order of servers is that of the URL; which of them has an item
	// depends on their addresses alone.
	prefix  string
	servers []*server
	clock   func() weir.Instant // nil: the wall clock
	longer  int64               // seconds that items are kept longer, where clock is not the wall's

	ctx    context.Context // until Close; of what the store does by itself
	cancel context.CancelFunc
	own    sync.WaitGroup // all goroutines

	// mu is held for moments only, never while a server is asked: takes of all items meet here.
	mu     sync.Mutex // of closed, lanes, and the waiting jobs of each lane
	closed bool
	lanes  map[string]*lane // by the name of their item, about maxLanes at most

	// denials remember denied takes for record.DenialLife, and answer those like them without a
	// server. Others can only have used more meanwhile, unless something was given back or reset:
	// this is seen when a second is over.
	//
	// They are dated by this process's clock, and so are the decisions: no other clock has a say
	// in how long a denial is remembered.
	denials *record.Denials
	// given is for Reset. A receipt that another process gave by a clock ahead of ours may still
	// give back what it charged just before a reset.
	given  record.Latest // when this process gave its last receipt
	opened time.Time
	seen   sightings // of items, to tell one that was evicted from one that never was
	counts counts
}

// counts are what Stats tells. No decision depends on them.
type counts struct {
	// waiting is the exception: by it submit refuses what is more than maxWaiting.
	waiting, takes, trips, lost, busy, spilled, forgotten atomic.Int64
}

// Traits are: the counts are those of all processes; asks of one placement and
// key are decided at one moment; each process has its own clock; memcached
// evicts; nothing is around the store.
func (s *Store) Traits() weir.Traits {
	t := TraitsOf()
	t.Bare = true
	return t
}

// TraitsOf are those of a store of Open.
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
	if us, _, _ := l.Span(most); weir.Instant(us) > instants(maxKeep) {
		return "it recovers in more than 5 years, and memcached keeps nothing beyond January 2038; take a smaller burst, or a Redis store"
	}
	return ""
}

// Stats are counts of a store since it was made.
type Stats struct {
	Takes      int64 // takes that servers were asked
	Remembered int64 // takes denied by what was remembered of earlier denials, without a server
	Trips      int64 // round trips to servers
	Lost       int64 // writes that came too late, for another process had written
	Busy       int64 // jobs given up with weir.ErrBusy
	Spilled    int64 // notes of receipts and first answers that went to items of their own
	Forgotten  int64 // items that this process saw, and that a server was to keep and did not: evicted, flushed, restarted
}

// Stats are the store's counts.
func (s *Store) Stats() Stats {
	c := &s.counts
	return Stats{c.takes.Load(), s.denials.Answered(), c.trips.Load(), c.lost.Load(), c.busy.Load(), c.spilled.Load(), c.forgotten.Load()}
}

// Close ends what the store does, and waits for it. Takes on their way fail. After closed is set no
// job joins a lane, so no goroutine begins that own would not wait for.
//
// Connections fail first, so rounds that wait for answers end at once, and lanes answer their jobs
// with errors. A call that was sent may have been a charge, and its callers are told so.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	for _, sv := range s.servers {
		for i := range sv.lines {
			sv.lines[i].close()
		}
	}
	s.own.Wait()
	return nil
}

// now is the only clock by which this process decides. It may step back: a count then seems to
// begin later than now, and denies for longer by the step, but passes nothing more.
func (s *Store) now() weir.Instant {
	if s.clock != nil {
		return s.clock()
	}
	return weir.InstantOf(time.Now())
}

// Take decides the asks by the clock of this process. It fills in no evidence of takes
// of several items.
func (s *Store) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := check(asks, out); err != nil || len(asks) == 0 {
		return err
	}
	if s.TakeLocally(asks, out) {
		return nil
	}
	s.counts.takes.Add(1)
	if !record.Groups(asks) {
		return s.takeTogether(ctx, asks, out)
	}
	// Items of several descriptors may be on several servers, and no swap reaches two items. So
	// Apart looks at all of them at once, charges one after the other, and gives back what it has
	// charged when a later one denies or its server fails. In between others may be denied, and
	// none passes too much.
	apart := record.Apart{
		Take:   func(asks []weir.Ask, out []weir.Decision) error { return s.takeTogether(ctx, asks, out) },
		Settle: s.Settle,
	}
	return apart.TakeAll(ctx, asks, out)
}

// TakeLocally decides asks that a remembered denial denies, as Take would, and
// says no to all others.
func (s *Store) TakeLocally(asks []weir.Ask, out []weir.Decision) bool {
	return len(asks) == len(out) && len(asks) > 0 && s.denials.Answer(s.now(), asks, out)
}

// maxLabel is how long the part of a rule after its last # may be. Labels are kept in items as they
// are, not hashed, so their length counts against maxValue.
const maxLabel = 1 << 10

func check(asks []weir.Ask, out []weir.Decision) error {
	for i := range asks {
		if n := len(label(asks[i].State)); n > maxLabel {
			return &record.AskError{Err: fmt.Errorf("memcachestore: the names of limits of one descriptor have %d bytes, and may have %d; give the limit a shorter name", n, maxLabel)}
		}
	}
	return record.Check("memcachestore", unfit, asks, out)
}

// takeTogether takes asks of one item. The job has copies of the asks and decisions: the caller may
// leave before it is done, and reuse its own.
func (s *Store) takeTogether(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	t := record.NewSwap(slices.Clone(asks), make([]weir.Decision, len(out)))
	if err := s.submit(ctx, s.name(asks[0].State), takeJob(t)); err != nil {
		return err
	}
	// The caller's decisions are written only now, by its own goroutine: a caller that left finds
	// them as they were.
	copy(out, t.Out)
	t.End(s.denials, &s.given)
	return nil
}

// Settle settles receipts of one take. Receipts of different items are settled one after the other;
// it fails with weir.ErrSettled when none was settled now.
func (s *Store) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range settlements {
		// It is forgotten when all was written. Were it forgotten before, a take meanwhile could
		// learn anew a denial that the giving back ends.
		defer s.denials.Forget(settlements[i].Receipt.State)
	}
	return record.SettleApart(settlements, record.PlaceOf, func(part []weir.Settlement) error {
		return s.submit(ctx, s.name(part[0].Receipt.State), settleJob(part))
	})
}

// Reset forgets what was used of the keys. Receipts of them from before then
// give nothing back.
func (s *Store) Reset(ctx context.Context, keys []weir.StateKey) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, k := range keys {
		defer s.denials.Forget(k)
	}
	for len(keys) > 0 {
		var first []weir.StateKey
		first, keys = record.Cut(keys, record.Place)
		if err := s.submit(ctx, s.name(first[0]), resetJob(first, &s.given)); err != nil {
			return err
		}
	}
	return nil
}

var _ weir.Looker = (*Store)(nil)

// Look is the states of asks by the clock of this process. States of different items are of
// different moments.
func (s *Store) Look(ctx context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	states, at := make([]weir.State, len(asks)), s.now()
	for i := range asks {
		// Each look goes through the lane of its item and waits behind its takes, one after the
		// other: it is for explanations, and need not be quick.
		j, seen := lookJob(asks[i])
		if err := s.submit(ctx, s.name(asks[i].State), j); err != nil {
			return 0, nil, err
		}
		at, states[i] = seen.at, seen.state
	}
	return at, states, nil
}
