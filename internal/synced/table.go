package synced

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

const shards = 64

// table is the keys that are kept locally.
type table struct {
	seed   maphash.Seed
	shards [shards]shard
	keys   atomic.Int64
	made   atomic.Int64
}

type shard struct {
	mu      sync.RWMutex
	entries map[weir.StateKey]*entry
}

// entry is a key that is kept locally. It is always in the queue, but while a call
// is on its way.
type entry struct {
	key   weir.StateKey
	order int64 // in which entries are locked

	mu      sync.Mutex
	ledger  ledger
	heard   time.Time     // when the ledger learned, on this node's clock
	asked   int           // takes since the store was told last
	hurried bool          // the store is to hear soon
	again   bool          // and once more after the call on its way
	second  bool          // the call on its way tells what the one before had no room for
	failed  bool          // the last call did
	dropped bool          // no longer in the table
	told    chan struct{} // closed when the store was told; nil when nobody waits

	// These are the queue's.
	due   time.Time
	index int // −1: not in the queue
}

func (t *table) init() {
	t.seed = maphash.MakeSeed()
	for i := range t.shards {
		t.shards[i].entries = map[weir.StateKey]*entry{}
	}
}

func (t *table) shard(k weir.StateKey) *shard {
	return &t.shards[maphash.String(t.seed, k.Key)%shards]
}

func (t *table) get(k weir.StateKey) *entry {
	sh := t.shard(k)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.entries[k]
}

// add is the entry of a key, made when there is none; nil when there is no room.
func (t *table) add(k weir.StateKey) *entry {
	if e := t.get(k); e != nil {
		return e
	}
	sh := t.shard(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.entries[k]; e != nil {
		return e
	}
	if !t.admit() {
		return nil
	}
	k.Key = strings.Clone(k.Key) // it may be a piece of a request
	e := &entry{key: k, order: t.made.Add(1), index: -1}
	sh.entries[k] = e
	return e
}

// admit makes room for one more key, if there is any.
func (t *table) admit() bool {
	for {
		n := t.keys.Load()
		if n >= MaxKeys {
			return false
		}
		if t.keys.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// drop takes e, which is locked, out of the table.
func (t *table) drop(e *entry) {
	e.dropped = true
	sh := t.shard(e.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.entries, e.key)
	t.keys.Add(-1)
}

// all is the entries of this moment.
func (t *table) all() []*entry {
	var all []*entry
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.RLock()
		for _, e := range sh.entries {
			all = append(all, e)
		}
		sh.mu.RUnlock()
	}
	return all
}

// now is the store's time at a time of this node's, or a little earlier.
func (e *entry) now(local time.Time) weir.Instant {
	return e.ledger.at + micros(local.Sub(e.heard))
}

// learn notes how the store stood at now, asked and heard at times of this node's.
func (e *entry) learn(seen *weir.Evidence, asked, heard time.Time, charged int64) {
	if e.ledger.learn(seen.At, micros(heard.Sub(asked)), seen.State, charged) {
		e.heard = heard
	}
}

// lock locks entries in one order for all, so that takes in any order never wait
// for each other in a circle. Not when one is there twice.
func lock(entries []*entry) bool {
	if len(entries) == 1 {
		entries[0].mu.Lock()
		return true
	}
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b *entry) int { return cmp.Compare(a.order, b.order) })
	for i := range sorted[1:] {
		if sorted[i] == sorted[i+1] {
			return false
		}
	}
	for _, e := range sorted {
		e.mu.Lock()
	}
	return true
}

func unlock(entries []*entry) {
	for _, e := range entries {
		e.mu.Unlock()
	}
}
