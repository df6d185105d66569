package accesslog

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

// Slack is how much later than a younger line a line may come and still be put
// into its place.
const Slack = 2 * time.Minute

// The most that a Reorder holds. When it is reached, the oldest second goes early.
const (
	// MaxHeld is the number of lines.
	MaxHeld = 1 << 20
	// MaxHeldBytes is the sum of their sizes.
	MaxHeldBytes = 512 << 20
)

const (
	// slots is how many stretches of time a Reorder tells apart. The slack is
	// at most slackSlots of them; one more at each end is begun.
	slots      = 128
	slackSlots = 120
	// maxSpare is how many lines a slot that is empty keeps room for.
	maxSpare = 4096
)

// Reorder puts lines into the order of their times; lines of equal time stay in
// the order of the log. A line that comes too late for its place takes the
// newest time so far. The caller chooses the type of a line.
//
// Lines wait in slots, one for each stretch of time (a second), and a slot is
// sorted when it is due, if it has to be: so a line costs the same however many
// wait.
type Reorder[T any] struct {
	// Late counts the lines that took the newest time.
	Late int64
	// Early counts the lines that went before their time, for want of room. When
	// a line turns up later that belonged before one of them, it is late.
	Early int64

	slack    weir.Instant
	width    weir.Instant // of a slot
	maxHeld  int
	maxBytes int

	slots    [slots]slot[T]
	lowest   int64 // slots before it are empty
	held     int   // lines in slots
	bytes    int
	incoming held[T] // pushed, and not yet in its slot
	waits    bool    // there is an incoming
	going    *slot[T]
	gone     int  // lines of going that were popped
	early    bool // going goes early

	begun   bool
	newest  weir.Instant
	floor   weir.Instant // the time of the last line that went early
	floored bool
	ended   bool
}

// slot is the lines of one stretch of time.
type slot[T any] struct {
	lines    []held[T]
	unsorted bool
}

// held is a line that waits for older ones.
type held[T any] struct {
	at   weir.Instant
	size int
	line T
}

// NewReorder is empty, with the bounds of this package.
func NewReorder[T any]() *Reorder[T] {
	return newReorder[T](Slack, MaxHeld, MaxHeldBytes)
}

func newReorder[T any](slack time.Duration, maxHeld, maxBytes int) *Reorder[T] {
	us := weir.Instant(slack / time.Microsecond)
	return &Reorder[T]{slack: us, width: (us + slackSlots - 1) / slackSlots, maxHeld: maxHeld, maxBytes: maxBytes}
}

// Push takes the next line of the log, of size bytes.
func (r *Reorder[T]) Push(at weir.Instant, size int, line T) {
	switch {
	case !r.begun || at > r.newest:
		r.begun, r.newest = true, at
	case at < r.newest-r.slack, r.floored && at < r.floor:
		r.Late++
		at = r.newest
	}
	r.incoming, r.waits = held[T]{at, size, line}, true
}

// End says that no more lines come: those that are held are due.
func (r *Reorder[T]) End() { r.ended = true }

// Pop is the next line that is due, and its time. It is to be called after each
// Push, and after End, until it is false.
func (r *Reorder[T]) Pop() (at weir.Instant, line T, ok bool) {
	for {
		switch {
		case r.going != nil && r.gone < len(r.going.lines):
			first := &r.going.lines[r.gone]
			r.gone++
			r.held--
			r.bytes -= first.size
			if r.early {
				r.Early++
				r.floor, r.floored = first.at, true
			}
			return first.at, first.line, true
		case r.going != nil:
			r.going.empty()
			r.going = nil
		case r.held > 0 && r.due():
			r.release(false)
		case r.waits:
			r.place()
		case r.held > r.maxHeld || r.bytes > r.maxBytes:
			r.release(true)
		default:
			return 0, line, false
		}
	}
}

// due is whether no line can come any more before the last of the oldest slot.
func (r *Reorder[T]) due() bool {
	for len(r.at(r.lowest).lines) == 0 {
		r.lowest++
	}
	return r.ended || (r.lowest+1)*int64(r.width)-1 <= int64(r.newest-r.slack)
}

func (r *Reorder[T]) at(number int64) *slot[T] { return &r.slots[number&(slots-1)] }

// place puts the incoming line into its slot. The lines before it that are due have gone, so that
// all slots in use are within slackSlots and the two begun.
func (r *Reorder[T]) place() {
	r.waits = false
	number := floorDiv(int64(r.incoming.at), int64(r.width))
	if r.held == 0 || number < r.lowest {
		r.lowest = number
	}
	s := r.at(number)
	if n := len(s.lines); n > 0 && s.lines[n-1].at > r.incoming.at {
		s.unsorted = true
	}
	s.lines = append(s.lines, r.incoming)
	r.held++
	r.bytes += r.incoming.size
}

// release lets the oldest slot go.
func (r *Reorder[T]) release(early bool) {
	for len(r.at(r.lowest).lines) == 0 {
		r.lowest++
	}
	r.going, r.gone, r.early = r.at(r.lowest), 0, early
	if r.going.unsorted {
		slices.SortStableFunc(r.going.lines, func(a, b held[T]) int { return cmp.Compare(a.at, b.at) })
	}
}

func (s *slot[T]) empty() {
	clear(s.lines)
	s.unsorted = false
	if s.lines = s.lines[:0]; cap(s.lines) > maxSpare {
		s.lines = nil
	}
}

// floorDiv is a/b, rounded down.
func floorDiv(a, b int64) int64 { return (a - (a%b+b)%b) / b }
