package guard

import (
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of a call's time.
const (
	// maxDeadline is the most that a call is given to a server that has answered before,
	// and firstDeadline what one is given that has not: it has to be connected to. A server that
	// is farther than maxDeadline can't be used: its probes may be answered, calls are late.
	maxDeadline   = 400 * time.Millisecond
	firstDeadline = 600 * time.Millisecond
	// above is what a call is given beyond twice what calls take.
	above = 10 * time.Millisecond
	// remembered is of how many calls a server's distance is made. One that is moved nearer is
	// known to be so after 15 calls, one that moved farther after two.
	remembered = 16
)

// pace learns how far a server is: the second longest of 16 calls that were made one after the
// other. The longest does not count, so that one late answer changes nothing. Calls that were under
// way together count once: else a moment in which many wait would fill the memory with itself. A mean
// would be below what half of the calls take, and a deadline by it would cut these off.
//
// A call that got no answer in its time counts as one that took all of it. So the time doubles until
// answers come within it, however far the server is, and nothing has to be configured for a store on
// another continent. The zero value knows nothing.
//
// Too long a deadline costs callers time only while the server does not answer. Too short a one
// makes fallbacks decide though the server is there, and events count twice. So the pace errs to the
// long side, and forgets a long call only when newer ones have pushed it out.
type pace struct {
	mu   sync.Mutex // of took, n and last; readers need only far, and no lock
	took [remembered]time.Duration
	n    int       // calls noted; the next one is at n % remembered
	last time.Time // when the last of them ended: calls that began before say nothing new
	// far is what took comes to, in nanoseconds; 0: nothing is known. A call too quick for the
	// clock counts as 1 ns, so that known never looks like unknown.
	far atomic.Int64
}

// note takes note of a call. One that began before the last that was noted had ended
// tells nothing new. One call alone is its own distance; of two, the quicker is.
func (p *pace) note(began, ended time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if began.Before(p.last) {
		return
	}
	p.last = ended
	p.took[p.n%remembered] = ended.Sub(began)
	p.n++
	var most, second time.Duration
	for _, t := range p.took[:min(p.n, remembered)] {
		switch {
		case t > most:
			most, second = t, most
		case t > second:
			second = t
		}
	}
	if p.n == 1 {
		second = most
	}
	p.far.Store(max(int64(second), 1))
}

// distance is how long calls take; 0 where nothing is known.
func (p *pace) distance() time.Duration { return time.Duration(p.far.Load()) }

// deadline is how long one may take: twice that, for calls that ask twice (a script that Redis does
// not know, a swap in memcached), and 10 ms for a scheduler that is late.
func (p *pace) deadline() time.Duration {
	far := p.distance()
	if far == 0 {
		return firstDeadline
	}
	return min(2*far+above, maxDeadline)
}
