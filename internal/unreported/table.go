package unreported

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

const (
	// MaxKeys is how many keys a Table has room for. What happens to a key that finds no room is
	// for its owner to say.
	MaxKeys = 1 << 16
	// shards have a lock each, so that takes of different keys seldom wait for each other.
	shards = 64
)

// Entry is what a Table knows of one key. The owner's type embeds it, and adds the Usage and all
// else that it needs to report it. An entry is locked to be read or changed, and before its shard.
//
// Its lock is not held while a report is under way: takes of the key go on, and what they let pass is
// pending for the next report.
type Entry struct {
	sync.Mutex

	Key weir.StateKey // never changes, so it may be read without the lock

	// dropped tells that the entry has left the table for good. A goroutine that got it before and
	// locks it now must not use it: what it wrote there, no report would find.
	dropped bool
	// underway is set from Begin to End of a report. A second report of the key waits for the
	// first instead, so no event is in two. Owners don't drop the entry before End.
	underway bool
	// answer is closed when the report under way, or the next one, has ended; nil: nobody waits.
	// The end of a report sets it to nil, so those who come later wait for the next report.
	answer chan struct{}
	err    error // why the last report failed; nil: it did not, or there was none
}

// Base is the Entry that another type embeds.
func (e *Entry) Base() *Entry { return e }

// Dropped is whether the entry has left its table: then another may have its key.
func (e *Entry) Dropped() bool { return e.dropped }

// Awaited is whether somebody waits for the next report.
func (e *Entry) Awaited() bool { return e.answer != nil }

// Answer is closed when the report under way has ended; when none is, the next one.
func (e *Entry) Answer() <-chan struct{} {
	if e.answer == nil {
		e.answer = make(chan struct{})
	}
	return e.answer
}

// wait waits for the report that is under way, if one is, until ctx ends.
func (e *Entry) wait(ctx context.Context) error {
	e.Lock()
	if !e.underway {
		e.Unlock()
		return nil
	}
	over := e.Answer()
	e.Unlock()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outcome is how the last report has ended.
func (e *Entry) outcome() error {
	e.Lock()
	defer e.Unlock()
	return e.err
}

// Table is the keys with usage that may be unreported. Its exported fields are set before its
// first use, and so is Init called. Its methods may be called from many goroutines.
//
// A goroutine that holds the lock of an entry may take that of a shard, but never the other way round.
// So whatever goes through a shard copies the entries, and locks each of them afterwards. Such a copy may
// have entries that are dropped by then.
//
// Begin and End are called under the lock of their entry, and Take under no lock. Each Begin that says
// yes is followed by one End.
type Table[E interface{ Base() *Entry }] struct {
	// New makes an entry for a key that has none.
	New func() E
	// Take is weir.Store.Take of the store.
	Take func(ctx context.Context, asks []weir.Ask, out []weir.Decision) error
	// Traits are those of the store.
	Traits func() weir.Traits
	// Begin is what to tell the store of an entry, which is locked, at now. When it says no,
	// there is nothing to tell, and the table drops the entry.
	Begin func(e E, now time.Time) (weir.Ask, bool)
	// End takes note of how the report of an entry, which is locked, has ended.
	End func(e E, a Answer)

	seed   maphash.Seed // secret, so that no client can choose a shard
	shards [shards]shard[E]
	// keys is how many entries all shards have, and for a moment one more for each goroutine that
	// is about to find no room. So the bound holds for the table, and a shard has none of its own.
	keys atomic.Int64
}

type shard[E any] struct {
	mu      sync.RWMutex
	entries map[weir.StateKey]E
}

// Init makes the table ready.
func (t *Table[E]) Init() {
	t.seed = maphash.MakeSeed()
	for i := range t.shards {
		t.shards[i].entries = map[weir.StateKey]E{}
	}
}

func (t *Table[E]) shard(k weir.StateKey) *shard[E] {
	return &t.shards[maphash.String(t.seed, k.Key)%shards]
}

// Len is how many keys there are. Those that are just about to find no room don't count.
func (t *Table[E]) Len() int { return int(min(t.keys.Load(), MaxKeys)) }

// Get is the entry of a key, if there is one. It is not locked, and may have been dropped.
func (t *Table[E]) Get(k weir.StateKey) (E, bool) {
	sh := t.shard(k)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	e, ok := sh.entries[k]
	return e, ok
}

// Find is the entry of a key, locked, if there is one.
func (t *Table[E]) Find(k weir.StateKey) (E, bool) {
	e, ok := t.Get(k)
	if !ok {
		return e, false
	}
	e.Base().Lock()
	if e.Base().dropped {
		e.Base().Unlock()
		return e, false
	}
	return e, true
}

// Add is the entry of a key, locked, and made when there is none: then nobody else has seen it, and
// its owner fills it in before it unlocks it. Add says no when there is no room for one more.
// Between Get and its lock an entry may be dropped, by a report that found nothing to tell; then the
// key gets a new one.
func (t *Table[E]) Add(k weir.StateKey) (E, bool) {
	for {
		e, ok := t.Find(k)
		if ok {
			return e, true
		}
		if e, made, room := t.insert(k); made || !room {
			return e, made
		}
	}
}

// insert makes an entry for a key that has none, if there is room for it. The entry is locked before
// anybody can find it.
func (t *Table[E]) insert(k weir.StateKey) (e E, made, room bool) {
	sh := t.shard(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if _, ok := sh.entries[k]; ok {
		return e, false, true
	}
	if t.keys.Add(1) > MaxKeys {
		t.keys.Add(-1)
		return e, false, false
	}
	k.Key = strings.Clone(k.Key) // it may be a piece of a request
	e = t.New()
	e.Base().Key = k
	e.Base().Lock()
	sh.entries[k] = e
	return e, true, true
}

// Drop takes an entry, which is locked, out of the table. It is marked first: a goroutine that waits for
// its lock then sees that it has to look for another one. Usage that it still has is lost.
func (t *Table[E]) Drop(e E) {
	is := e.Base()
	if is.dropped {
		return
	}
	is.dropped = true
	sh := t.shard(is.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.entries, is.Key)
	t.keys.Add(-1)
}

// All is the entries of this moment that are wanted. It calls wanted without a lock, so that may
// lock the entry that it is asked about.
func (t *Table[E]) All(wanted func(E) bool) (all []E) {
	for i := range t.shards {
		for _, e := range t.shards[i].some(MaxKeys) {
			if wanted(e) {
				all = append(all, e)
			}
		}
	}
	return all
}

// Near are some entries beside which k would be kept, at most so many.
func (t *Table[E]) Near(k weir.StateKey, most int) []E { return t.shard(k).some(most) }

func (sh *shard[E]) some(most int) []E {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	some := make([]E, 0, min(most, len(sh.entries)))
	for _, e := range sh.entries {
		if len(some) == most {
			break
		}
		some = append(some, e)
	}
	return some
}
