// Package table keeps what a node knows of its keys: a bounded number of rows, found by a hash of the key. A full
// table makes room by forgetting a row that is idle.
package table

import (
	"hash/maphash"
	"math/bits"
	"slices"

	"github.com/weir-limit/weir"
)

// Kept is what a table keeps. One that is idle may be forgotten.
type Kept interface{ Idle(now weir.Instant) bool }

// Table keeps what a node knows of its keys, a bounded number of them.
type Table[T Kept] struct {
	Most int // rows
	seed maphash.Seed
	at   map[uint64]*Row[T] // by the hash of the key
	// Rows are all that are kept, in any order. Only a Table changes them.
	Rows []*Row[T]
	hand int // where Room looks next
	// Looked is how many of the rows, from the first, this round has looked at.
	Looked int
}

// Row is a key and what is kept of it.
type Row[T any] struct {
	Key  weir.StateKey
	Of   T
	hash uint64
	next *Row[T] // another of the same hash, by chance
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

// New makes a table of so many keys at most.
func New[T Kept](most int, seed maphash.Seed) Table[T] {
	return Table[T]{Most: most, seed: seed, at: map[uint64]*Row[T]{}}
}

// Get is what is kept of a key.
func (t *Table[T]) Get(key weir.StateKey) (of T, ok bool) {
	hash, _ := Hash(t.seed, key)
	return t.Find(hash, key)
}

// Find is Get for a caller that knows the hash of the key.
func (t *Table[T]) Find(hash uint64, key weir.StateKey) (of T, ok bool) {
	for r := t.at[hash]; r != nil; r = r.next {
		if r.Key == key {
			return r.Of, true
		}
	}
	return of, false
}

// Add adds a key that the table does not have. The caller has made Room before.
func (t *Table[T]) Add(key weir.StateKey, of T) { t.Put(&Row[T]{Key: key, Of: of}) }

// Put is Add of a row that has its key.
func (t *Table[T]) Put(r *Row[T]) {
	hash, _ := Hash(t.seed, r.Key)
	t.chain(hash, r)
}

func (t *Table[T]) chain(hash uint64, r *Row[T]) {
	r.hash, r.next = hash, t.at[hash]
	t.at[hash] = r
	t.Rows = append(t.Rows, r)
}

// Room makes room for one more key where the table is full, by forgetting one that
// is idle. It goes round the rows, so that what it costs does not grow with them.
func (t *Table[T]) Room(now weir.Instant) bool {
	for range looks {
		if len(t.Rows) < t.Most {
			return true
		}
		t.hand = (t.hand + 1) % len(t.Rows)
		if t.Rows[t.hand].Of.Idle(now) {
			t.Remove(t.hand)
		}
	}
	return len(t.Rows) < t.Most
}

// Again begins a round anew, with the rows that the last one has not looked at: rounds may begin more often than they end.
func (t *Table[T]) Again() {
	if t.Looked < len(t.Rows) {
		slices.Reverse(t.Rows[:t.Looked])
		slices.Reverse(t.Rows[t.Looked:])
		slices.Reverse(t.Rows)
	}
	t.Looked = 0
}

// Remove forgets Rows[i].
func (t *Table[T]) Remove(i int) {
	r, last := t.Rows[i], len(t.Rows)-1
	if i < t.Looked { // the last may not have been looked at
		t.Looked--
		t.Rows[i] = t.Rows[t.Looked]
		i = t.Looked
	}
	t.Rows[i] = t.Rows[last]
	t.Rows[last] = nil
	t.Rows = t.Rows[:last]
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
