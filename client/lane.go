package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/storewire"
)

// The bounds of a lane.
const (
	// maxFlying is how many calls of a daemon are on their way at a time: one that it
	// works on, and one that is on the wire.
	maxFlying = 2
	// maxTakes and maxBytes are how many takes travel together, and how large they
	// are; a larger one travels alone.
	maxTakes = 64
	maxBytes = 256 << 10
	// maxWaiting is how many takes wait; more fail with weir.ErrBusy.
	maxWaiting = 1 << 14
	// patience is how long takes that travel together may take, whoever waits.
	patience = 2 * time.Second
)

// call is a take on its way, as it is written. Whoever runs it touches nothing
// else of the caller's, who may have left.
type call struct {
	take   []byte
	parts  int           // of storewire.MaxParts
	done   chan struct{} // closed when answer or err is there
	answer storewire.Answer
	err    error
}

// lane makes takes of one daemon travel together: at once when little is on its
// way, else with all that have come meanwhile.
type lane struct {
	run func(context.Context, []*call) // answers the calls, but does not close done

	mu      sync.Mutex
	flying  int
	waiting []*call
	closed  bool // nothing more flies
	flights sync.WaitGroup
}

// close waits for what flies. A later call is told that the daemon is away.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.flights.Wait()
}

// do has c answered.
func (l *lane) do(ctx context.Context, c *call) error {
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		return fmt.Errorf("client: the store is closed: %w", weir.ErrAway)
	case l.flying < maxFlying:
		l.flying++
		l.flights.Add(1)
		l.mu.Unlock()
		l.run(ctx, []*call{c}) // a lone caller needs no other goroutine
		l.land()
		return c.err
	case len(l.waiting) >= maxWaiting:
		l.mu.Unlock()
		return fmt.Errorf("client: %d takes wait for the daemon: %w", maxWaiting, weir.ErrBusy)
	}
	l.waiting = append(l.waiting, c)
	l.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	if l.withdraw(c) {
		return fmt.Errorf("client: nothing was decided: %w", ctx.Err())
	}
	return late(ctx.Err())
}

// late is for an answer that did not come in time.
func late(err error) error {
	return fmt.Errorf("client: the answer did not come in time, and may have been a charge: %w", err)
}

// land hands the place of a call that has ended to those that wait.
func (l *lane) land() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if calls := l.next(); len(calls) > 0 {
		go l.fly(calls)
		return
	}
	l.flying--
	l.flights.Done()
}

// fly runs calls, and hands their place on.
func (l *lane) fly(calls []*call) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	l.run(ctx, calls)
	cancel()
	for _, c := range calls {
		close(c.done)
	}
	l.land()
}

// next takes the calls out of waiting that travel together. mu is held.
func (l *lane) next() []*call {
	size, parts, n := 0, 0, 0
	for n < len(l.waiting) && n < maxTakes {
		c := l.waiting[n]
		size, parts = size+len(c.take), parts+c.parts
		if n > 0 && (size > maxBytes || parts > storewire.MaxParts) {
			break
		}
		n++
	}
	calls := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	return calls
}

// withdraw takes a call back that has not left yet.
func (l *lane) withdraw(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, c)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return true
}
