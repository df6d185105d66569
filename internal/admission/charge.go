package admission

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/weir-limit/weir"
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
// from many goroutines, and on a nil *Charge, which is of nothing.
type Charge struct {
	gate *Gate
	ctx  context.Context // of the request, which may end before the charge

	mu    sync.Mutex
	items []item
	one   [1]item // memory of items, which mostly has one
	ended bool
	renew *time.Timer // of permits; nil when there are none
	kept  time.Time   // when permits were last sure to have their whole ttl
}

// item is one receipt of a charge.
type item struct {
	rule    string
	receipt *weir.Receipt
	used    int64
	told    bool
}

// Charge is what c was charged, as far as something may have to be done about it: else
// receipts are no more than paper. It is nil when there is nothing.
//
// It renews the permits from now on until it ends, so that a request that is held or takes
// longer than their ttl still counts. So the caller has to end it.
func (g *Gate) Charge(ctx context.Context, c *Call) *Charge {
	var charge *Charge
	add := func(rule string, r *weir.Receipt) {
		if charge == nil {
			charge = &Charge{gate: g, ctx: ctx}
			charge.items = charge.one[:0]
		}
		charge.items = append(charge.items, item{rule: rule, receipt: r})
	}
	if c.answer != nil {
		g.each(c, add)
	}
	for i := range c.of {
		if r := c.out[i].Receipt; r != nil {
			add(c.of[i].Name, r)
		}
	}
	if charge != nil {
		charge.keep()
	}
	return charge
}

// each is each receipt of the rules of a file about which something may have to be done.
func (g *Gate) each(c *Call, add func(rule string, r *weir.Receipt)) {
	seen := map[*weir.Receipt]bool{}
	for i := range c.answer.Decisions {
		d := &c.answer.Decisions[i]
		if d.Receipt != nil && !seen[d.Receipt] && (g.Settles || c.Hold > 0 || d.Receipt.Permit()) {
			seen[d.Receipt] = true
			add(d.Rule.Name, d.Receipt)
		}
	}
}

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
	c.kept = time.Now()
	c.renew = time.AfterFunc(ttl/3, func() { c.renewPermits(c.gate.charge(permits), ttl) })
}

func (c *Charge) renewPermits(permits weir.Charge, ttl time.Duration) {
	c.mu.Lock() // so that none is renewed after it was freed
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	tried, pause := time.Now(), ttl/3
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), min(pause, patience))
	defer cancel()
	switch err := permits.Renew(ctx); {
	case errors.Is(err, weir.ErrExpired): // it is not taken again, for another may have it
		return
	case err == nil:
		c.kept = tried
	case !errors.Is(err, weir.ErrSettled) && time.Since(c.kept) < ttl:
		// The store may be back before the time of the permits is over.
		pause = min(pause, max(ttl/retryPart, leastRetry))
	}
	c.renew.Reset(pause)
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
		c.renew.Stop()
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
