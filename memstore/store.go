// Package memstore keeps the states of limits in memory. It is bounded, needs
// no sweeper, and decides several limits together, all or nothing.
//
// Each rule has a table of its own, so that a flood of one rule's keys can't
// push out another's. A table holds fingerprints of its keys, 64 bits of a
// keyed hash, and states, without pointers. It is cut into segments, which have
// a lock each and grow by small steps, so that it is never laid out anew as a
// whole. A state that is as never used is
// free: the next key may have its place. In a full table the place of the
// key nearest to never used is taken, and its use is forgotten; a key that is
// denied at the moment is never forgotten. Where only such keys are left,
// newcomers share the overflow state of their part of the table: together they
// get no more than one key would, so perhaps they are denied early, but nobody
// gets through.
//
// Two keys of a rule that share a fingerprint share their count: either may be
// denied early, and neither gets more than the limit. That any two of n keys do
// has a probability of n²/2^65: 1 in 37 million for a million keys, 1 in 3,700
// for 100 million. Nobody can choose such keys without the secret of the hash.
//
// The store reads the wall clock. When that steps back, what is used stays used
// until it has caught up.
//
// A take of one key finds the table by its rule, in a cache of 256 or under a lock for reading;
// hashes the key; finds the segment by the first bits of the fingerprint; locks it; finds the
// slot in one of two buckets; and has the limit decide on the state there, and change it in its
// place. The table and the segment are found without the segment's lock, so the take looks again
// under it whether both still hold. Everything else is what happens when the key has no slot,
// the limit has changed, or a take has several asks.
//
// In the code, tables.go is the way from a rule to its table, table.go that from a
// fingerprint to its segment, segment.go what a
// segment does under its lock, cells.go how slots lie in buckets of cache lines, grow.go
// how a segment grows and splits, slab.go where states lie that grow, brought.go the room
// that limits share that come with requests, change.go the tables of a rule whose limit
// has changed, own.go the keys that have limits of their own, take.go the fast and the whole way of a take, few.go the
// fast way of a few limits, snapshot.go and restore.go the file.
package memstore

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// DefaultMaxKeys is how many keys a rule may have when Options say nothing.
const DefaultMaxKeys = 1_000_000

// mostKeys bounds MaxKeys.
const mostKeys = 1 << 30

// MaxRules is how many rules a store keeps states of. Beyond it, rules all of
// whose keys are as never used make place; when there is none, Take fails.
const MaxRules = 1 << 17

// ErrTooManyRules is returned by Take for a rule beyond MaxRules.
var ErrTooManyRules = errors.New("memstore: states of too many rules; drop rules that are not needed")

// Options of a store.
type Options struct {
	// MaxKeys is how many keys in use each rule has room for at a time. A table
	// grows with use up to about 4/3 slots for each of them, for a table works
	// badly when it is nearly full. 0 means DefaultMaxKeys; at most 2^30.
	MaxKeys int
}

// Store is a weir.Store in memory. It must be made by New or Open.
//
// Locks are taken in one order, so that no two goroutines wait for each other:
//
//  1. mu, for the tables of all rules. A take has let go of it before it locks a
//     segment; a goroutine that holds it may lock segments.
//  2. The segments of a take: by the order of their tables, then by fingerprint. A
//     take holds all of them at once, and so decides all its asks at one moment.
//  3. table.mu, slabs.mu, and the locks of own, once and receipts. Their holders take no
//     other lock.
//
// Three things are read without a lock: recent, a table's directory, and the copies
// of denied keys. Each says how its reader finds out that it has read something old.
//
// Every instant is in whole microseconds since 1970. A call whose name ends in At gets its
// instant from the caller, any other reads clock. No decision reads a clock in between: all asks
// of a take are decided for one instant.
type Store struct {
	clock *clock
	// hash makes the fingerprints of all tables, so that a key has the same one in each. Only
	// Open changes it, before anybody else has the store.
	hash hasher
	// bound is how large the table of each rule may become. It never changes.
	bound bound
	// file is where Save keeps the counts; empty: nowhere.
	file string

	// recent are tables asked for lately, read without mu. They are put in under mu, and
	// dropUnused takes all out under mu, so that no table stays in that it drops. One
	// that tidy drops may stay; its empty versions say so.
	recent recent

	mu sync.RWMutex
	// tables are by rule, at most MaxRules; of a rule with several, any one of them, which
	// knows all.
	tables  map[string]*table
	made    int       // tables made so far, for their order: no two have the same
	dropped time.Time // when unused tables were dropped last

	// receipts are those that were settled, so that each works once. Only slow takes,
	// those that want a receipt, and settlements ask it.
	receipts record.Receipts
	busy     atomic.Int64 // given up with weir.ErrBusy
	// once has the answers to takes that are to charge once, though they come several times.
	once once
	// brought bounds the tables of limits that came with requests, all together.
	brought brought
}

// New makes an empty store.
func New(o Options) *Store {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	s := &Store{
		clock: newClock(), hash: hasher{seed: maphash.MakeSeed()},
		bound: newBound(min(o.MaxKeys, mostKeys)), tables: map[string]*table{},
	}
	s.once.seed = s.hash.seed
	s.brought.most = int64(s.bound.slots) << s.bound.depth
	return s
}

// Traits tell that all asks of a take are decided at one moment, by one clock.
func (s *Store) Traits() weir.Traits {
	return weir.Traits{Atomic: true, OwnClock: true, Evidence: true}
}

