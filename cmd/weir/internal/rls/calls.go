package rls

import (
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

const (
	// inTime is how long a call may take to arrive: as long as a request over HTTP.
	inTime = 10 * time.Second
	// wholeCall is up to how many bytes a call that has arrived is not counted in the
	// budget: they cost less than the goroutine that answers it.
	wholeCall = 4 << 10
	// frameCost is what gRPC keeps of a frame of data beside what is in it.
	frameCost = 128
	// maxUnanswered is how many calls a connection may have that are not answered: all
	// that it sends before it knows of maxStreams, and more than any client has
	// afterwards. One that does not read its answers has more and more.
	maxUnanswered = 16 * maxStreams
	// farewell is how long a connection that is closed may take to tell its client why.
	farewell = 50 * time.Millisecond
)

// calls are those of a connection that it has begun and that are not answered. They
// follow its frames both ways.
type calls struct {
	budget  *overload.Budget
	cut     func() // closes the connection
	open    map[uint32]call
	partial int      // of them, those that have not arrived as a whole
	grown   []uint32 // those that have grown since hold
}

// call is one of them.
type call struct {
	begun time.Time
	bytes int64
	whole bool              // all of it has come
	held  *overload.Holding // nil: it is whole and small
}

// asked follows a frame that the client has sent.
func (c *calls) asked(f *frames, now time.Time) {
	stream := f.stream()
	at, known := c.open[stream]
	switch kind := f.kind(); {
	case kind == frameReset:
		c.end(stream)
		return
	case kind == frameHeaders && !known:
		at = call{begun: now}
		c.partial++
	case kind != frameHeaders && kind != frameContinuation && kind != frameData, !known: // it was answered
		return
	}
	at.bytes += int64(f.left) + frameCost
	if f.ends() && !at.whole {
		at.whole = true
		c.partial--
	}
	c.open[stream] = at
	c.grown = append(c.grown, stream)
}

// answered follows a frame that the client is sent, and is whether it answers a call.
func (c *calls) answered(f *frames) bool {
	if f.ends() || f.kind() == frameReset {
		c.end(f.stream())
	}
	return f.ends()
}

// end forgets a call.
func (c *calls) end(stream uint32) {
	at, ok := c.open[stream]
	if !ok {
		return
	}
	delete(c.open, stream)
	if !at.whole {
		c.partial--
	}
	if at.held != nil {
		at.held.End()
	}
}

// endAll forgets all calls of a connection that is closed.
func (c *calls) endAll() {
	for stream := range c.open {
		c.end(stream)
	}
}

// hold counts what calls hold that have grown.
func (c *calls) hold(now time.Time) {
	for _, stream := range c.grown {
		at, ok := c.open[stream]
		if !ok || at.held == nil && at.whole && at.bytes <= wholeCall {
			continue
		}
		if at.held == nil {
			at.held = c.budget.Begin(at.begun, c.cut)
			c.open[stream] = at
		}
		bytes := at.bytes
		if !at.whole {
			bytes += overload.Unfinished
		}
		at.held.Hold(now, bytes)
	}
	c.grown = c.grown[:0]
}

// due is when the first call must have arrived; zero: all have.
func (c *calls) due() (due time.Time) {
	if c.partial == 0 {
		return due
	}
	for _, at := range c.open {
		if end := at.begun.Add(inTime); !at.whole && (due.IsZero() || end.Before(due)) {
			due = end
		}
	}
	return due
}
