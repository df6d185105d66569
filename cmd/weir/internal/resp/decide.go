package resp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/fields"
	"github.com/weir-limit/weir/rules"
)

// five are the numbers that answer both commands.
type five struct {
	limited   bool
	limit     int64
	remaining int64
	retry     int64 // seconds, at least 1; −1 when allowed, or never
	reset     int64 // seconds
}

// standing is what d says of a limit that passes so many at once.
func standing(d *weir.Decision, limit int64) five {
	f := five{
		limited: d.Outcome != weir.Allowed, limit: limit,
		remaining: max(d.Remaining, 0), retry: -1, reset: fields.Seconds(d.ResetAfter),
	}
	if d.Outcome == weir.Denied {
		f.retry = fields.RetryAfter(d.RetryAfter)
	}
	return f
}

// tell answers with the five, and says that so many things are in the array.
func (c *conn) tell(f five, things int64) {
	limited := int64(0)
	if f.limited {
		limited = 1
	}
	b := strconv.AppendInt(append(c.out.AvailableBuffer(), '*'), things, 10)
	for _, n := range [...]int64{limited, f.limit, f.remaining, f.retry, f.reset} {
		b = strconv.AppendInt(append(b, "\r\n:"...), n, 10)
	}
	c.out.Write(append(b, "\r\n"...))
}

// number reads an argument between bounds. One that is no number answers with an
// error that names it.
func (c *conn) number(word []byte, name string, least, most int64) (int64, bool) {
	n, err := strconv.ParseInt(string(word), 10, 64)
	if errors.Is(err, strconv.ErrRange) && most == math.MaxInt64 && n > 0 {
		err = nil // it is a number all the same, and larger than any other
	}
	if err == nil && n >= least && n <= most {
		return n, true
	}
	if most == math.MaxInt64 {
		c.fail(fmt.Sprintf("ERR %s must be an integer from %d", name, least))
	} else {
		c.fail(fmt.Sprintf("ERR %s must be an integer from %d to %d", name, least, most))
	}
	return 0, false
}

// throttle is CL.THROTTLE key max_burst count period [quantity].
func (c *conn) throttle(ctx context.Context) {
	words := c.words
	key, quantity := words[1], int64(1)
	if len(key) > rules.MaxWord {
		c.fail(fmt.Sprintf("ERR key has %d bytes; there may be %d", len(key), rules.MaxWord))
		return
	}
	burst, ok := c.number(words[2], "max_burst", 0, weir.MaxCount-1)
	if !ok {
		return
	}
	count, ok := c.number(words[3], "count", 1, weir.MaxCount)
	if !ok {
		return
	}
	period, ok := c.number(words[4], "period", 1, int64(weir.MaxPeriod/time.Second))
	if !ok {
		return
	}
	if len(words) > 5 {
		if quantity, ok = c.number(words[5], "quantity", 0, math.MaxInt64); !ok {
			return
		}
	}
	burst++
	now := weir.InstantOf(c.clock)
	t, use, err := c.server.limits.find(numbers{burst, count, period}, c.from, now)
	if err != nil {
		if errors.Is(err, rules.ErrClientOverrides) || errors.Is(err, rules.ErrAllOverrides) {
			c.server.options.Reached(BoundLimits)
		}
		c.fail("ERR " + err.Error())
		return
	}
	// More than the limit ever passes may be more than a store may be asked.
	never := quantity > burst
	c.asks[0] = weir.Ask{
		State: weir.StateKey{Rule: t.rule, Key: c.server.keys.text(key)}, Limit: t.limit,
		Cost: min(quantity, burst), Peek: quantity == 0 || never,
	}
	if err := c.server.store.Take(ctx, c.asks[:], c.taken[:]); err != nil {
		c.broken(ctx, "cl.throttle", err)
		return
	}
	d := &c.taken[0]
	if never {
		d.Outcome = weir.Impossible
	}
	if quantity > 0 {
		c.server.options.Decided(c.asks[0].State.Key, d)
	}
	if d.ResetAfter > 0 {
		use.Use(now + weir.Instant(d.ResetAfter/time.Microsecond))
	}
	c.tell(standing(d, burst), 5)
}

// check is WEIR.CHECK domain cost key value [key value …].
func (c *conn) check(ctx context.Context) {
	if len(c.words)%2 == 0 {
		c.wrongNumber("weir.check")
		return
	}
	cost, ok := c.number(c.words[2], "cost", 0, weir.MaxCount)
	if !ok {
		return
	}
	c.room, c.ends = c.room[:0], c.ends[:0] // words that stand there already are written over by themselves
	for _, w := range c.words {
		c.room = append(c.room, w...)
		c.ends = append(c.ends, len(c.room))
	}
	all := string(c.room) // one piece of memory for all words
	word := func(i int) string { return all[c.ends[i-1]:c.ends[i]] }
	q := &c.request
	d := &q.Descriptors[0]
	q.Domain, d.Cost, d.Entries = word(1), cost, d.Entries[:0]
	for i := 3; i < len(c.words); i += 2 {
		d.Entries = append(d.Entries, rules.Entry{Key: word(i), Value: word(i + 1)})
	}
	a, err := c.server.limiter.Check(ctx, q)
	if err != nil {
		c.refuse(ctx, err)
		return
	}
	if a.Decisive < 0 {
		c.tell(five{retry: -1}, 6)
		c.bulk("")
		return
	}
	decisive := &a.Decisions[a.Decisive]
	c.tell(standing(&decisive.Decision, quota(decisive.Rule.Limit)), 6)
	c.bulk(decisive.Rule.Name)
}

// quota is what a limit passes after rest: the burst of a bucket, the count of
// the others.
func quota(l *weir.Limit) int64 {
	s := l.Spec()
	switch s.Algorithm {
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket:
		return s.Burst
	case weir.LeakyQueue, weir.FixedWindow, weir.SlidingLog, weir.SlidingWindow, weir.WarmUp, weir.Concurrent:
	}
	return s.Count
}

// refuse answers a WEIR.CHECK that decided nothing.
func (c *conn) refuse(ctx context.Context, err error) {
	if bad, ok := errors.AsType[*rules.RequestError](err); ok {
		field := bad.Field
		if len(field) > len(only) && field[:len(only)] == only {
			field = field[len(only):] // there are no others
		}
		c.fail("ERR " + field + ": " + bad.Text)
		return
	}
	if errors.Is(err, rules.ErrNoRules) {
		c.fail("ERR no rules are loaded yet; try again when /readyz says so")
		return
	}
	c.broken(ctx, "weir.check", err)
}

// only is where the one descriptor of a WEIR.CHECK is.
const only = "descriptors[0]."

// broken answers when nothing could be decided.
func (c *conn) broken(ctx context.Context, command string, err error) {
	if ctx.Err() == nil {
		c.server.options.Log.Error("a call failed", "route", command, "error", err)
	}
	c.fail("ERR the daemon could not decide; its log says why")
}
