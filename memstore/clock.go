package memstore

import (
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

// clock is the wall clock, read the cheap way: the time since a start, which
// needs one reading of the machine's counter, and how far that is from the wall
// clock, which is looked at again after relook. So a wall clock that was set is
// followed within that time.
//
// Goroutines read it without a lock. Two of them may look at the wall clock at once, and
// store much the same offset twice.
type clock struct {
	start  time.Time    // with its monotonic reading, from which time is measured
	offset atomic.Int64 // microseconds from since start to since 1970
	looked atomic.Int64 // nanoseconds since start, when offset was looked at
}

const relook = time.Second

func newClock() *clock {
	c := &clock{start: time.Now()}
	c.offset.Store(c.start.UnixMicro())
	return c
}

// now is the time of the wall clock, in microseconds. It steps back when the
// wall clock does, within relook: a take may so be decided for an instant before that of the
// take before it. Used events stay used until the clock has caught up.
func (c *clock) now() weir.Instant {
	since := time.Since(c.start)
	if past := since - time.Duration(c.looked.Load()); past > relook || past < -relook {
		c.look(since)
	}
	return weir.Instant(int64(since/time.Microsecond) + c.offset.Load())
}

// look must not be late: between two readings of time the process may sleep.
func (c *clock) look(since time.Duration) {
	wall := time.Now()
	c.offset.Store(wall.UnixMicro() - int64(wall.Sub(c.start)/time.Microsecond))
	c.looked.Store(int64(since))
}
