package sharing

import (
	"hash/maphash"
	"math/bits"

	"github.com/weir-limit/weir"
)

// table keeps what a node knows of its keys, a bounded number of them.
type table[T interface{ idle(now weir.Instant) bool }] struct {
	most int
	seed maphash.Seed
	at   map[uint64]*row[T] // by the hash of the key
	rows []*row[T]
	hand int // where room looks next
	// looked is how many of the rows, from the first, this round has looked at.
	looked int
}

type row[T any] struct {
	key  weir.StateKey
	of   T
	hash uint64
	next *row[T] // another of the same hash, by chance
}

// Hash is where a node looks for a key, with the seed of its Settings. place is the same
// for all counts of one placement and Key.
func Hash(seed maphash.Seed, key weir.StateKey) (hash, place uint64) {
	place = maphash.String(seed, key.Key)
	hash = place ^ bits.RotateLeft64(maphash.String(seed, key.Rule), 32)
	if key.Key == "" {
		place = maphash.String(seed, key.Placement())
	}
	return hash, place
}

// looks is how many rows are looked at to make room for one.
const looks = 16

func newTable[T interface{ idle(now weir.Instant) bool }](most int, seed maphash.Seed) table[T] {
	return table[T]{most: most, seed: seed, at: map[uint64]*row[T]{}}
}

func (t *table[T]) get(key weir.StateKey) (of T, ok bool) {
	hash, _ := Hash(t.seed, key)
	return t.find(hash, key)
}

func (t *table[T]) find(hash uint64, key weir.StateKey) (of T, ok bool) {
	for r := t.at[hash]; r != nil; r = r.next {
		if r.key == key {
			return r.of, true
		}
	}
	return of, false
}

func (t *table[T]) add(key weir.StateKey, of T) { t.put(&row[T]{key: key, of: of}) }

// put adds a row that has a key.
func (t *table[T]) put(r *row[T]) {
	hash, _ := Hash(t.seed, r.key)
	t.chain(hash, r)
}

func (t *table[T]) chain(hash uint64, r *row[T]) {
	r.hash, r.next = hash, t.at[hash]
	t.at[hash] = r
	t.rows = append(t.rows, r)
}

// room makes room for one more key where the table is full, by forgetting one that
// is idle. It goes round the rows, so that what it costs does not grow with them.
func (t *table[T]) room(now weir.Instant) bool {
	for range looks {
		if len(t.rows) < t.most {
			return true
		}
		t.hand = (t.hand + 1) % len(t.rows)
		if t.rows[t.hand].of.idle(now) {
			t.remove(t.hand)
		}
	}
	return len(t.rows) < t.most
}

func (t *table[T]) remove(i int) {
	r, last := t.rows[i], len(t.rows)-1
	if i < t.looked { // the last may not have been looked at
		t.looked--
		t.rows[i] = t.rows[t.looked]
		i = t.looked
	}
	t.rows[i] = t.rows[last]
	t.rows[last] = nil
	t.rows = t.rows[:last]
	before := t.at[r.hash]
	if before == r {
		if t.at[r.hash] = r.next; r.next == nil {
			delete(t.at, r.hash)
		}
		return
	}
	for before.next != r {
		before = before.next
	}
	before.next = r.next
}
