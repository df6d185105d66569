package sharing

import "github.com/weir-limit/weir"

// table keeps what a node knows of its keys, a bounded number of them.
type table[T interface{ idle(now weir.Instant) bool }] struct {
	most int
	at   map[weir.StateKey]T
	rows []row[T]
	hand int // where room looks next
}

type row[T any] struct {
	key weir.StateKey
	of  T
}

// looks is how many rows are looked at to make room for one.
const looks = 16

func newTable[T interface{ idle(now weir.Instant) bool }](most int) table[T] {
	return table[T]{most: most, at: map[weir.StateKey]T{}}
}

func (t *table[T]) get(key weir.StateKey) (of T, ok bool) {
	of, ok = t.at[key]
	return of, ok
}

func (t *table[T]) add(key weir.StateKey, of T) {
	t.at[key] = of
	t.rows = append(t.rows, row[T]{key, of})
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
	last := len(t.rows) - 1
	delete(t.at, t.rows[i].key)
	t.rows[i] = t.rows[last]
	t.rows[last] = row[T]{}
	t.rows = t.rows[:last]
}
