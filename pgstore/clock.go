package pgstore

import (
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// drift is by how much a millionth each a process's and a server's clock may run apart: 200 µs in a second.
// Crystals have a fifth of that.
const drift = 5000 // one in

// clock is the server's, as this process reckons it: how far the server was ahead when it last answered
// quickly. A server that answers at some moment between question and answer tells its time to half of
// that. It is told of each answer, so it needs no calls of its own.
//
// It goes by the monotonic clock of this process: that somebody sets its wall clock does not matter.
type clock struct {
	mu    sync.Mutex
	begin time.Time // of the process's reckoning, with its monotonic part
	known bool
	anew  bool          // the next answer counts, whatever is known: it may be another server's
	ahead int64         // microseconds of the server's Unix time, less those since begin
	bound time.Duration // how far that may be off, when it was seen
	seen  time.Duration // since begin
}

func newClock() *clock { return &clock{begin: time.Now()} }

// tell hears the server's time in microseconds, of a question and its answer. An answer that does not fit to what is
// known is another server's: behind a pooler no new connection tells of that.
func (c *clock) tell(server int64, asked, answered time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	half := answered.Sub(asked) / 2
	at := answered.Sub(c.begin)
	ahead := server - (at - half).Microseconds()
	apart := (time.Duration(ahead-c.ahead) * time.Microsecond).Abs()
	fits := apart <= c.boundAt(at)+half+2*time.Microsecond // and what was rounded
	if c.known && !c.anew && fits && c.boundAt(at) < half {
		return // what is known is nearer
	}
	c.known, c.anew, c.ahead, c.bound, c.seen = true, false, ahead, half, at
}

// renew has the next answer count, for a connection was made.
func (c *clock) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.anew = true
}

func (c *clock) boundAt(at time.Duration) time.Duration { return c.bound + (at-c.seen)/drift }

// now is the server's time, and how far it may be off. Before the first answer it is the process's own:
// nothing is decided before.
func (c *clock) now() (weir.Instant, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return weir.InstantOf(time.Now()), 0
	}
	at := time.Since(c.begin)
	return weir.Instant(c.ahead + at.Microseconds()), c.boundAt(at)
}

func (c *clock) instant() weir.Instant {
	now, _ := c.now()
	return now
}
