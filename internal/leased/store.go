// Package leased takes portions of limits beforehand and spends them without the store, for asks
// with Lease. A portion is charged in the store like any take, with a receipt. So nothing passes
// beyond the limit, whatever is lost: events that a node took and never spent only deny. It gives
// back what it has not spent when nobody asks for the key any more, when the portion ends, at a reset,
// a change of the limit, and when it closes. internal/synced is the other way round: it passes
// first and tells the store afterwards.
//
// A take is decided locally when all its asks can be; else the store decides the whole of it. That
// holds for asks without Lease, that want a receipt, to wait, to take what fits or to charge once, for
// work that is reported, and for peeks. Where the store denies such a take and the node holds
// events of the same count, it gives them back and asks once more: so a node is never denied for what it
// holds itself.
//
// size.go says how large a portion is and holding.go what a node knows of one count, as pure functions;
// store.go decides by holdings and asks the rest; refill.go takes portions and gives them back; reset.go has the
// store reset counts.
package leased

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/unreported"
)

// Store is a weir.Store that decides locally what it can. It must be made by New
// and closed. Its methods may be called from many goroutines.
//
// Locks are taken in this order: entries, by their keys; then a shard of the table. None is held while
// the store is asked.
type Store struct {
	next Next
	// try asks the store about one ask, and fails where it can't be asked. No fallback decides: what a
	// fallback lets pass is not charged beforehand.
	try   func(ctx context.Context, asks []weir.Ask, out []weir.Decision) error
	table unreported.Table[*entry]
	epoch time.Time // the times of holdings are since then

	closed  atomic.Bool
	began   sync.Once      // run, with the first entry
	done    chan struct{}  // closed by Close
	running sync.WaitGroup // run, refills, and those who give back
	flying  chan struct{}  // an element for each refill under way
	returns chan weir.Settlement
	waiting chan struct{} // an element for each portion that is given back when its events have drained
	resets  resets
	counts  counts
}

// Next is what decides the rest: a weir.Store whose states can be seen.
type Next interface {
	weir.Store
	weir.Looker
}

type counts struct{ local, store, portions, taken, returned, lost, noRoom atomic.Int64 }

// Stats are counts of a store since it was made, and what it holds.
type Stats struct {
	Keys     int   // kept locally now
	Unspent  int64 // events of portions that may still pass here
	Local    int64 // takes with Lease that were decided locally
	Store    int64 // takes with Lease that the store decided
	Portions int64 // portions that were taken from the store
	Taken    int64 // events of them
	Returned int64 // events that were given back
	Lost     int64 // events that could not be given back: they deny until the limit recovers
	NoRoom   int64 // takes that found no room for their keys
}

// entry is a key of which this node holds something, or may. Its Entry's lock covers all.
type entry struct {
	unreported.Entry

	holding Holding
	flight  *flight // the refill under way; nil: none
	// epoch counts resets and changes of the limit: a portion that was on its way then is given back.
	epoch int
	// failed is until when no portion is asked for, since the store could not be asked.
	failed time.Duration
	// asked is when somebody asked last.
	asked time.Duration
}

// flight is a refill that is under way.
type flight struct {
	over chan struct{} // closed at its end
	// cost is what is set aside of it for the caller that began it; 0 when nobody did, or it has left.
	// The entry's lock covers it.
	cost int64
	// These are set before over is closed: the portion that has the caller's events, and whether
	// the store was asked at all.
	granted *weir.Receipt
	failed  bool
}

const (
	// maxRefills is how many portions are asked for at a time. One that finds no room is asked for by
	// the next take; a caller that waits for it asks the store by itself.
	maxRefills = 128
	// maxReturns is how many portions wait to be given back; further ones are not. returners is how
	// many are given back at a time.
	maxReturns = 4096
	returners  = 16
	// maxDraining is how many portions wait until their events have drained, before they are given back. Further
	// ones give back less, at once.
	maxDraining = 4096
	// maxRounds is how often a take is tried again after a refill, for each of its asks.
	maxRounds = 3
	// failedFor is for how long no portion is asked for after one that failed.
	failedFor = 100 * time.Millisecond
)

