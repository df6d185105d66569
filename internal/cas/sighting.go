package cas

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// maxSightings is of how many items it is known how long a server has to keep them.
// Beyond it, of some that of which this is over first makes place: that it is dropped is
// not counted then.
const maxSightings = 1 << 18

// sightings are the items that this process has seen, by a hash of their names. They tell an item
// that was evicted from one that was never there, for Stats: without them an operator would not
// notice that a store forgets, since a forgotten item looks like a new one. Two names may have
// one hash; then one eviction in many is counted too often or not at all.
//
// Times are counted since the store was opened, by the monotonic clock, so a wall clock that is
// set does not make items look evicted. A name is hashed with a secret seed: clients can't choose
// names that meet.
type sightings struct {
	seed maphash.Seed
	mu   sync.Mutex
	all  map[uint64]sighting
}

// sighting is one item.
type sighting struct {
	born  weir.Instant  // of the item
	until time.Duration // since the store was opened: the server keeps it so long, unless it has to evict
}

func (s *sightings) init() { s.seed, s.all = maphash.MakeSeed(), map[uint64]sighting{} }

// see takes note of an item that a server has to keep.
//
// It is called after each write, and after a look that changed nothing. The later word counts:
// life is from now.
func (s *sightings) see(name string, is sighting) {
	k := maphash.String(s.seed, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.all[k]; !known && len(s.all) >= maxSightings {
		s.drop()
	}
	s.all[k] = is
}

// drop makes place. mu is held.
func (s *sightings) drop() {
	var first uint64
	looked := 0
	for k, is := range s.all {
		if looked == 0 || is.until < s.all[first].until {
			first = k
		}
		if looked++; looked == 16 {
			break
		}
	}
	delete(s.all, first)
}

// gone is whether an item was dropped that a server had to keep until now: it is not
// there, or there is one that was made anew. It says so once.
//
// An item that another process has swapped keeps its born, or has an earlier one. A later born
// means that somebody found no item and added one.
func (s *sightings) gone(name string, now time.Duration, there bool, born weir.Instant) bool {
	k := maphash.String(s.seed, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	is, known := s.all[k]
	if !known || there && born <= is.born {
		return false
	}
	delete(s.all, k)
	return now < is.until
}
