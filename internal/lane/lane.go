// Package lane makes calls to a store that is elsewhere travel together: a lone caller waits
// for nobody, and what comes while calls are on their way travels in the next one.
package lane

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/weir-limit/weir"
)

// The bounds of a lane.
const (
	// maxFlying is how many calls are on their way at a time: one that the server works
	// on, and one that is on the wire.
	maxFlying = 2
	// maxWaiting is how many takes wait; more fail with weir.ErrBusy.
	maxWaiting = 1 << 14
)

// Call is what a lane knows of a call, which embeds it.
type Call struct {
	Err error // set by Run

	done chan struct{} // closed when there is an answer; of calls that wait
}

// Base is the Call that another type embeds.
func (c *Call) Base() *Call { return c }

// Lane is one way to a server. Its exported fields are set before the first call.
type Lane[C interface{ Base() *Call }] struct {
	// Name is the package whose lane it is, for errors.
	Name string
	// Run answers calls, and sets Err of those that fail. It touches nothing else of their
	// callers', which may have left.
	Run func(ctx context.Context, calls []C)
	// Together is how many of the first of some calls travel in one, at least 1.
	Together func(calls []C) int
	// Alone is whether a lone call may run on the goroutine of its caller, which is
	// quicker than another. The caller of ctx is then kept until Run returns.
	Alone func(ctx context.Context) bool

	// mu is never held while Run works. There is no
	// timer: a call that finds fewer than maxFlying on their way, and none waiting, leaves
	// at once; others leave when one lands. So calls travel together only while the
	// server is busy anyway.
	mu      sync.Mutex
	flying  int  // calls of Run under way, at most maxFlying
	waiting []C  // in the order in which they came, at most maxWaiting
	closed  bool // nothing more flies
	flights sync.WaitGroup
}

// Close waits for what flies. A later call is told that the store is away.
func (l *Lane[C]) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.flights.Wait()
}

// Do has c answered. An error that wraps that of ctx means that c may have been decided all
// the same, unless it says otherwise.
func (l *Lane[C]) Do(ctx context.Context, c C) error {
	call := c.Base()
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		return fmt.Errorf("%s: the store is closed: %w", l.Name, weir.ErrAway)
	case l.flying < maxFlying && len(l.waiting) == 0:
		l.flying++
		l.flights.Add(1)
		l.mu.Unlock()
		if l.Alone(ctx) {
			l.Run(ctx, []C{c})
			l.land()
			return call.Err
		}
		call.done = make(chan struct{})
		go l.fly([]C{c})
		return l.wait(ctx, call)
	case len(l.waiting) >= maxWaiting:
		l.mu.Unlock()
		return fmt.Errorf("%s: %d takes wait: %w", l.Name, maxWaiting, weir.ErrBusy)
	}
	call.done = make(chan struct{})
	l.waiting = append(l.waiting, c)
	l.mu.Unlock()
	return l.wait(ctx, call)
}

func (l *Lane[C]) wait(ctx context.Context, call *Call) error {
	select {
	case <-call.done:
		return call.Err
	case <-ctx.Done():
	}
	if l.withdraw(call) {
		return fmt.Errorf("%s: nothing was decided: %w", l.Name, ctx.Err())
	}
	return Late(l.Name, ctx.Err())
}

// Late is the error of a call whose answer did not come in time.
func Late(name string, err error) error {
	return fmt.Errorf("%s: the answer did not come in time, and may have been a charge: %w", name, err)
}

// land hands the place of a lone call that has ended to calls that wait.
func (l *Lane[C]) land() {
	if calls := l.next(); len(calls) > 0 {
		go l.fly(calls)
		return
	}
	l.flights.Done()
}

// fly runs calls, and then those that have come meanwhile, until none waits.
func (l *Lane[C]) fly(calls []C) {
	defer l.flights.Done()
	for ; len(calls) > 0; calls = l.next() {
		l.Run(context.Background(), calls)
		for _, c := range calls {
			close(c.Base().done)
		}
	}
}

// next takes the calls out of waiting that travel together. Where there are none, the
// place of those before is free.
func (l *Lane[C]) next() []C {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.flying--
		return nil
	}
	n := l.Together(l.waiting)
	calls := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	return calls
}

// withdraw takes a call back that has not left yet.
func (l *Lane[C]) withdraw(call *Call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.waiting, func(c C) bool { return c.Base() == call })
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return true
}