// New makes a store that asks next whatever it can't decide, and takes its portions by try.
func New(next Next, try func(ctx context.Context, asks []weir.Ask, out []weir.Decision) error) *Store {
	s := &Store{
		next: next, try: try, epoch: time.Now(), done: make(chan struct{}),
		flying: make(chan struct{}, maxRefills), returns: make(chan weir.Settlement, maxReturns), waiting: make(chan struct{}, maxDraining),
	}
	s.table.New = func() *entry { return new(entry) }
	s.table.Init()
	return s
}

// now is the time of holdings.
func (s *Store) now() time.Duration { return time.Since(s.epoch) }

// Traits are those of the store.
func (s *Store) Traits() weir.Traits { return s.next.Traits() }

// Stats are the store's counts. It locks one entry after the other.
func (s *Store) Stats() Stats {
	c := &s.counts
	all := Stats{
		Keys: s.table.Len(), Local: c.local.Load(), Store: c.store.Load(), Portions: c.portions.Load(),
		Taken: c.taken.Load(), Returned: c.returned.Load(), Lost: c.lost.Load(), NoRoom: c.noRoom.Load(),
	}
	now := s.now()
	for _, e := range s.table.All(func(*entry) bool { return true }) {
		e.Lock()
		all.Unspent += e.holding.Left(now)
		e.Unlock()
	}
	return all
}

// leasable is whether a node may answer a by itself. Receipts and Once need the store's memory, and a
// wait needs a slot that no other node's client gets. Reported work (After) is charged beyond the limit,
// where no portion is.
func leasable(a *weir.Ask) bool {
	return a.Policy.Lease > 0 && a.Limit != nil && a.Cost > 0 && a.Cost <= weir.MaxCount && !a.Peek && !a.After &&
		a.Receipt == 0 && a.AtLeast == 0 && a.MaxHold == 0 && (a.Evidence == nil || !a.Evidence.Always)
}

// Take decides locally, or asks the store.
func (s *Store) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	some, all := false, len(asks) == len(out)
	for i := range asks {
		can := leasable(&asks[i])
		some, all = some || asks[i].Policy.Lease > 0, all && can
	}
	if !some || s.closed.Load() {
		return s.next.Take(ctx, asks, out)
	}
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	if all && s.locally(ctx, asks, out) {
		s.counts.local.Add(1)
		return nil
	}
	s.counts.store.Add(1)
	return s.ask(ctx, asks, out)
}

// TakeOneWith is Take of one ask, which is made only where the holding of its key can't decide it.
func (s *Store) TakeOneWith(
	ctx context.Context, p *weir.Policy, key weir.StateKey, l *weir.Limit, cost int64,
) (d weir.Decision, err error) {
	if cost > 0 && p.Lease > 0 && !s.closed.Load() && ctx.Err() == nil {
		if done, _ := s.spend(key, l, cost, p, &d, nil); done {
			s.counts.local.Add(1)
			return d, nil
		}
	}
	asks, out := []weir.Ask{{State: key, Limit: l, Cost: cost, Policy: *p}}, make([]weir.Decision, 1)
	err = s.Take(ctx, asks, out)
	return out[0], err
}

var _ weir.PlainWith = (*Store)(nil)

// locally decides a take by holdings. When that needs a portion, it waits for it, and tries again. It says
// no when the store has to decide; then nothing was charged.
func (s *Store) locally(ctx context.Context, asks []weir.Ask, out []weir.Decision) bool {
	counted := false
	if len(asks) == 1 {
		a, done := &asks[0], false
		if done, counted = s.spend(a.State, a.Limit, a.Cost, &a.Policy, &out[0], a.Evidence); done {
			return true
		}
	}
	var found [few]*entry
	var paid [few]*weir.Receipt
	var waited [few]bool
	t := take{asks: asks, out: out, counted: counted}
	if n := len(asks); n <= few {
		t.found, t.paid, t.waited = found[:n], paid[:n], waited[:n]
	} else {
		t.found, t.paid, t.waited = make([]*entry, n), make([]*weir.Receipt, n), make([]bool, n)
	}
	for range maxRounds * len(asks) {
		if !s.find(&t) {
			break
		}
		short := s.decide(&t)
		if short == decided {
			unlock(t.found)
			return true
		}
		if short == late {
			unlock(t.found)
			break
		}
		e := t.found[short]
		f, first := s.refill(e, &asks[short])
		unlock(t.found)
		if f == nil || !s.await(ctx, e, f, first) {
			break
		}
		for i := range t.waited {
			t.waited[i] = t.paid[i] != nil
		}
		if first {
			t.paid[short] = f.granted
		}
	}
	s.unpay(&t)
	return false
}

