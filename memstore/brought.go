package memstore

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

// maxBrought is how many tables the limits have that came with requests. Beyond it,
// those that are as never used are dropped; when there is none, Take fails.
const maxBrought = 1 << 16

// leastBrought is how many slots each of them may have, whatever the other tables have. When the
// room is taken, one may have more up to 1/lateBrought of an even part of it: so all have two and a
// half times the room at most, and one that comes late has some.
const (
	leastBrought = 64
	lateBrought  = 8
)

// brought is the room that the tables of all limits share that came with requests: as
// much as one rule has. When it is taken, they do not grow any more: newcomers get the
// places of keys as never used, then of those nearest to that, and never of one that
// is denied.
type brought struct {
	// most is how many slots they may have together, as many as one rule. Only restore
	// changes it, before anybody else has the store.
	most int64
	// slots and tables are counted without a lock of their own, so several segments that
	// grow at once may pass most by what each of them gets.
	slots  atomic.Int64
	tables atomic.Int64 // at most maxBrought, but for siblings of changed limits
	swept  time.Time    // when tables as never used were dropped last; under Store.mu
}

func isBrought(rule string) bool { return strings.HasPrefix(rule, weir.Brought) }

// crowded is whether t may not have more slots. It asks without a lock and may be a little late:
// then a segment has grown once more than it should. Segments of other rules are never crowded.
func (t *table) crowded() bool {
	b := t.brought
	if b == nil || b.slots.Load() < b.most {
		return false
	}
	n := t.slots.Load()
	return n >= leastBrought && n*lateBrought*b.tables.Load() >= b.most
}

// sized counts the slots of a segment that was laid out anew. Each change of cells calls it, also a
// split, so slots is the sum of all segments whenever none is being laid out.
func (t *table) sized(before, after int) {
	if t.brought != nil {
		t.slots.Add(int64(after - before))
		t.brought.slots.Add(int64(after - before))
	}
}

// leave gives up the room of a table that is dropped. A take that still has the table may grow it
// for the last time afterwards. These slots stay counted, though the table is gone: see
// dropUnused for how rare that is.
func (t *table) leave() {
	if t.brought != nil {
		t.brought.slots.Add(-t.slots.Load())
		t.brought.tables.Add(-1)
	}
}

// dropBrought forgets tables of limits that came with requests and are as never used,
// when these have no room left. Its caller has the lock of all tables.
func (s *Store) dropBrought() {
	b := &s.brought
	if b.slots.Load() < b.most && b.tables.Load() < maxBrought || time.Since(b.swept) < time.Second {
		return // it looks at every state
	}
	s.dropUnused(isBrought)
	b.swept = time.Now()
}
