package cluster

import (
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/boottime"
)

// clock is the time of a node: the wall clock's at its start, and from then on by
// what the machine has counted, also asleep. So it never goes back, and an operator that sets the
// wall clock moves neither leases nor windows.
//
// Go's own clock stands still while the machine sleeps, and to ask the other one
// (CLOCK_BOOTTIME) is a system call. But a machine that wakes up has its wall clock
// jump ahead of Go's: only then, and when somebody sets it, is the other one asked.
// The wall clock is looked at once in a millisecond, so that for as long after a
// sleep it may be taken for the time before: as if that had been decided then.
type clock struct {
	start  time.Time
	base   weir.Instant  // of start, by the wall clock
	boot   time.Duration // of the machine, at start; 0: it does not tell
	asleep atomic.Int64  // nanoseconds since start that Go's clock has missed
	ahead  atomic.Int64  // nanoseconds that the wall clock was ahead of Go's when asleep was looked at
	looked atomic.Int64  // nanoseconds since start, by Go's clock, when the wall clock was
}

const (
	// relook is how often the wall clock is looked at.
	relook = time.Millisecond
	// apart is how far it may move against Go's before the other one is asked. A lease
	// lasts hundreds of times longer.
	apart = time.Millisecond
)

func newClock() *clock {
	c := &clock{start: time.Now()}
	c.boot, _ = boottime.Now()
	c.base = weir.InstantOf(c.start)
	return c
}

func (c *clock) now() weir.Instant {
	went := time.Since(c.start)
	if went-time.Duration(c.looked.Load()) >= relook {
		went = c.look()
	}
	return c.base + weir.Instant((went+time.Duration(c.asleep.Load()))/time.Microsecond)
}

// look looks at the wall clock, and says how long Go's clock went.
func (c *clock) look() time.Duration {
	t := time.Now()
	went := t.Sub(c.start)
	ahead := t.UnixNano() - c.start.UnixNano() - int64(went)
	if d := time.Duration(ahead - c.ahead.Load()); d > apart || d < -apart {
		c.wake(ahead)
	}
	c.looked.Store(int64(went))
	return went
}

// wake asks how long the machine was asleep. It takes back nothing of what it said.
func (c *clock) wake(ahead int64) {
	on, _ := boottime.Now() // where it does not tell, nothing was missed
	missed := int64(on - c.boot - time.Since(c.start))
	for before := c.asleep.Load(); missed > before && !c.asleep.CompareAndSwap(before, missed); {
		before = c.asleep.Load()
	}
	c.ahead.Store(ahead)
}
