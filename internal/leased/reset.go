package leased

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/weir-limit/weir"
)

// resets are the keys that the store is about to reset. Nobody asks for a portion of them meanwhile: one that
// the store charged before it forgot all would be spent beside what the limit lets pass anew.
type resets struct {
	some atomic.Int64 // how many there are, so that mostly nobody takes the lock

	mu   sync.Mutex
	keys map[weir.StateKey]int // by how many calls of Reset; the lock of an entry is taken before mu
}

func (r *resets) has(k weir.StateKey) bool {
	if r.some.Load() == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[k] > 0
}

// add counts a call of Reset more, or less.
func (r *resets) add(keys []weir.StateKey, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.keys = map[weir.StateKey]int{}
	}
	for _, k := range keys {
		if r.keys[k] += n; r.keys[k] == 0 {
			delete(r.keys, k)
		}
	}
	r.some.Store(int64(len(r.keys)))
}

// Reset forgets what was used of the keys, in the store and here. What other nodes hold of them passes
// beside what the limit lets pass anew. What this node holds does not: it takes that out before it asks the
// store, has the store decide meanwhile, and gives it back where the store could not be asked.
func (s *Store) Reset(ctx context.Context, keys []weir.StateKey) error {
	s.resets.add(keys, 1)
	defer s.resets.add(keys, -1)
	var held []weir.Settlement
	for _, k := range keys {
		e, ok := s.table.Find(k)
		if !ok {
			continue
		}
		e.epoch++
		if b, worth := e.holding.Return(s.now()); worth {
			b.Each(func(r weir.Settlement) { held = append(held, r) })
		}
		e.holding = Holding{}
		e.Unlock()
	}
	err := s.next.Reset(ctx, keys)
	if err != nil {
		for _, r := range held { // a receipt from before a reset gives nothing back: it may have been made
			s.enqueue(r)
		}
	}
	return err
}
