// Package synced decides locally what a shared store would decide, for asks with
// Sync: by what it last knew of the store and what it has let pass since. It tells
// the store in the background, within that time or as soon as much is unreported, so
// that a hot key costs the store some calls a second however often it is asked
// for. By that, each node may let weir.Limit.Unsynced events pass beyond the limit, and no more.
//
// A take is decided locally when all its asks can be; else the store decides the
// whole of it. That holds for asks without Sync, or that cost more than may be
// unreported, that want a receipt, to wait, to take what fits or to charge once, and
// for work that is reported. So do the first ask of a key, and denials that the
// node has not confirmed for twice the time of Sync.
//
// ledger.go is what a node knows of one count, as pure functions of a time on the store's
// clock; store.go decides by ledgers what it can and asks the guard for the rest;
// flight.go tells the store of what queue.go says is due.
package synced

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/unreported"
)

// Store is a weir.Store that decides locally what it can. It must be made by New
// and closed. Its methods may be called from many goroutines.
//
// Locks are taken in this order: entries, by their keys (lock); then a shard of the table; then the
// queue. None is held while the store is asked. The first take of a key always goes to the guard, and
// brings the key into the table: so a key that is dropped and comes again passes nothing for free.
type Store struct {
	guard *guard.Guard
	table unreported.Table[*entry]
	queue queue

	// closed is set before done is closed. A take that has locked its entries and finds it unset is
	// charged before Close looks for what is left, for Close locks them, too.
	closed  atomic.Bool
	done    chan struct{}  // closed by Close
	running sync.WaitGroup // run, and the reports that it has begun
	// flying has an element for each report of run that is under way; run adds it before it looks
	// for due entries. Its capacity is maxFlights or maxSingle.
	flying chan struct{}
	counts counts
}

type counts struct {
	local, store, calls, events, noRoom atomic.Int64
}

// Stats are counts of a store since it was made.
type Stats struct {
	Keys   int   // kept locally now
	Local  int64 // takes with Sync that were decided locally
	Store  int64 // takes with Sync that the store was asked about
	Calls  int64 // calls that told the store, or looked
	Events int64 // events that it was told of
	NoRoom int64 // takes that found no room for their keys
}

// New makes a store around a guard. The guard's store must give evidence: else
// there is nothing to know, and it decides all.
func New(g *guard.Guard) *Store {
	s := &Store{guard: g, done: make(chan struct{}), flying: make(chan struct{}, maxFlights)}
	s.initTable()
	if s.table.Batch() == 1 {
		s.flying = make(chan struct{}, maxSingle)
	}
	s.queue.wake = make(chan struct{}, 1)
	s.running.Go(s.run)
	return s
}

// Close reports to the store what it does not know, as far as it can be reached in the time of ctx, and
// ends. Takes that come later are the store's to decide. It first waits for reports that are under way,
// whatever ctx says: these have the time of a call each. When usage is lost, it fails with weir.ErrAway,
// and says of how many keys. A second Close does nothing, and does not wait for the first.
func (s *Store) Close(ctx context.Context) error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	close(s.done)
	s.running.Wait()
	return s.reportLast(ctx)
}

// Traits are those of the store.
func (s *Store) Traits() weir.Traits { return s.guard.Traits() }

// Stats are the store's counts.
func (s *Store) Stats() Stats {
	c := &s.counts
	return Stats{s.table.Len(), c.local.Load(), c.store.Load(), c.calls.Load(), c.events.Load(), c.noRoom.Load()}
}

// maxRounds is how often a take waits until the store was told, before it asks the
// store itself. One report may not do: a hot key may be full again, by other callers who waited for it.
const maxRounds = 4

// Take decides locally, or asks the store. The evidence of a take decided locally is what
// the node knew. A take that needs a report first waits for it, and is tried again: on a hot key
// thousands of callers wait for one report, and not each of them asks the store.
func (s *Store) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if len(asks) != len(out) {
		return errors.New("synced: as many decisions as asks are needed")
	}
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	for range maxRounds {
		decided, told := s.decide(asks, out)
		if decided {
			s.counts.local.Add(1)
			return nil
		}
		if told == nil || !s.wait(ctx, told) {
			break
		}
	}
	return s.ask(ctx, asks, out)
}

// wait waits for what is told, at most half of the caller's time, so that the other half is there for the
// store. A caller without a deadline waits until the report has ended, which the guard sees to.
func (s *Store) wait(ctx context.Context, told <-chan struct{}) bool {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	select {
	case <-told:
		return true
	case <-ctx.Done():
		return false
	case <-s.done:
		return false
	}
}

// mayDecide is whether a node may answer a by itself. Receipts and Once need the store's memory, and a
// wait needs a slot that no other node's client gets. Reported work (After) is charged beyond the limit,
// where no ledger may go.
func mayDecide(a *weir.Ask) bool {
	return a.Limit != nil && a.Policy.Sync > 0 && a.Receipt == 0 && !a.Once && a.MaxHold == 0 && a.AtLeast == 0 && !a.After
}

