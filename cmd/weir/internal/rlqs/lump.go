package rlqs

import (
	"context"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// decideLump tells of a bucket that holds events that were charged beforehand, and hardly fills.
func (b *bucket) decideLump(ctx context.Context, now weir.Instant, h *holder) (a assignment, ok bool) {
	g, lasting := &h.given, b.lasting()
	ttl, fits := b.lumpTTL(now)
	if !fits {
		return a, false // the window is about to end
	}
	if now >= h.ends { // of another window
		h.charged, h.passed, h.lump, h.out = 0, 0, 0, 0
	}
	want := b.wants(h, unbounded, 1)
	surely := g.strategy == fill && g.surely(now)
	if surely && lasting && 2*h.lump >= want && now < after(h.lumped, lumpLife) {
		if now < after(g.sent, time.Duration(g.ttl)*time.Second/2) {
			return a, false
		}
		return assignment{fill, g.holds, g.fills, g.interval, ttl, 0}, true
	}
	if !lasting && surely && h.lump > 0 && h.idle > 0 {
		return a, false // it has not spent it
	}
	if !lasting && h.idle > 0 { // what it would hold melts
		return b.deny(now, h, 0)
	}
	lump := min(want, b.plan.level)
	if !lasting { // much of a small one would melt
		room, melts, ok := b.melting(ctx, now)
		if !ok || room < 2*melts+2 || !b.turn(h) {
			return b.deny(now, h, 0)
		}
		lump = min(want, room-melts)
	} else if lump < 1 {
		if h.idle > 0 || !b.turn(h) {
			return b.deny(now, h, b.untilEnd(now))
		}
		lump = 1
	}
	got := b.prepay(ctx, now, h, lump)
	if got < 1 {
		return b.deny(now, h, b.untilEnd(now))
	}
	if ttl, fits = b.lumpTTL(now); !fits { // of a window that nobody had used yet, the end was not known
		return a, false
	}
	a = assignment{fill, got, 1, lumpInterval, ttl, 0}
	if g.strategy == fill && g.fills == 1 { // so that the proxy sees a new bucket
		a.fills = 2
	}
	if !h.has() {
		h.since = now
	}
	h.served, h.lump, h.out, h.lumped = now, got, h.out+got, now
	return a, true
}

// lasting is whether lumps do not melt.
func (b *bucket) lasting() bool {
	for _, c := range b.counts {
		if c.melts > 0 {
			return false
		}
	}
	return true
}

// lumpTTL is for how many seconds a lump is good: never beyond the end of a window in which it is charged, even if
// the message is late.
func (b *bucket) lumpTTL(now weir.Instant) (seconds int64, ok bool) {
	seconds = longTTL
	for _, c := range b.counts {
		if c.melts > 0 {
			seconds = min(seconds, int64(TTL/time.Second))
		}
		if c.end != 0 {
			seconds = min(seconds, int64(((c.end-now).Duration()-Delay)/time.Second))
		}
	}
	return seconds, seconds >= 1
}

// melting is how many events counts have of which portions melt, and how many melt of one.
func (b *bucket) melting(ctx context.Context, now weir.Instant) (room, melts int64, ok bool) {
	room = unbounded
	for _, c := range b.counts {
		if c.melts > 0 && now >= after(c.heard, time.Second) && !b.look(ctx, now, c) {
			return 0, 0, false
		}
		room, melts = min(room, c.left), max(melts, c.melts)
	}
	return room, melts, true
}

// prepay has a lump of events charged for a holder, beside what its present one may still pass, and says how many
// there are.
func (b *bucket) prepay(ctx context.Context, now weir.Instant, h *holder, lump int64) int64 {
	need := lump + h.out
	spare := max(h.charged-h.passed, 0)
	if !b.lasting() {
		spare, need = 0, lump
	}
	if spare >= need {
		return lump
	}
	got := b.take(ctx, now, need-spare)
	h.charged += got
	h.ends = b.ends()
	return max(spare+got-(need-lump), 0)
}

// pay has all charged that a bucket with a pace may pass while its assignment lasts, where its counts have prepaid
// portions. fresh tells that it begins full, beside the one before.
func (b *bucket) pay(ctx context.Context, now weir.Instant, h *holder, holds, pace int64, fresh bool) bool {
	if !b.prepaid() {
		return true
	}
	if now >= h.ends {
		h.charged, h.passed = 0, 0
	}
	need := holds + (pace*int64((TTL+Delay)/time.Second)+59)/60
	if fresh && h.given.strategy == fill {
		need += h.given.holds
	}
	if spare := max(h.charged-h.passed, 0); spare < need {
		got := b.take(ctx, now, need-spare)
		h.charged += got
		h.ends = b.ends()
		ttl, ok := b.lumpTTL(now)
		return got == need-spare && ok && ttl >= int64(TTL/time.Second)
	}
	return true
}

// ends is when the first window ends.
func (b *bucket) ends() weir.Instant {
	first := weir.Instant(1) << 52
	for _, c := range b.counts {
		if c.end != 0 {
			first = min(first, c.end)
		}
	}
	return first
}

// take charges up to so many events to all counts whose portions are prepaid, and says how many may pass: what
// melts meanwhile is charged beside.
func (b *bucket) take(ctx context.Context, now weir.Instant, events int64) int64 {
	if events < 1 {
		return 0
	}
	var asks []weir.Ask
	var of []*count
	melts := int64(0)
	for _, c := range b.counts {
		if c.way == rules.QuotaPrepaid {
			melts = max(melts, c.melts)
			a := c.rule.Ask(c.key, 0)
			a.Policy.Fallback, a.Policy.Lease, a.Policy.Sync = weir.FallbackClosed, 0, 0
			asks, of = append(asks, a), append(of, c)
		}
	}
	for i := range asks {
		asks[i].Cost, asks[i].AtLeast = min(events+melts, weir.MaxCount), 1+melts
	}
	out := make([]weir.Decision, len(asks))
	err := b.server.store.Take(ctx, asks, out)
	granted := events + melts
	for i, c := range of {
		if err != nil || out[i].Degraded != "" {
			c.failed, granted = after(now, time.Second), 0
			continue
		}
		c.hears(now, &out[i])
		if !out[i].Charged {
			granted = 0
		} else {
			granted = min(granted, out[i].Cost)
		}
	}
	if err != nil {
		b.server.count(StoreFailed, 1)
	}
	return max(granted-melts, 0)
}

// hears takes note of how the count stands in the store.
func (c *count) hears(now weir.Instant, d *weir.Decision) {
	c.left, c.known, c.heard = d.Remaining, true, now
	if c.end = 0; c.rule.Limit.Spec().Burst == 0 && d.ResetAfter > 0 { // else nothing of the window is used
		c.end = after(now, d.ResetAfter)
	}
}
