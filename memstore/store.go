// Package memstore keeps the states of limits in memory. It is bounded, needs
// no sweeper, and decides several limits together, all or nothing.
//
// Each rule has a table of its own, so that a flood of one rule's keys can't
// push out another's. A table holds fingerprints of its keys, 128 bits of a
// seeded hash, and states without pointers. A state that is as never used is
// free: whoever comes next may have its place. In a full table the place of the
// key nearest to never used is taken, and its use is forgotten; a key that is
// denied at the moment is never forgotten. Where only such keys are left,
// newcomers share the overflow state of their part of the table: together they
// get no more than one key would, so perhaps they are denied early, but nobody
// gets through.
//
// The store reads the wall clock. When that steps back, what is used stays used
// until it has caught up.
package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// DefaultMaxKeys is how many keys a rule may have when Options say nothing.
const DefaultMaxKeys = 1_000_000

// mostKeys bounds MaxKeys.
const mostKeys = 1 << 30

// MaxRules is how many rules a store keeps states of. Beyond it, rules all of
// whose keys are as never used make place; when there is none, Take fails.
const MaxRules = 1 << 17

// maxSettled is how many settled receipts a store remembers at a time.
const maxSettled = 1 << 21

// ErrTooManyRules is returned by Take for a rule beyond MaxRules.
var ErrTooManyRules = errors.New("memstore: states of too many rules; drop rules that are not needed")

// Options of a store.
type Options struct {
	// MaxKeys is how many keys in use each rule has room for at a time. A table
	// grows with use up to 16 times a power of two slots, at least twice MaxKeys,
	// for a table works badly when it is nearly full. 0 means DefaultMaxKeys; at
	// most 2^30.
	MaxKeys int
}

// Store is a weir.Store in memory. It must be made by New.
type Store struct {
	maxShard int // slots of a shard

	mu      sync.RWMutex
	tables  map[string]*table
	made    int       // tables made so far, for their order
	dropped time.Time // when unused tables were dropped last

	settled settled
	once    once
}

// New makes an empty store.
func New(o Options) *Store {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	size := minSlots
	for size*shards/2 < min(o.MaxKeys, mostKeys) {
		size *= 2
	}
	return &Store{maxShard: size, tables: map[string]*table{}}
}

// Traits are that all asks of a take are decided at one moment, by one clock.
func (s *Store) Traits() weir.Traits { return weir.Traits{Atomic: true, OwnClock: true} }

// Take decides the asks at the time of the wall clock.
func (s *Store) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	return s.TakeSeen(ctx, asks, out, nil)
}

// TakeAt is Take at a time of the caller's, for simulations and replays.
func (s *Store) TakeAt(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	return s.TakeSeenAt(now, asks, out, nil)
}

// TakeSeenAt is TakeSeen at a time of the caller's.
func (s *Store) TakeSeenAt(now weir.Instant, asks []weir.Ask, out []weir.Decision, see func(weir.Instant, weir.State)) error {
	if len(asks) != len(out) {
		return fmt.Errorf("memstore: %d asks and room for %d decisions", len(asks), len(out))
	}
	var few [4]place
	places := few[:0]
	for i := range asks {
		p, err := s.place(asks[i].State)
		if err != nil {
			return err
		}
		places = append(places, p)
	}
	if len(places) > 1 {
		unlock, err := lock(places)
		if err != nil {
			return err
		}
		defer unlock()
	} else if len(places) == 1 {
		places[0].shard.mu.Lock()
		defer places[0].shard.mu.Unlock()
	}
	id := wanted(asks)
	if id != 0 {
		if found, err := s.once.answered(id, now, out); found || err != nil {
			return err
		}
	}
	for i := range asks {
		sh := places[i].shard
		sh.keep(asks[i].Limit, now)
		out[i] = sh.decide(places[i].print, now, &asks[i], len(asks) > 1)
	}
	pass := weir.Resolve(asks, out)
	if see != nil && weir.Seen(asks, pass) {
		for i := range places {
			state, _ := places[i].shard.look(places[i].print, now)
			see(now, state)
		}
	}
	for i := range asks {
		places[i].shard.tentative, places[i].shard.newcomers = nil, 0
	}
	for i := range asks {
		places[i].shard.commit(places[i].print, now, &asks[i], &out[i])
	}
	if id != 0 {
		s.once.remember(id, out)
	}
	return nil
}

// place is where the state of an ask lives.
type place struct {
	table *table
	index int // of the shard
	shard *shard
	print fingerprint
}

