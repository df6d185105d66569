package pacing

import (
	"errors"
	"slices"
	"time"
)

// ErrQueueFull is returned at once when as many calls as may wait are waiting.
var ErrQueueFull = errors.New("rate limit: too many calls are waiting for their turn")

// queue is the calls that wait, at most so many. Calls of a higher priority go first, and among
// equals the call that came first. But when the oldest has waited for more than half of the longest
// time, the calls that came last go first: more calls wait then than can pass, and it is better
// that some go soon and the oldest give up than that all wait until nearly all of them give up.
type queue struct {
	calls []*Call // in no order
	came  uint64  // how many ever came
}

// add takes a call in, which keeps its place among equals over its retries. It
// is false when there are most of them.
func (q *queue) add(c *Call, most int) bool {
	if len(q.calls) >= most {
		return false
	}
	if c.place == 0 {
		q.came++
		c.place = q.came
	}
	q.calls = append(q.calls, c)
	return true
}

func (q *queue) remove(c *Call) {
	if i := slices.Index(q.calls, c); i >= 0 {
		last := len(q.calls) - 1
		q.calls[i], q.calls[last] = q.calls[last], nil
		q.calls = q.calls[:last]
	}
}

// first is the call whose turn it is, or nil. It passes over calls that wait for their own time.
// patience is the longest that a call waits.
func (q *queue) first(now time.Time, patience time.Duration) *Call {
	var first *Call
	newest := q.standing(now, patience)
	for _, c := range q.calls {
		if c.notBefore.After(now) {
			continue
		}
		if first == nil || c.before(first, newest) {
			first = c
		}
	}
	return first
}

// standing is whether a call has waited for more than half of patience.
func (q *queue) standing(now time.Time, patience time.Duration) bool {
	return slices.ContainsFunc(q.calls, func(c *Call) bool {
		return !c.notBefore.After(now) && now.Sub(c.since) > patience/2
	})
}

func (c *Call) before(o *Call, newest bool) bool {
	if c.Priority != o.Priority {
		return c.Priority > o.Priority
	}
	return c.place < o.place != newest
}
