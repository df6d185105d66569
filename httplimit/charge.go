package httplimit

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// settler settles receipts of one take, or renews the permits among them, as
// rules.Limiter.Settle does.
type settler func(ctx context.Context, receipts []*weir.Receipt, used []int64, renew bool) (charged []int64, err error)

// settlePatience is how long a store may take to settle a charge. The client may
// be gone, but the charge must go back.
const settlePatience = 2 * time.Second

// Charge is what a request was charged, for handlers that know only afterwards
// what it costs: tokens, bytes, rows. When the handler returns, panics or is
// aborted, what it has told by Use is settled: less than was charged goes back,
// more is charged as debt. A rule of which it has told nothing stays charged.
//
// Its methods may be called from many goroutines, and on a nil *Charge.
type Charge struct {
	m      *middleware
	around *Charge // of the middleware outside of this one

	mu     sync.Mutex
	items  []item
	open   bool        // a connection that was taken over is
	status int         // of the response; 0 until the handler has returned
	ended  bool        // settled
	renew  *time.Timer // of permits; nil when there are none
}

// item is one receipt of a charge.
type item struct {
	rule    string
	receipt *weir.Receipt
	used    int64
	told    bool
}

type chargeKey struct{}

// ChargeOf is the charge of a request, from its context. It is nil when no
// middleware with Options.Settle has charged it.
func ChargeOf(ctx context.Context) *Charge {
	c, _ := ctx.Value(chargeKey{}).(*Charge)
	return c
}

// Use tells that the request has used n more events of a rule, and whether
// anything is left of what was charged. A stream stops when it is false: what one
// request takes beyond its charge is the only thing that its limit can't bound.
// Use(rule, 0) tells that nothing was used yet, so that all goes back if nothing
// ever is. It is true for a rule that has charged nothing, as one in shadow that
// denies.
//
// The rule is Rule.Name, or the name in a rule file; if a descriptor there has
// several limits, it stands for all of them.
func (c *Charge) Use(rule string, n int64) bool {
	left := true
	for ; c != nil; c = c.around {
		c.mu.Lock()
		for i := range c.items {
			if it := &c.items[i]; it.is(rule) {
				it.used, it.told = min(it.used+min(max(n, 0), weir.MaxCount), weir.MaxCount), true
				left = left && it.used < it.receipt.Cost
			}
		}
		c.mu.Unlock()
	}
	return left
}

// Cost is what a rule has charged, and how much of it Use has told of: the least
// that is left where it stands for several limits. Both are 0 for a rule that has
// charged nothing.
func (c *Charge) Cost(rule string) (charged, used int64) {
	found := false
	for ; c != nil; c = c.around {
		c.mu.Lock()
		for i := range c.items {
			it := &c.items[i]
			if it.is(rule) && (!found || it.receipt.Cost-it.used < charged-used) {
				charged, used, found = it.receipt.Cost, it.used, true
			}
		}
		c.mu.Unlock()
	}
	return charged, used
}

// is whether an item belongs to a rule: by its name, or without the #1, #2 … or
// #NAME of the limits of one descriptor.
func (it *item) is(rule string) bool {
	rest, ok := strings.CutPrefix(it.rule, rule)
	return ok && (rest == "" || rest[0] == '#')
}

// charge is what a request was charged, if there is anything to do when it is done.
func (m *middleware) charge(c *call) *Charge {
	var items []item
	for i := range c.out {
		if r := c.out[i].Receipt; r != nil {
			items = append(items, item{rule: c.of[i].Name, receipt: r})
		}
	}
	return m.newCharge(items)
}

func (m *middleware) newCharge(items []item) *Charge {
	if len(items) == 0 && !m.marks() {
		return nil
	}
	return &Charge{m: m, items: items}
}

// marks is whether requests carry their charge, be there anything in it or not:
// for the handler, or so that the same middleware knows them again where it leaves
// no fields with the names of rules behind.
func (m *middleware) marks() bool {
	names := m.options.Fields == 0 || m.options.Fields&Draft10 != 0
	return m.options.Settle || !names && m.options.Log != nil
}

// serve calls the handler, and settles when it is done: when it has returned and
// a connection that it took over is closed, or when it panics.
func (c *Charge) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if c.m.marks() {
		c.around = ChargeOf(r.Context())
		r = r.WithContext(context.WithValue(r.Context(), chargeKey{}, c))
	}
	if len(c.items) == 0 {
		next.ServeHTTP(w, r)
		return
	}
	c.keepPermits()
	rec := &recorder{ResponseWriter: w, charge: c}
	returned := false
	defer func() {
		if !returned { // it panicked
			c.end(http.StatusInternalServerError)
		}
	}()
	next.ServeHTTP(rec.shown(), r)
	returned = true
	c.finish(func() { c.status = rec.code() })
}

// finish notes that the handler has returned, or the connection that it took
// over is closed, and settles with whichever comes last.
func (c *Charge) finish(note func()) {
	c.mu.Lock()
	note()
	status, open := c.status, c.open
	c.mu.Unlock()
	if status != 0 && !open {
		c.end(status)
	}
}

// end settles, once.
func (c *Charge) end(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	if c.renew != nil {
		c.renew.Stop()
	}
	counts := c.m.options.Counts == nil || c.m.options.Counts(status)
	var receipts []*weir.Receipt
	var used []int64
	for i := range c.items {
		it := &c.items[i]
		switch {
		case !counts:
			receipts, used = append(receipts, it.receipt), append(used, 0)
		case it.told:
			receipts, used = append(receipts, it.receipt), append(used, it.used)
		case it.permit():
			receipts, used = append(receipts, it.receipt), append(used, it.receipt.Cost)
		}
	}
	c.settle(receipts, used)
}

// giveBack settles a charge whose request is not served. The charge may be nil.
func (c *Charge) giveBack() {
	if c == nil {
		return
	}
	var receipts []*weir.Receipt
	for i := range c.items {
		receipts = append(receipts, c.items[i].receipt)
	}
	c.settle(receipts, make([]int64, len(receipts)))
}

func (c *Charge) settle(receipts []*weir.Receipt, used []int64) {
	if len(receipts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), settlePatience)
	defer cancel()
	_, err := c.m.settle(ctx, receipts, used, false)
	if err == nil || errors.Is(err, weir.ErrExpired) || errors.Is(err, weir.ErrSettled) {
		return
	}
	if c.m.first(warnedSettle) {
		c.m.options.Log.Warn("httplimit: a charge could not be settled and stays as it was; this is said once", "error", err)
	}
}

func (it *item) permit() bool { return it.receipt.Limit.Algorithm() == weir.Concurrent }

// keepPermits renews the permits as long as the request takes.
func (c *Charge) keepPermits() {
	var permits []*weir.Receipt
	every := weir.MaxPeriod
	for i := range c.items {
		if it := &c.items[i]; it.permit() {
			permits, every = append(permits, it.receipt), min(every, it.receipt.Limit.Spec().TTL/3)
		}
	}
	if len(permits) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renew = time.AfterFunc(every, func() { c.renewPermits(permits, every) })
}

func (c *Charge) renewPermits(permits []*weir.Receipt, every time.Duration) {
	c.mu.Lock() // so that none is renewed after it was freed
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(every, settlePatience))
	defer cancel()
	// The store may be away: there are two tries before the time of a permit is
	// over. One that is over is not taken again, for another may have it.
	if _, err := c.m.settle(ctx, permits, nil, true); !errors.Is(err, weir.ErrExpired) {
		c.renew.Reset(every)
	}
}