func (s *Store) place(k weir.StateKey) (place, error) {
	s.mu.RLock()
	t := s.tables[k.Rule]
	s.mu.RUnlock()
	if t == nil {
		var err error
		if t, err = s.add(k.Rule); err != nil {
			return place{}, err
		}
	}
	return t.place(k.Key), nil
}

// place is where a key of t lives.
func (t *table) place(key string) place {
	f := t.fingerprint(key)
	i := int(f.high >> (64 - shardBits))
	return place{t, i, &t.shards[i], f}
}

func (s *Store) add(rule string) (*table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tables[rule]; t != nil {
		return t, nil
	}
	if len(s.tables) >= MaxRules {
		if now := time.Now(); now.Sub(s.dropped) > time.Second { // it looks at every state
			s.dropUnused()
			s.dropped = now
		}
		if len(s.tables) >= MaxRules {
			return nil, ErrTooManyRules
		}
	}
	s.made++
	t := newTable(s.made, s.maxShard)
	s.tables[rule] = t
	return t, nil
}

// dropUnused forgets the tables whose states are all as never used. A take that
// has found its table already holds on to it and may charge a state that is
// then forgotten: one take of a rule that nobody had used for its whole period.
func (s *Store) dropUnused() {
	now := weir.InstantOf(time.Now())
	for rule, t := range s.tables {
		if t.unused(now) {
			delete(s.tables, rule)
		}
	}
}

// before is the order in which shards are locked.
func (p *place) before(o *place) int {
	if p.table.order != o.table.order {
		return p.table.order - o.table.order
	}
	return p.index - o.index
}

// lock locks the shards of all places, each once and in one order for all, so
// that takes in any order never wait for each other in a circle.
func lock(places []place) (unlock func(), err error) {
	sorted := slices.Clone(places)
	slices.SortFunc(sorted, func(a, b place) int {
		if c := a.before(&b); c != 0 {
			return c
		}
		return a.print.compare(b.print)
	})
	for i := 1; i < len(sorted); i++ {
		if sorted[i].shard == sorted[i-1].shard && sorted[i].print == sorted[i-1].print {
			return nil, errors.New("memstore: two asks of one take name the same state; add up their costs")
		}
	}
	sorted = slices.CompactFunc(sorted, func(a, b place) bool { return a.shard == b.shard })
	for i := range sorted {
		sorted[i].shard.mu.Lock()
	}
	return func() {
		for i := range sorted {
			sorted[i].shard.mu.Unlock()
		}
	}, nil
}

// Settle settles receipts at the time of the wall clock.
func (s *Store) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.SettleAt(weir.InstantOf(time.Now()), settlements)
}

// SettleAt is Settle at a time of the caller's.
func (s *Store) SettleAt(now weir.Instant, settlements []weir.Settlement) error {
	if len(settlements) == 0 {
		return nil
	}
	places := make([]place, len(settlements))
	var until weir.Instant
	for i := range settlements {
		p, err := s.place(settlements[i].Receipt.State)
		if err != nil {
			return err
		}
		places[i], until = p, max(until, settlements[i].Receipt.Expires)
	}
	err := s.settled.claim(settlements[0].Receipt.ID, until, now, settlements[0].Renew)
	if err != nil && (!errors.Is(err, weir.ErrFull) || !permits(settlements)) {
		return err
	}
	done, failed := false, error(nil)
	for i := range settlements {
		err := places[i].settle(now, &settlements[i])
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

// permits is whether nothing but permits is settled: those tell by themselves
// whether they were.
func permits(settlements []weir.Settlement) bool {
	for i := range settlements {
		if settlements[i].Receipt.Limit.Algorithm() != weir.Concurrent {
			return false
		}
	}
	return true
}

func (p *place) settle(now weir.Instant, st *weir.Settlement) error {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	return p.shard.settle(p.print, now, st)
}

// Reset forgets what was used of the keys, at the time of the wall clock.
// Receipts of their rules from before then give nothing back.
func (s *Store) Reset(ctx context.Context, keys []weir.StateKey) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.ResetAt(weir.InstantOf(time.Now()), keys)
}

// ResetAt is Reset at a time of the caller's.
func (s *Store) ResetAt(now weir.Instant, keys []weir.StateKey) error {
	for _, k := range keys {
		p, err := s.place(k)
		if err != nil {
			return err
		}
		p.shard.mu.Lock()
		p.shard.reset(p.print, now)
		p.shard.mu.Unlock()
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
}

// Stats adds up the counts of all tables.
func (s *Store) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	st := Stats{Rules: len(s.tables), Settled: s.settled.len()}
	for _, t := range s.tables {
		t.stats(&st)
	}
	return st
}
