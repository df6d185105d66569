package pacing

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/sleep"
)

// How often the own limiter is asked for a permit that others hold. Permits of the
// same lane that come back are seen at once.
const (
	minPoll = time.Millisecond
	maxPoll = 64 * time.Millisecond
)

// Call is one request with all its tries. It is for one goroutine, but for End.
type Call struct {
	Cost     int64 // events of the own limiter that each try costs
	Priority int   // higher goes first

	table     *Table
	lane      *lane
	key       string
	wake      chan struct{}
	tries     int           // how often it was sent
	waited    time.Duration // in earlier tries
	since     time.Time     // when this wait began
	deadline  time.Time     // when this wait must be over
	notBefore time.Time     // its own backoff
	retry     time.Time     // when the own limiter may let it pass
	polls     int           // how often the own limiter could not say when
	place     uint64        // in the queue
	number    uint64        // of its last try, among all that were sent
	paid      *weir.Answer  // of the own limiter, for this try
	queued    bool          // by Heard, for the next try
}

// Reply is what the server answered to a try.
type Reply struct {
	// Denied is whether it refused the call because too much was asked of it.
	Denied bool
	// Replay is whether the call can be sent again, and does no harm then.
	Replay bool
	// Told is whether it said to come back after After; 0 is at once.
	Told  bool
	After time.Duration
	// Quotas are its limits, as far as it told of them.
	Quotas []Quota
}

// Wait returns when the call may be sent. It fails with ErrQueueFull at once when
// too many wait, with a *weir.DeniedError as soon as it is known that the wait
// would outlast ctx's deadline or Options.MaxWait, and when ctx ends. Then there
// is nothing to be told by Heard, but the call must still End.
func (c *Call) Wait(ctx context.Context) error {
	now := time.Now()
	if !c.queued {
		c.begin(ctx, now)
		if err := c.join(now); err != nil {
			return err
		}
	}
	c.queued = false
	err := c.turn(ctx)
	c.waited += time.Since(c.since)
	if err != nil {
		c.quit(ctx)
		return err
	}
	c.tries++
	return nil
}

// begin sets the times of a wait.
func (c *Call) begin(ctx context.Context, now time.Time) {
	c.since, c.retry, c.polls = now, time.Time{}, 0
	c.deadline = now.Add(c.lane.options.MaxWait - c.waited)
	if d, ok := ctx.Deadline(); ok && d.Before(c.deadline) {
		c.deadline = d
	}
}

func (c *Call) join(now time.Time) error {
	l := c.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.queue.add(c, l.options.Waiting) {
		return ErrQueueFull
	}
	l.budget.call(now)
	return nil
}

// turn waits until the call counts as sent.
func (c *Call) turn(ctx context.Context) error {
	var timer *time.Timer // most need not wait
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		now := time.Now()
		do, until := c.lane.next(c, now)
		switch {
		case do == send:
			return nil
		case do == leave || do == wait && !now.Before(c.deadline):
			return tooLate(until.Sub(now))
		case do == pay:
			if err := c.pay(ctx); err != nil {
				return err
			}
			continue
		}
		if timer == nil {
			timer = time.NewTimer(until.Sub(now))
			defer timer.Stop()
		} else {
			timer.Reset(until.Sub(now))
		}
		select {
		case <-timer.C:
		case <-c.wake:
		case <-ctx.Done():
		}
	}
}

// tooLate is the denial of a call that can't wait for so long.
func tooLate(after time.Duration) error {
	d := weir.Decision{Outcome: weir.Denied, Cost: 1, RetryAfter: max(after, 0)}
	return &weir.DeniedError{Answer: weir.Answer{Decision: d}}
}

