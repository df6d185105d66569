package redisstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// The bounds of a lane.
const (
	// maxFlying is how many script calls are on their way at a time: one that
	// Redis works on, and one that is on the wire.
	maxFlying = 2
	// maxAsks is how many asks travel together. More bring no more throughput,
	// only latency.
	maxAsks = 64
	// maxAlone is how long a caller that left may be kept until it is told so.
	maxAlone = 100 * time.Millisecond
	// maxWaiting is how many takes wait; more fail with weir.ErrBusy.
	maxWaiting = 1 << 14
)

// call is a take on its way. Its caller made keys and asks and reads answers;
// nobody else touches the asks it was made of.
type call struct {
	keys   []string
	limits []limitText
	asks   []askText
	pair   string        // of pace.lua, in place of limits and asks
	done   chan struct{} // closed when answers or err are there

	now     weir.Instant
	answers []string // of keys
	err     error
}

// limitText is a limit as take.lua reads it, and askText an ask; of is the index
// of its limit in the call.
type limitText struct {
	limit *weir.Limit
	text  string
}

type askText struct {
	of   int
	text []byte
}

// lane makes calls travel together. Its zero value, with run, is empty.
type lane struct {
	run func(context.Context, []*call) // answers the calls

	mu      sync.Mutex
	flying  int
	waiting []*call
	closed  bool // nothing more flies
	flights sync.WaitGroup
}

// close waits for what flies. A later call is told that the store is away: a guard may
// still try it while its daemon ends.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.flights.Wait()
}

// do has c answered. An error that wraps that of ctx means that c may have been
// decided all the same, unless it says otherwise.
func (l *lane) do(ctx context.Context, c *call) error {
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		return fmt.Errorf("redisstore: the store is closed: %w", weir.ErrAway)
	case l.flying < maxFlying && len(l.waiting) == 0:
		l.flying++
		l.flights.Add(1)
		l.mu.Unlock()
		if soon(ctx) {
			l.alone(ctx, c)
			return c.err
		}
		go l.fly([]*call{c})
		return l.wait(ctx, c)
	case len(l.waiting) >= maxWaiting:
		l.mu.Unlock()
		return fmt.Errorf("redisstore: %d takes wait for Redis: %w", maxWaiting, weir.ErrBusy)
	}
	l.waiting = append(l.waiting, c)
	l.mu.Unlock()
	return l.wait(ctx, c)
}

// soon is whether a caller may be kept as long as it takes: it can't leave, or
// its time is over soon.
func soon(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Done() == nil || ok && time.Until(end) < maxAlone
}

func (l *lane) wait(ctx context.Context, c *call) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	if l.withdraw(c) {
		return fmt.Errorf("redisstore: nothing was decided: %w", ctx.Err())
	}
	return fmt.Errorf("redisstore: the answer did not come in time, and may have been a charge: %w", ctx.Err())
}

// alone runs c on the goroutine of its caller, which is quicker than another. What
// has come meanwhile flies by itself.
func (l *lane) alone(ctx context.Context, c *call) {
	l.run(ctx, []*call{c})
	l.mu.Lock()
	calls := l.next()
	if len(calls) == 0 {
		l.flying--
		l.flights.Done()
	} else {
		go l.fly(calls)
	}
	l.mu.Unlock()
}

// next takes the calls out of waiting that travel together. mu is held.
func (l *lane) next() []*call {
	asks, n := 0, 0
	for n < len(l.waiting) && (n == 0 || asks+len(l.waiting[n].keys) <= maxAsks) {
		asks += len(l.waiting[n].keys)
		n++
	}
	calls := make([]*call, n)
	copy(calls, l.waiting)
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
	return calls
}

// fly runs calls, and then those that have come meanwhile, until none waits.
func (l *lane) fly(calls []*call) {
	defer l.flights.Done()
	for len(calls) > 0 {
		l.run(context.Background(), calls)
		l.mu.Lock()
		if calls = l.next(); len(calls) == 0 {
			l.flying--
		}
		l.mu.Unlock()
	}
}

// withdraw takes a call back that has not left yet.
func (l *lane) withdraw(c *call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range l.waiting {
		if w == c {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			return true
		}
	}
	return false
}