// decide decides a take locally. When it can't, told may be closed once the store
// was told: then it is worth another try.
//
// All ledgers say what they would do before the first is charged, under the locks of all: so the take
// is charged whole or not at all, as in a store. Where one of them can't, nothing is charged, and out has
// no meaning yet.
func (s *Store) decide(asks []weir.Ask, out []weir.Decision) (decided bool, told <-chan struct{}) {
	var few [4]*entry
	found := few[:0]
	for i := range asks {
		if !mayDecide(&asks[i]) {
			return false, nil
		}
		e, ok := s.table.Get(asks[i].State)
		if !ok {
			return false, nil
		}
		found = append(found, e)
	}
	if len(found) == 0 || !lock(found) {
		return false, nil
	}
	defer unlock(found)
	if s.closed.Load() {
		return false, nil // nobody would tell the store
	}
	now := time.Now()
	for i, e := range found {
		if e.Dropped() || !e.ledger.fits(&asks[i]) {
			return false, nil // of another limit: not asked for
		}
		e.asked++
	}
	for i, e := range found {
		switch e.ledger.decide(e.now(now), &asks[i], &out[i]) {
		case byStore:
			return false, nil
		case tell:
			if e.failed {
				return false, nil
			}
			s.hurry(e)
			return false, e.Answer()
		case byNode:
		}
	}
	s.commit(found, now, asks, out)
	return true, nil
}

// commit carries out what all ledgers have decided, while they are locked. A key is reported early
// when three quarters of what may be unreported are, so that callers seldom have to wait.
func (s *Store) commit(found []*entry, now time.Time, asks []weir.Ask, out []weir.Decision) {
	pass := weir.Resolve(asks, out)
	if weir.WantsEvidence(asks, pass) {
		for i, e := range found {
			asks[i].Evidence.Tell(e.now(now), e.ledger.view)
		}
	}
	for i, e := range found {
		e.ledger.commit(e.now(now), &asks[i], &out[i])
		if out[i].Charged && e.ledger.full() && !e.failed {
			s.hurry(e)
		}
	}
}

// ask asks the store, and learns how the counts stand. A fallback may have decided instead: then there is
// no evidence, and the ledger learns nothing. The store decides without what this node has yet to tell;
// that is the node's own part of the bound in docs/decisions/0010.
func (s *Store) ask(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if s.closed.Load() || !slices.ContainsFunc(asks, func(a weir.Ask) bool { return a.Policy.Sync > 0 }) {
		return s.guard.Take(ctx, asks, out)
	}
	s.counts.store.Add(1)
	seen := witnessed(asks)
	began := time.Now()
	if err := s.guard.Take(ctx, seen, out); err != nil {
		return err
	}
	pass := weir.Resolve(asks, slices.Clone(out))
	for i := range seen {
		e := seen[i].Evidence
		if e.Told {
			asks[i].Evidence.Tell(e.At, e.State)
		}
		if !pass {
			e.Clear() // it may have been remembered on the way, and be older than it says
		}
	}
	heard := time.Now()
	for i := range asks {
		if asks[i].Limit.Unsynced(asks[i].Policy.Sync) > 0 {
			s.learn(&seen[i], &out[i], began, heard)
		}
	}
	return nil
}

// witnessed is asks with evidence of their own, also of a take that passes: from it the node learns
// how the counts stand, without a call of its own.
func witnessed(asks []weir.Ask) []weir.Ask {
	own, seen := slices.Clone(asks), make([]weir.Evidence, len(asks))
	for i := range own {
		seen[i].Always = true
		own[i].Evidence = &seen[i]
	}
	return own
}

// learn keeps a key, with what a take has shown of it. In a full table the key stays the store's, and keys
// that are hardly asked for are reported early, to be dropped. A ledger of another limit begins anew.
func (s *Store) learn(a *weir.Ask, d *weir.Decision, began, heard time.Time) {
	e, ok := s.table.Add(a.State)
	if !ok {
		s.counts.noRoom.Add(1)
		s.queue.makeRoom(heard)
		return
	}
	defer e.Unlock()
	if e.ledger.limit == nil || !e.ledger.fits(a) {
		e.ledger.init(a)
	}
	if a.Evidence.Told {
		charged := int64(0)
		if d.Charged {
			charged = d.Cost
		}
		e.learn(a.Evidence, began, heard, charged)
	}
	s.queue.add(e, heard.Add(e.ledger.every))
}

// Settle settles receipts in the store: what is decided locally has none.
func (s *Store) Settle(ctx context.Context, settlements []weir.Settlement) error {
	return s.guard.Settle(ctx, settlements)
}

// Reset forgets what was used of the keys, here and in the store. Other nodes may
// still tell it what they have let pass, and see the reset within the time of Sync.
func (s *Store) Reset(ctx context.Context, keys []weir.StateKey) error {
	if err := s.guard.Reset(ctx, keys); err != nil {
		return err // the store remembers all, and is still to hear of the rest
	}
	for _, k := range keys {
		if e, ok := s.table.Find(k); ok {
			e.ledger.forget()
			e.Unlock()
		}
	}
	return nil
}

// Look is the states of asks in the store, with what this node has yet to tell. Events of a report under
// way are left out: the state may have them already. So it may show a little less than was used.
func (s *Store) Look(ctx context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	now, states, err := s.guard.Look(ctx, asks)
	if err != nil {
		return now, states, err
	}
	for i := range asks {
		e, ok := s.table.Find(asks[i].State)
		if !ok {
			continue
		}
		if asks[i].Policy.Sync > 0 && e.ledger.fits(&asks[i]) {
			states[i] = e.ledger.limit.Charge(states[i], now, e.ledger.Pending)
		}
		e.Unlock()
	}
	return now, states, nil
}
