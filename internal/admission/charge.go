package admission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// patience is how long a store may take to settle a charge. The client may be gone, but
// the charge must go back.
const patience = 2 * time.Second

// A renewal that fails is tried again after one part of the ttl in retryPart, but not
// before leastRetry.
const (
	retryPart  = 20
	leastRetry = 5 * time.Millisecond
)

// Charge is what a request was charged, until it is done: work may tell meanwhile what it
// uses, and permits are renewed. End or GiveBack settles it. Its methods may be called
// from many goroutines. The zero Charge and a nil *Charge are of nothing.
type Charge struct {
	gate *Gate
	ctx  context.Context // of the request, which may end before the charge

	mu    sync.Mutex
	items []item
	one   [1]item // memory of items, which mostly has one
	ended bool
	renew *renewal // of permits; nil when there are none
}

// renewal keeps the permits of a charge. The lock of the charge guards it.
type renewal struct {
	timer   *time.Timer
	permits []*weir.Receipt
	ttl     time.Duration // the shortest of the permits
	kept    time.Time     // when they were last sure to have it whole
}

// item is one receipt of a charge.
type item struct {
	rule    string
	receipt *weir.Receipt
	used    int64
	told    bool
}

// Charges is whether something may have to be done about what c was charged: else receipts are
// no more than paper.
func (g *Gate) Charges(c *Call) bool {
	if c.answer != nil {
		return slices.ContainsFunc(c.answer.Decisions, func(d rules.Decision) bool { return g.settles(c, d.Receipt) })
	}
	return slices.ContainsFunc(c.out, func(d weir.Decision) bool { return d.Receipt != nil })
}

// settles is whether something may have to be done about a receipt of the rules of a file.
func (g *Gate) settles(c *Call, r *weir.Receipt) bool {
	return r != nil && (g.Settles || c.Hold > 0 || r.Permit())
}

// Charge puts into charge, which is of nothing yet, what c was charged.
//
// It renews the permits from now on until it ends, so that a request that is held or takes
// longer than their ttl still counts. So the caller has to end it.
func (g *Gate) Charge(ctx context.Context, c *Call, charge *Charge) {
	charge.gate, charge.ctx, charge.items = g, ctx, charge.one[:0]
	if c.answer != nil {
		charge.addAnswer(c)
	}
	for i := range c.of {
		if r := c.out[i].Receipt; r != nil {
			charge.items = append(charge.items, item{rule: c.of[i].Name, receipt: r})
		}
	}
	charge.keep()
}

// addAnswer adds each receipt of the rules of a file about which something may have to be done. One
// receipt may stand in several decisions.
func (c *Charge) addAnswer(call *Call) {
	seen := map[*weir.Receipt]bool{}
	for i := range call.answer.Decisions {
		if d := &call.answer.Decisions[i]; c.gate.settles(call, d.Receipt) && !seen[d.Receipt] {
			seen[d.Receipt] = true
			c.items = append(c.items, item{rule: d.Rule.Name, receipt: d.Receipt})
		}
	}
}

// Empty is whether nothing was charged that may have to be settled.
func (c *Charge) Empty() bool { return len(c.items) == 0 }

// is whether an item belongs to a rule: by its name, or without the #1, #2 … or
// #NAME of the limits of one descriptor.
func (it *item) is(rule string) bool {
	rest, ok := strings.CutPrefix(it.rule, rule)
	return ok && (rest == "" || rest[0] == '#')
}

// Use tells that n more events of a rule were used, and whether anything is left of what
// it was charged; true for a rule that was charged nothing.
func (c *Charge) Use(rule string, n int64) (left bool) {
	left = true
	if c == nil {
		return left
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.items {
		if it := &c.items[i]; it.is(rule) {
			it.used, it.told = min(it.used+min(max(n, 0), weir.MaxCount), weir.MaxCount), true
			left = left && it.used < it.receipt.Cost
		}
	}
	return left
}

// Cost is what a rule was charged, and how much of it Use has told of: the least that is
// left where it stands for several limits. found is false for a rule that was charged
// nothing.
func (c *Charge) Cost(rule string) (charged, used int64, found bool) {
	if c == nil {
		return 0, 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.items {
		it := &c.items[i]
		if it.is(rule) && (!found || it.receipt.Cost-it.used < charged-used) {
			charged, used, found = it.receipt.Cost, it.used, true
		}
	}
	return charged, used, found
}

// keep renews the permits from now on until the charge ends.
func (c *Charge) keep() {
	var permits []*weir.Receipt
	ttl := weir.MaxPeriod
	for i := range c.items {
		if r := c.items[i].receipt; r.Permit() {
			permits, ttl = append(permits, r), min(ttl, r.Limit.Spec().TTL)
		}
	}
	if len(permits) == 0 {
		return
	}
	c.mu.Lock() // the timer may be faster than its being noted
	defer c.mu.Unlock()
	c.renew = &renewal{permits: permits, ttl: ttl, kept: time.Now()}
	c.renew.timer = time.AfterFunc(ttl/3, c.renewPermits)
}

func (c *Charge) renewPermits() {
	c.mu.Lock() // so that none is renewed after it was freed
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	r, tried := c.renew, time.Now()
	pause := r.ttl / 3
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), min(pause, patience))
	defer cancel()
	switch err := c.gate.charge(r.permits).Renew(ctx); {
	case errors.Is(err, weir.ErrExpired): // it is not taken again, for another may have it
		return
	case err == nil:
		r.kept = tried
	case !errors.Is(err, weir.ErrSettled) && time.Since(r.kept) < r.ttl:
		// The store may be back before the time of the permits is over.
		pause = min(pause, max(r.ttl/retryPart, leastRetry))
	}
	r.timer.Reset(pause)
}

// End settles the charge of a request that is done, once. It cost as much as Use has told, permits
// are freed, and all else stays charged. A request that does not count gets all back.
func (c *Charge) End(counts bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	if c.renew != nil {
		c.renew.timer.Stop()
	}
	var receipts []*weir.Receipt
	var used []int64
	for i := range c.items {
		it := &c.items[i]
		switch {
		case !counts:
			receipts, used = append(receipts, it.receipt), append(used, 0)
		case it.told:
			receipts, used = append(receipts, it.receipt), append(used, it.used)
		case it.receipt.Permit():
			receipts, used = append(receipts, it.receipt), append(used, it.receipt.Cost)
		}
	}
	if len(receipts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), patience)
	defer cancel()
	_, err := c.gate.charge(receipts).Settle(ctx, used)
	if err != nil && !errors.Is(err, weir.ErrExpired) && !errors.Is(err, weir.ErrSettled) {
		c.gate.Unsettled(ctx, err)
	}
}

// GiveBack settles the charge of a request that is not served.
func (c *Charge) GiveBack() { c.End(false) }

// charge is where receipts are settled.
func (g *Gate) charge(receipts []*weir.Receipt) weir.Charge {
	if g.Limiter != nil {
		return g.Limiter.Charge(receipts)
	}
	return weir.NewCharge(g.Store, receipts)
}
