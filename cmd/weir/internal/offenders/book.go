package offenders

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

// MaxRules is how many rules a Book keeps clients of, and histories of. While
// as many have had denials, or traffic, lately, others have their counts alone,
// and what is not kept is told by Stats.
const MaxRules = 1024

// Book keeps the traffic of all rules. Make it with NewBook, and call Tick each
// Step and Beat each second. Its methods may be called from many goroutines.
type Book struct {
	windows   atomic.Int64 // that are kept
	unwatched atomic.Int64 // as Stats has it
	second    atomic.Int64 // the time of the last Beat, in seconds since 1970

	mu        sync.Mutex
	traffic   map[ID]*Traffic
	ticks     int             // so far; the first is 1
	at        [ring]time.Time // of the last ticks
	rows      int             // that are kept
	missed    int64           // of windows that are gone
	unwritten int64           // as Stats has it
}

// NewBook makes an empty Book.
func NewBook() *Book {
	b := &Book{traffic: map[ID]*Traffic{}}
	b.Beat(time.Now())
	return b
}

// Beat tells the time, so that a denial reads no clock.
func (b *Book) Beat(now time.Time) { b.second.Store(now.Unix()) }

// Open is the traffic of a rule, from now on or as it was before, if it is open
// already. limit is for people; nil: each request brings its own.
func (b *Book) Open(id ID, limit *weir.Limit, now time.Time) *Traffic {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.traffic[id]
	if t == nil {
		t = &Traffic{book: b, id: id, since: now, first: b.ticks}
		b.traffic[id] = t
	}
	t.limit = limit
	return t
}

// Close forgets the traffic of a rule that is gone.
func (b *Book) Close(id ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.traffic[id]
	if t == nil {
		return
	}
	t.closed = true
	b.unwatch(t)
	if t.row != nil {
		b.rows--
	}
	delete(b.traffic, id)
}

// watch begins to keep the clients of t, if there is room.
func (b *Book) watch(t *Traffic) *window {
	if b.windows.Load() >= MaxRules {
		b.unwatched.Add(1)
		return nil // without waiting: a flood may end here
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := t.clients.Load(); w != nil {
		return w
	}
	if t.closed || b.windows.Load() >= MaxRules {
		b.unwatched.Add(1)
		return nil
	}
	b.windows.Add(1)
	w := newWindow(time.Now())
	t.clients.Store(w)
	return w
}

func (b *Book) unwatch(t *Traffic) {
	if w := t.clients.Swap(nil); w != nil {
		b.missed += w.missed.Load()
		b.windows.Add(-1)
	}
}

// Tick writes down what was counted since the last tick, and forgets what is
// too old. It gives what was counted of each rule that has had traffic since to told, unless that is nil; near is how many of the requests that
// passed were near the limit.
func (b *Book) Tick(now time.Time, told func(id ID, p Point, near int64)) {
	b.Beat(now)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ticks++
	b.at[b.ticks%ring] = now
	for _, t := range b.traffic {
		passed, denied := b.write(t)
		near := t.near.Load() - t.lastNear
		t.lastNear += near
		if told != nil && (passed > 0 || denied > 0) {
			told(t.id, Point{now, passed, denied}, near)
		}
		if w := t.clients.Load(); w != nil && w.turn(now) {
			b.unwatch(t)
		}
	}
}

// write writes down what t has counted since the last tick, and gives it.
func (b *Book) write(t *Traffic) (passed, denied int64) {
	sum := Point{Passed: t.passed.Load(), Denied: t.denied.Load()}
	passed, denied = sum.Passed-t.last.Passed, sum.Denied-t.last.Denied
	t.last = sum
	if t.row == nil && (passed > 0 || denied > 0) {
		if b.rows == MaxRules {
			b.unwritten++
			t.first = b.ticks
			return passed, denied
		}
		b.rows++
		t.row = new(row)
	}
	if t.row == nil {
		return passed, denied
	}
	t.row.put(b.ticks, passed, denied)
	if b.ticks-t.row.active >= Steps {
		t.row = nil
		b.rows--
	}
	return passed, denied
}

// Stats tell how full a Book is, and what it could not keep since it was made.
type Stats struct {
	Watched   int   // rules whose clients are kept
	Written   int   // rules that have a history
	Missed    int64 // denials that met another one at the same instant: their clients are not counted
	Unwatched int64 // denials of rules beyond MaxRules: the same
	Unwritten int64 // Steps of rules beyond MaxRules: they are not in their histories
}

// Stats adds up what the traffic of all rules tells.
func (b *Book) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Stats{Watched: int(b.windows.Load()), Written: b.rows, Missed: b.missed, Unwatched: b.unwatched.Load(), Unwritten: b.unwritten}
	for _, t := range b.traffic {
		if w := t.clients.Load(); w != nil {
			s.Missed += w.missed.Load()
		}
	}
	return s
}
