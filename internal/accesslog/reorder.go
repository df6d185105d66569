package accesslog

import (
	"time"

	"github.com/weir-limit/weir"
)

// Slack is how much later than a younger line a line may come and still be put
// into its place.
const Slack = 2 * time.Minute

// The most that a Reorder holds. When it is reached the oldest line goes early.
const (
	// MaxHeld is the number of lines.
	MaxHeld = 1 << 20
	// MaxHeldBytes is the sum of their sizes.
	MaxHeldBytes = 512 << 20
)

// Reorder puts lines into the order of their times; lines of equal time stay in
// the order of the log. A line that comes too late for its place takes the
// newest time so far. What a line is, is up to its user.
type Reorder[T any] struct {
	// Late counts the lines that took the newest time.
	Late int64
	// Early counts the lines that went before their time, for want of room. When
	// a line turns up later that belonged before one of them, it is late.
	Early int64

	slack    weir.Instant
	maxHeld  int
	maxBytes int

	heap    []held[T] // the oldest first
	bytes   int
	count   uint64 // lines so far
	newest  weir.Instant
	floor   weir.Instant // the time of the last line that went early
	floored bool
	ended   bool
}

// held is a line that waits for older ones.
type held[T any] struct {
	at   weir.Instant
	turn uint64 // its number in the log
	size int
	line T
}

// NewReorder is empty, with the bounds of this package.
func NewReorder[T any]() *Reorder[T] {
	return newReorder[T](Slack, MaxHeld, MaxHeldBytes)
}

func newReorder[T any](slack time.Duration, maxHeld, maxBytes int) *Reorder[T] {
	return &Reorder[T]{slack: weir.Instant(slack / time.Microsecond), maxHeld: maxHeld, maxBytes: maxBytes}
}

// Push takes the next line of the log, of size bytes.
func (r *Reorder[T]) Push(at weir.Instant, size int, line T) {
	switch {
	case r.count == 0 || at > r.newest:
		r.newest = at
	case at < r.newest-r.slack, r.floored && at < r.floor:
		r.Late++
		at = r.newest
	}
	r.heap = append(r.heap, held[T]{at, r.count, size, line})
	r.count++
	r.bytes += size
	r.rise(len(r.heap) - 1)
}

// End says that no more lines come: those that are held are due.
func (r *Reorder[T]) End() { r.ended = true }

// Pop is the next line that is due, and its time. It is to be called after each
// Push, and after End, until it is false.
func (r *Reorder[T]) Pop() (at weir.Instant, line T, ok bool) {
	if len(r.heap) == 0 {
		return 0, line, false
	}
	first := r.heap[0]
	if !r.ended && first.at > r.newest-r.slack {
		if len(r.heap) <= r.maxHeld && r.bytes <= r.maxBytes {
			return 0, line, false
		}
		r.Early++
		r.floor, r.floored = first.at, true
	}
	last := len(r.heap) - 1
	r.heap[0], r.heap[last] = r.heap[last], held[T]{}
	r.heap = r.heap[:last]
	r.bytes -= first.size
	r.sink(0)
	return first.at, first.line, true
}

func (r *Reorder[T]) before(i, j int) bool {
	a, b := &r.heap[i], &r.heap[j]
	return a.at < b.at || a.at == b.at && a.turn < b.turn
}

// rise moves the line at i up to its place in the heap.
func (r *Reorder[T]) rise(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !r.before(i, parent) {
			return
		}
		r.heap[i], r.heap[parent] = r.heap[parent], r.heap[i]
		i = parent
	}
}

// sink moves the line at i down to its place in the heap.
func (r *Reorder[T]) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(r.heap) {
			return
		}
		if child+1 < len(r.heap) && r.before(child+1, child) {
			child++
		}
		if !r.before(child, i) {
			return
		}
		r.heap[i], r.heap[child] = r.heap[child], r.heap[i]
		i = child
	}
}
