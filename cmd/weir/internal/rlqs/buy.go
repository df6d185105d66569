package rlqs

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// ask learns of the store what may be promised now: it buys pace, and looks at counts whose portions are prepaid. It says
// no where the store can't be asked.
func (b *bucket) ask(ctx context.Context, now weir.Instant) bool {
	ok := true
	for _, c := range b.counts {
		switch {
		case now < c.failed:
			ok = false
		case c.way == rules.QuotaBooked:
			ok = b.buy(ctx, now, c) && ok
		case !c.known, c.end != 0 && now >= c.end:
			ok = b.look(ctx, now, c) && ok
		}
	}
	return ok
}

// look peeks at a count whose portions are prepaid.
func (b *bucket) look(ctx context.Context, now weir.Instant, c *count) bool {
	a := c.rule.Ask(c.key, 1)
	a.Peek, a.Policy.Fallback, a.Policy.Lease, a.Policy.Sync = true, weir.FallbackClosed, 0, 0
	var out [1]weir.Decision
	if !b.taken(ctx, now, c, []weir.Ask{a}, out[:]) {
		return false
	}
	c.hears(now, &out[0])
	return true
}

// taken asks the store, and says no where that did not decide.
func (b *bucket) taken(ctx context.Context, now weir.Instant, c *count, asks []weir.Ask, out []weir.Decision) bool {
	err := b.server.store.Take(ctx, asks, out)
	if err != nil || out[0].Degraded != "" {
		c.failed = after(now, time.Second)
		b.server.count(StoreFailed, 1)
		return false
	}
	return true
}

// buy buys pace of the slices that an assignment of now may touch: what the proxies of this daemon are to have, and no
// more than their part.
func (b *bucket) buy(ctx context.Context, now weir.Instant, c *count) bool {
	first, _, last := span(now)
	if !b.tell(ctx, now, c, first) {
		return false
	}
	needs := b.needs(c)
	least, want := min(c.part, needs+needs/16), min(c.part, max(needs+needs/4, c.book.Pace/16))
	if now < after(b.plan.came, calm) { // for those who come
		want = c.part
	}
	for s := first; s <= last; s++ {
		p := c.book.page(s)
		if p.asked >= least {
			continue
		}
		a := b.slice(c, "pace", s, c.book.Pace)
		a.Cost, a.AtLeast = want-p.asked, 1
		var out [1]weir.Decision
		if !b.taken(ctx, now, c, []weir.Ask{a}, out[:]) {
			return false
		}
		p.asked = want
		if out[0].Charged {
			p.bought += out[0].Cost
		}
	}
	return true
}

// needs is the pace that the proxies of a bucket are to have together, as far as is known.
func (b *bucket) needs(c *count) (pace int64) {
	n := int64(len(b.holders))
	if b.plan.holders == n && !b.plan.lumps {
		return min(b.plan.wanted, c.book.Pace)
	}
	for h := range b.holders {
		pace += b.wants(h, c.book.Pace, n)
	}
	return min(pace, c.book.Pace)
}

// tell tells other daemons what the proxies of this one ask for, and learns what all ask for: each daemon has its
// part of the pace by that. A daemon tells once in a time in which all proxies report, and looks in each slice.
func (b *bucket) tell(ctx context.Context, now weir.Instant, c *count, slice int64) bool {
	var out [1]weir.Decision
	period := slice / boardSlices
	if c.tells == 0 || c.period != period {
		before := int64(0)
		if c.period == period-1 {
			before = c.tells
		}
		a := b.slice(c, "asked", period-1, board)
		a.Peek = true
		if !b.taken(ctx, now, c, []weir.Ask{a}, out[:]) {
			return false
		}
		c.others, c.period, c.tells = max(board-out[0].Remaining-before, 0), period, max(b.needs(c), 1)
	} else if c.told == slice {
		return true
	}
	a := b.slice(c, "asked", period, board)
	if a.Peek = c.toldIn == period; !a.Peek {
		a.Cost, a.After = c.tells, true
	}
	if !b.taken(ctx, now, c, []weir.Ask{a}, out[:]) {
		return false
	}
	c.told, c.toldIn = slice, period
	others, mine := max(c.others, board-out[0].Remaining-c.tells), max(b.needs(c), 1)
	c.part = c.book.Pace
	if all := others + mine; all > c.book.Pace {
		c.part = max(mulDiv(c.book.Pace, mine, all), 1)
	}
	return true
}

// boardSlices is how many slices long the time is in which each daemon tells once what its proxies ask for.
const boardSlices = 4

// board is the most pace that a count of demands adds up.
const board = int64(weir.MaxWindowCount)

// slice asks about a count of one slice. It begins with the first ask, and is no longer asked when its slice is
// over, so it is a window that opens then.
func (b *bucket) slice(c *count, of string, slice, count int64) weir.Ask {
	policy := c.rule.Policy
	policy.Fallback, policy.Lease, policy.Sync, policy.Sharing = weir.FallbackClosed, 0, 0, ""
	return weir.Ask{
		State: weir.StateKey{
			Rule: prefix + strings.ReplaceAll(c.rule.State("").Rule, "#", "!") + "#" + of,
			Key:  c.key + "\x00" + strconv.FormatInt(slice, 36),
		},
		Limit: b.server.window(count), Policy: policy,
	}
}

// prefix begins the names of counts that rules have beside their own. Places of rules have no space.
const prefix = "quota "

// windowLife is for how long the count of a slice is kept: an assignment's time before it, and itself.
const windowLife = time.Minute

func newWindow(count int64) *weir.Limit {
	l, err := weir.Spec{Count: count, Period: windowLife, Algorithm: weir.FixedWindow, Anchored: true}.Limit()
	if err != nil {
		panic("rlqs: " + err.Error()) // counts are in bounds
	}
	return l
}
