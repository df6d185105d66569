package offenders

import (
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of what is kept of the clients of a rule.
const (
	// Names is how many clients of a rule are told apart at a time; other clients are within the
	// Error of their counts.
	Names = 100
	// MaxName is how many bytes of a name are kept. A hash stands for the rest of a longer one.
	MaxName = 128
	// PaneLife is how long a sketch is recorded to before a new one takes its
	// place. An answer has the one before and the one in use: the last PaneLife to 2 × PaneLife.
	PaneLife = 5 * time.Minute
)

// window is who was denied in the last minutes. Nobody waits for it: a denial
// that meets another one there at the same instant is counted as missed, which
// in a flood happens to all names alike.
type window struct {
	missed atomic.Int64

	mu          sync.Mutex
	now, before *Sketch // before is nil at first
	// marks and marksBefore are when the names of now and before were refused, at the same places.
	marks, marksBefore []mark
	// since is when before was begun, or now if there is none; turned is when now
	// was.
	since, turned time.Time
}

func newWindow(now time.Time) *window {
	return &window{now: NewSketch(Names), since: now, turned: now}
}

// add records a denial. at is when its request did not pass, in seconds since 1970; 0: it did. again is after how many of these it may
// come again; 0: nobody knows.
func (w *window) add(name []byte, at, again int64) {
	if !w.mu.TryLock() {
		w.missed.Add(1)
		return
	}
	i, fresh := w.now.add(name, 1)
	if i == len(w.marks) {
		w.marks = append(w.marks, mark{})
	}
	if i >= 0 && fresh {
		w.marks[i] = mark{}
	}
	if i >= 0 && at > 0 {
		w.marks[i].refuse(at, again)
	}
	w.mu.Unlock()
}

// turn begins a new sketch when it is time. It tells whether nothing is left.
func (w *window) turn(now time.Time) (empty bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.turned) < PaneLife {
		return false
	}
	w.before, w.since, w.marksBefore = w.now, w.turned, w.marks
	w.now, w.turned, w.marks = NewSketch(Names), now, nil
	return w.before.Total() == 0
}

// denials is how many there were in the last minutes, and those that it missed.
func (w *window) denials() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.now.Total() + w.missed.Load()
	if w.before != nil {
		n += w.before.Total()
	}
	return n
}

// read is all that the window knows, and since when.
func (w *window) read() (*Sketch, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.before
	if before == nil {
		before = NewSketch(Names)
	}
	return w.now.Merge(before), w.since
}