// pay asks the own limiter, and waits for a slot that it has reserved.
func (c *Call) pay(ctx context.Context) error {
	defer func() {
		c.lane.mu.Lock()
		defer c.lane.mu.Unlock()
		c.lane.paying = nil
		c.lane.wakeFirst(time.Now())
	}()
	a, err := c.lane.options.Limiter.Ask(ctx, weir.Request{Key: c.key, Cost: c.Cost, Receipt: true})
	if err != nil {
		return err
	}
	now := time.Now()
	if a.Outcome == weir.Allowed {
		c.paid = &a
		if now.Add(a.Hold).After(c.deadline) {
			return &weir.DeniedError{Answer: a}
		}
		return sleep.For(ctx, a.Hold)
	}
	again := a.RetryAfter
	if again == 0 { // a permit may come back at any moment
		again = weir.Backoff{First: minPoll, Most: maxPoll}.Delay(c.polls, minPoll, rand.Uint64())
		c.polls++
	}
	if a.Outcome == weir.Impossible || now.Add(again).After(c.deadline) {
		return &weir.DeniedError{Answer: a}
	}
	c.lane.mu.Lock()
	defer c.lane.mu.Unlock()
	c.retry = now.Add(again)
	return nil
}

// quit takes a call out that will not be sent, and gives back what it paid.
func (c *Call) quit(ctx context.Context) {
	l := c.lane
	l.mu.Lock()
	l.queue.remove(c)
	l.wakeFirst(time.Now())
	l.mu.Unlock()
	if c.paid != nil {
		_, _ = l.options.Limiter.Settle(context.WithoutCancel(ctx), *c.paid, 0) // what can't be given back stays used
		c.paid = nil
	}
}

// Heard takes what the server answered to a try, and is whether to try again: the
// call then waits in the queue, and Wait is next. It is false when the call can't
// be sent again, was sent often enough, would come too late, or when there are
// too many retries or calls that wait.
func (c *Call) Heard(ctx context.Context, r Reply) bool {
	again := c.heard(ctx, time.Now(), &r)
	if again {
		c.free(ctx)
	}
	return again
}

func (c *Call) heard(ctx context.Context, now time.Time, r *Reply) bool {
	l := c.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	l.known.learn(now, c.number, r.Quotas, l.flying, l.options.MaxWait)
	if !r.Denied {
		l.known.passed(now)
	}
	after, told := exhausted(r.Quotas), r.Denied && r.Told
	if told {
		after = r.After
	}
	back := now.Add(l.options.Backoff.Delay(c.tries-1, after, rand.Uint64()))
	switch {
	case !told && after == 0:
		l.wakeFirst(now)
	case after <= l.options.MaxWait:
		l.known.holdUntil(back)
		l.wakeAll()
	default:
		l.known.doubt(now, l.options.MaxWait)
		l.wakeFirst(now)
	}
	return r.Denied && r.Replay && c.again(ctx, now, back)
}

// again queues the call for another try at back, if that makes sense.
func (c *Call) again(ctx context.Context, now, back time.Time) bool {
	l := c.lane
	c.begin(ctx, now)
	if c.tries >= l.options.Tries || later(back, l.known.hold).After(c.deadline) ||
		len(l.queue.calls) >= l.options.Waiting || !l.budget.retry(now, l.options.RetryPercent) {
		return false
	}
	c.notBefore, c.queued = back, true
	return l.queue.add(c, l.options.Waiting)
}

// Lost tells that a try got no answer.
func (c *Call) Lost() {
	l := c.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	l.wakeFirst(time.Now())
}

// End tells that the answer is done with, or that there is none. It frees permits
// of the own limiter. It is called once, by any goroutine.
func (c *Call) End(ctx context.Context) {
	c.free(ctx)
	c.table.leave(c.lane)
}

// free gives permits of the own limiter back. Other events that were paid are spent.
func (c *Call) free(ctx context.Context) {
	if c.paid == nil {
		return
	}
	held, ok := c.paid.Permits()
	c.paid = nil
	if !ok {
		return
	}
	_, _ = c.lane.options.Limiter.Settle(context.WithoutCancel(ctx), held, c.Cost) // else its ttl frees it
	c.lane.mu.Lock()
	defer c.lane.mu.Unlock()
	for _, waiting := range c.lane.queue.calls {
		waiting.retry = time.Time{}
	}
	c.lane.wakeFirst(time.Now())
}