// spend decides one ask as a take of its own, where the holding of its key can. It is what nearly all
// takes are, so it asks for no memory. counted tells that the cost is among what is wanted of the key.
func (s *Store) spend(
	k weir.StateKey, l *weir.Limit, cost int64, p *weir.Policy, d *weir.Decision, seen *weir.Evidence,
) (done, counted bool) {
	e, ok := s.table.Get(k)
	if !ok {
		return false, false
	}
	now := s.now()
	e.Lock()
	defer e.Unlock()
	if e.Dropped() || !e.holding.Fits(l, p) {
		return false, false
	}
	e.asked = now
	if e.holding.Wants(cost); e.holding.Decide(now, cost, d) != ByNode {
		return false, true
	}
	d.Charged = d.Outcome == weir.Allowed
	e.holding.Commit(now, d)
	if !d.Charged {
		e.holding.tellEvidence(seen)
	}
	s.tend(e, now, l, p)
	return true, true
}

// few is how many limits most takes have at most: these ask for no memory.
const few = 4

// take is a take on its way through the holdings of its keys.
type take struct {
	asks  []weir.Ask
	out   []weir.Decision
	found []*entry // locked, by ask, between find and unlock
	// paid is by ask the portion that was asked for it and that has its events set aside; nil: none. They
	// pass when the answer comes, as the events of any take do, or, if another ask has to wait after that
	// (waited), like all others of the portion: as long as it has them.
	paid   []*weir.Receipt
	waited []bool
	// counted tells that its costs are among what is wanted of its keys.
	counted bool
}

// find locks the entries of a take, and makes those that are not there. It says no, and has locked none,
// where there is no room, or a key is there twice: that is the store's to refuse.
func (s *Store) find(t *take) bool {
	now := s.now()
	for i := range t.asks {
		e, ok := s.table.Get(t.asks[i].State)
		if !ok {
			if e, ok = s.table.Add(t.asks[i].State); !ok {
				s.counts.noRoom.Add(1)
				return false
			}
			e.asked = now
			e.Unlock()
			s.began.Do(s.begin)
		}
		t.found[i] = e
	}
	if !lock(t.found) {
		return false
	}
	for i, e := range t.found {
		if e.Dropped() || s.closed.Load() && t.paid[i] == nil {
			unlock(t.found)
			return false
		}
		e.asked = now
		a := &t.asks[i]
		if !e.holding.Fits(a.Limit, &a.Policy) {
			s.giveBack(e, now)
			e.holding.Begin(now, a.Limit, &a.Policy)
			e.epoch++
		}
		if !t.counted {
			e.holding.Wants(a.Cost)
		}
	}
	t.counted = true
	return true
}

// decide says this in place of the index of an ask.
const (
	decided = -1
	late    = -2 // what was set aside has melted meanwhile
)

// decide decides a take whose entries are locked, and charges it. Where an ask needs a portion, it is that
// one's index, and nothing has changed.
func (s *Store) decide(t *take) (short int) {
	now := s.now()
	for i, e := range t.found {
		if t.paid[i] != nil {
			if t.waited[i] && !e.holding.Has(now, t.paid[i]) {
				return late
			}
			t.out[i] = weir.Decision{Outcome: weir.Allowed, Cost: t.asks[i].Cost}
		} else if v := e.holding.Decide(now, t.asks[i].Cost, &t.out[i]); v == ByStore {
			return late
		} else if v != ByNode {
			return i
		}
	}
	pass := weir.Resolve(t.asks, t.out)
	for i, e := range t.found {
		if d := &t.out[i]; t.paid[i] == nil {
			e.holding.Commit(now, d)
		} else {
			if !d.Charged {
				s.unspend(e, t.paid[i], t.asks[i].Cost)
			}
			e.holding.have = e.holding.Left(now)
			e.holding.tell(now, d)
		}
		s.tend(e, now, t.asks[i].Limit, &t.asks[i].Policy)
	}
	known := !slices.ContainsFunc(t.found, func(e *entry) bool { return !e.holding.seen.Told })
	if known && weir.WantsEvidence(t.asks, pass) {
		for i, e := range t.found {
			e.holding.tellEvidence(t.asks[i].Evidence)
		}
	}
	return decided
}

