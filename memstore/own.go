package memstore

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/weir-limit/weir"
)

// own are the counts of one rule's keys that have limits of their own (weir.Ask.Own), each kept as a
// store outside of this process keeps it: with the limits that it had before, so that what was used
// stays used when such a limit begins and when it ends. A table has one state by one limit for each key,
// and so could hold as many different limits as versions has tables.
//
// All tables of a rule share one. A key's count is here or in the tables, and never in both:
// whoever has the locks of the key's segments may read and change it.
type own struct {
	most int64        // how many keys there may be
	keys atomic.Int64 // how many there are
	full atomic.Int64 // takes that found no room
	// shards are by the fingerprint's first bits. Their locks come last of all, and cover the maps
	// alone.
	shards [ownShards]ownShard
}

const ownShards = 16

type ownShard struct {
	mu   sync.Mutex
	kept map[uint64]*weir.Kept
	ripe int // with more of them, those that have recovered are dropped
	// swept is when room looked for such last. It looks at all of them.
	swept weir.Instant
}

// leastRipe is how many keys a shard has at least before it looks for those that have recovered.
const leastRipe = 64

func (o *own) shard(f uint64) *ownShard { return &o.shards[f>>60] }

// of is the count of a key; nil: it is in the tables. So is each key of a nil own.
func (o *own) of(f uint64) *weir.Kept {
	if o == nil || o.keys.Load() == 0 {
		return nil
	}
	s := o.shard(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[f]
}

// has is whether a key's count is here.
func (o *own) has(f uint64) bool { return o.of(f) != nil }

// room is whether one more key may come. When all is full, those that have recovered make room, in whichever shard they
// are: each shard is looked through once in tidyEvery.
func (o *own) room(now weir.Instant) bool {
	for i := range o.shards {
		if o.keys.Load() < o.most {
			return true
		}
		s := &o.shards[i]
		s.mu.Lock()
		if since := now - s.swept; since < 0 || since >= tidyEvery {
			s.swept = now
			o.sweep(s, now)
		}
		s.mu.Unlock()
	}
	if o.keys.Load() < o.most {
		return true
	}
	o.full.Add(1)
	return false
}

// put keeps a count, or drops it once it has recovered.
func (o *own) put(f uint64, k *weir.Kept, now weir.Instant) {
	s := o.shard(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, had := s.kept[f]
	switch fresh := k.FreshAfter(now) <= 0; {
	case fresh && had:
		delete(s.kept, f)
		o.keys.Add(-1)
		return
	case fresh:
		return
	case !had:
		if s.kept == nil {
			s.kept, s.ripe = map[uint64]*weir.Kept{}, leastRipe
		}
		if len(s.kept) >= s.ripe {
			o.sweep(s, now)
			s.ripe = max(2*len(s.kept), leastRipe)
		}
		o.keys.Add(1)
	}
	s.kept[f] = k
}

// drop forgets a count.
func (o *own) drop(f uint64) {
	s := o.shard(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, had := s.kept[f]; had {
		delete(s.kept, f)
		o.keys.Add(-1)
	}
}

// sweep drops the counts of a shard that have recovered, as those of a table that are as never used have
// no place of their own. Its caller has the shard's lock, and no take changes a count
// there: it puts another in its place.
func (o *own) sweep(s *ownShard, now weir.Instant) {
	for f, k := range s.kept {
		if k.FreshAfter(now) <= 0 {
			delete(s.kept, f)
			o.keys.Add(-1)
		}
	}
}

// idle is whether all have recovered.
func (o *own) idle(now weir.Instant) bool {
	if o == nil {
		return true
	}
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		o.sweep(s, now)
		s.mu.Unlock()
	}
	return o.keys.Load() == 0
}

// ownKeys is the table's, made if need be.
func (t *table) ownKeys() *own {
	if o := t.own.Load(); o != nil {
		return o
	}
	t.own.CompareAndSwap(nil, &own{most: int64(t.bound.slots) << t.bound.depth})
	return t.own.Load()
}

// apart is whether the count of an ask is not in the tables, or is not to be there. A limit that keeps the same states as the
// rule's goes there, too: all asks of a segment in one take are decided by one limit.
func (t *table) apart(f uint64, a *weir.Ask) bool {
	return a.Own && a.Limit != nil || t.own.Load().has(f)
}

// ownStates are the states of keys with limits of their own, for a snapshot: of each the one that decides
// comes first.
func (t *table) ownStates(yield func(f uint64, v weir.Version) bool) {
	o := t.own.Load()
	if o == nil {
		return
	}
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		kept := maps.Clone(s.kept) // nothing changes what a Kept has: see sweep
		s.mu.Unlock()
		for f, k := range kept {
			if !yield(f, weir.Version{Limit: k.Limit, State: k.State}) {
				return
			}
			for _, v := range k.Earlier {
				if !yield(f, v) {
					return
				}
			}
		}
	}
}