// Take decides the asks at the time of the wall clock. A take that fails has charged nothing:
// all that can fail comes before the first state is changed.
func (s *Store) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if lone(asks, out) {
		return s.takePlain(s.clock.now(), asks[0].State, asks[0].Limit, asks[0].Cost, &out[0])
	}
	return s.takeSeveral(s.clock.now(), asks, out)
}

// TakeAt is Take at a time of the caller's, for simulations and replays.
func (s *Store) TakeAt(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	if lone(asks, out) {
		return s.takePlain(now, asks[0].State, asks[0].Limit, asks[0].Cost, &out[0])
	}
	return s.takeSeveral(now, asks, out)
}

// TakeOne decides one limit about a cost at the time of the wall clock.
func (s *Store) TakeOne(ctx context.Context, key weir.StateKey, l *weir.Limit, cost int64) (d weir.Decision, err error) {
	if err := ctx.Err(); err != nil {
		return d, err
	}
	err = s.takePlain(s.clock.now(), key, l, cost, &d)
	return d, err
}

// TakeAll decides several limits about a cost of one key at the time of the wall clock.
func (s *Store) TakeAll(ctx context.Context, key string, rules []string, limits []*weir.Limit, cost int64, out []weir.Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := s.clock.now()
	// The fast way says no before it has changed anything, so the whole way may begin anew. That
	// refuses a cost that no limit can decide about.
	if len(limits) <= maxFew && uint64(cost) <= weir.MaxCost && s.takeKey(now, key, rules, limits, cost, out) {
		return nil
	}
	return s.takeAsks(now, key, rules, limits, cost, out)
}

var _ weir.Plain = (*Store)(nil)

// Settle settles receipts at the time of the wall clock.
func (s *Store) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.SettleAt(s.clock.now(), settlements)
}

// SettleAt is Settle at a time of the caller's.
//
// The segments are locked before it is asked whether a receipt was settled already, and stay
// locked until the states are changed. So the same settlement, come again, waits for the first
// and then learns that it is done.
func (s *Store) SettleAt(now weir.Instant, settlements []weir.Settlement) error {
	if len(settlements) == 0 {
		return nil
	}
	var some [4]weir.Ask
	var few [4]place
	asks := some[:0]
	for i := range settlements {
		r := settlements[i].Receipt
		// A peek: the limit of a receipt that no table understands gets none for it.
		asks = append(asks, weir.Ask{State: r.State, Limit: r.Limit, Peek: true})
	}
	places, changed, err := s.lockAll(asks, few[:0], now)
	if err != nil {
		return err
	}
	defer unlock(places)
	if err := s.receipts.Settle(now, settlements); err != nil {
		return err
	}
	done, failed := false, error(nil)
	for i := range settlements {
		err := settle(places, i, changed, now, &settlements[i])
		done = done || err == nil
		// An expired permit says more than a limit that has none.
		if err != nil && (failed == nil || errors.Is(err, weir.ErrExpired)) {
			failed = err
		}
	}
	if done {
		return nil
	}
	return failed
}

// settle settles the receipt of one ask, whose places are locked.
func settle(places []place, ask int, changed bool, now weir.Instant, st *weir.Settlement) error {
	if changed {
		return settleVersions(places, ask, now, st)
	}
	p := &places[slices.IndexFunc(places, func(p place) bool { return p.ask == ask })]
	return p.segment.settle(p.print, now, st)
}

// Reset forgets what was used of the keys, at the time of the wall clock.
// Receipts of their rules from before then give nothing back.
func (s *Store) Reset(ctx context.Context, keys []weir.StateKey) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.ResetAt(s.clock.now(), keys)
}

// ResetAt is Reset at a time of the caller's. Each key is reset at one moment, in all tables of
// its rule, but not all keys at the same: a take of two of them may come in between.
func (s *Store) ResetAt(now weir.Instant, keys []weir.StateKey) error {
	for _, k := range keys {
		places, _, err := s.lockAll([]weir.Ask{{State: k, Peek: true}}, nil, now)
		if err != nil {
			return err
		}
		for i := range places { // all while all are locked, so that no take carries a count over
			places[i].segment.reset(places[i].print, now)
			if o := places[i].table.own.Load(); o.has(places[i].print) {
				o.drop(places[i].print)
				places[i].table.forget(now)
			}
		}
		unlock(places)
	}
	return nil
}

// Stats are counts of a store since it was made.
type Stats struct {
	Rules    int   // tables
	Slots    int   // places for keys
	Evicted  int64 // keys whose use was forgotten in a full table
	Overflow int64 // asks decided by an overflow state
	Settled  int   // settled receipts remembered
	Refused  int64 // takes that were refused a receipt, since too many of a rule were settled
	Busy     int64 // takes, settlements and resets given up with weir.ErrBusy
	Own      int64 // keys that have a limit of their own, or had one lately
	OwnFull  int64 // takes of such a key that found no room: they passed only what their rule's limit lets pass, too
}

// Stats adds up the counts of all tables. It locks one segment at a time, so takes go on, and the
// sums are not of one moment.
func (s *Store) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	st := Stats{Rules: len(s.tables), Busy: s.busy.Load()}
	st.Settled, st.Refused = s.receipts.Count()
	for _, t := range s.tables {
		if o := t.own.Load(); o != nil {
			st.Own, st.OwnFull = st.Own+o.keys.Load(), st.OwnFull+o.full.Load()
		}
		for _, t := range t.family() {
			t.stats(&st)
		}
	}
	return st
}