// unpay gives back what was set aside for a take that the store decides.
func (s *Store) unpay(t *take) {
	for i, r := range t.paid {
		if r == nil {
			continue
		}
		if e, ok := s.table.Find(t.asks[i].State); ok {
			s.unspend(e, r, t.asks[i].Cost)
			e.Unlock()
		}
	}
}

// unspend has the events of a request, which is not to pass, be those of the portion of e again, which is
// locked.
func (s *Store) unspend(e *entry, of *weir.Receipt, cost int64) {
	if !e.holding.Unspend(of, cost) {
		s.counts.lost.Add(cost)
	}
	s.trim(e)
}

// trim gives back a portion of e, which is locked, that is larger than what a node holds beforehand: it was made
// for a request that did not pass.
func (s *Store) trim(e *entry) {
	h, now := &e.holding, s.now()
	if h.receipt != nil && h.Left(now) > Largest(h.limit) {
		s.giveBack(e, now)
	}
}

// ask has the store decide. What it denies while this node holds events of the same count is asked once
// more, when they are given back: but not where a denial leaves a trace, or work that is done would be
// charged twice.
func (s *Store) ask(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if err := s.next.Take(ctx, asks, out); err != nil {
		return err
	}
	again, denied := true, false
	for i := range asks {
		a, d := &asks[i], &out[i]
		if a.Peek || a.Cost == 0 {
			s.see(a, d)
		}
		again = again && !a.After && !a.Peek && !a.Limit.DenialCounts() && d.Degraded == ""
		denied = denied || a.Policy.Lease > 0 && d.Outcome == weir.Denied && !a.Shadow
	}
	if again && denied && s.release(ctx, asks) {
		return s.next.Take(ctx, asks, out)
	}
	return nil
}

// see adds to what a peek has seen what this node holds beside.
func (s *Store) see(a *weir.Ask, d *weir.Decision) {
	if a.Policy.Lease <= 0 || d.Degraded != "" {
		return
	}
	e, ok := s.table.Find(a.State)
	if !ok {
		return
	}
	defer e.Unlock()
	left := e.holding.Left(s.now())
	if left == 0 || !e.holding.Fits(a.Limit, &a.Policy) {
		return
	}
	d.Remaining, d.NextAfter = min(d.Remaining+left, e.holding.whole), 0
	if d.Outcome == weir.Denied && a.Cost <= d.Remaining {
		d.Outcome, d.RetryAfter = weir.Allowed, 0
	}
}

// Settle settles receipts in the store: what is decided locally has none.
func (s *Store) Settle(ctx context.Context, settlements []weir.Settlement) error {
	return s.next.Settle(ctx, settlements)
}

// Look is the states of asks in the store, when this node has given back what it holds of them.
func (s *Store) Look(ctx context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	s.release(ctx, asks)
	return s.next.Look(ctx, asks)
}

// lock locks entries in one order for all, so that takes in any order never wait for each other in a
// circle. Not when one is there twice.
func lock(entries []*entry) bool {
	var some [few]*entry
	sorted := append(some[:0], entries...)
	for i := range sorted {
		for j := i; j > 0 && sorted[j].before(sorted[j-1]); j-- {
			sorted[j], sorted[j-1] = sorted[j-1], sorted[j]
		}
	}
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return false
		}
	}
	for _, e := range sorted {
		e.Lock()
	}
	return true
}

func (e *entry) before(o *entry) bool {
	return cmp.Or(strings.Compare(e.Key.Rule, o.Key.Rule), strings.Compare(e.Key.Key, o.Key.Key)) < 0
}

func unlock(entries []*entry) {
	for _, e := range entries {
		e.Unlock()
	}
}
