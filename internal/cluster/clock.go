package cluster

import (
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

// clock is the time of a node: the wall clock's at its start, and from then on by
// what the machine has counted, also asleep. So it never goes back, and whoever
// sets the wall clock moves neither leases nor windows.
//
// Go's own clock stands still while the machine sleeps, and to ask the other one
// (CLOCK_BOOTTIME) is a system call. But a machine that wakes up has its wall clock
// jump ahead of Go's: only then, and when somebody sets it, is the other one asked.
type clock struct {
	start  time.Time
	base   weir.Instant  // of start, by the wall clock
	boot   time.Duration // of the machine, at start
	asleep atomic.Int64  // nanoseconds since start that Go's clock has missed
	ahead  atomic.Int64  // nanoseconds that the wall clock was ahead of Go's when asleep was looked at
}

// apart is how far the wall clock may move against Go's before the other one is
// asked. A lease lasts hundreds of times longer.
const apart = time.Millisecond

func newClock() *clock {
	c := &clock{start: time.Now(), boot: sinceBoot()}
	c.base = weir.InstantOf(c.start)
	return c
}

func (c *clock) now() weir.Instant {
	t := time.Now()
	went := t.Sub(c.start) // by Go's clock
	ahead := t.UnixNano() - c.start.UnixNano() - int64(went)
	if d := time.Duration(ahead - c.ahead.Load()); d > apart || d < -apart {
		c.look(ahead)
	}
	return c.base + weir.Instant((went+time.Duration(c.asleep.Load()))/time.Microsecond)
}

// look asks how long the machine was asleep. It takes back nothing of what it said.
func (c *clock) look(ahead int64) {
	missed := int64(sinceBoot() - c.boot - time.Since(c.start))
	for before := c.asleep.Load(); missed > before && !c.asleep.CompareAndSwap(before, missed); {
		before = c.asleep.Load()
	}
	c.ahead.Store(ahead)
}
