// Package guard stands between those who ask and a store that may be slow or
// away: it gives each call its time, stops asking a store that does not answer,
// and lets the fallback of each limit decide then.
package guard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// homely is a store that answers some takes by itself: they tell nothing of
// whether it is away.
type homely interface {
	TakeAtHome(asks []weir.Ask, out []weir.Decision, see func(weir.Instant, weir.State)) bool
}

// Options of a Guard.
type Options struct {
	// Changed is called when the store goes away (away is why) and when it is back
	// (away is nil), from the call that noticed.
	Changed func(away error)
}

// Guard is a weir.Store around another one. Its Take always decides: by the
// store, or, when that is away, by the fallback of each limit, which the decision
// then names. It must be made by New.
type Guard struct {
	store   weir.Store
	home    homely // the same store; nil when it always has to ask
	options Options
	breaker breaker
	pace    pace
	local   *memstore.Store
	shares  shares
	owed    owed
	counts  [3]atomic.Int64 // takes decided by fallbacks, by fallbackIndex
	missed  atomic.Int64    // calls that paid for the whole deadline
}

// New puts a guard around a store.
func New(store weir.Store, o Options) *Guard {
	if o.Changed == nil {
		o.Changed = func(error) {}
	}
	g := &Guard{store: store, options: o, local: memstore.New(memstore.Options{MaxKeys: maxLocalKeys})}
	g.home, _ = store.(homely)
	g.pace.init()
	return g
}

// maxLocalKeys is how many keys of a rule the local fallback has room for.
const maxLocalKeys = 1 << 17

// Traits are those of the store.
func (g *Guard) Traits() weir.Traits { return g.store.Traits() }

// Stats are counts of a guard since it was made, and what it thinks of the store.
type Stats struct {
	Away                bool          // the store is not asked, but for a probe now and then
	Deadline            time.Duration // what a call is given
	Missed              int64         // calls that paid for the whole deadline
	Local, Open, Closed int64         // limits decided by each fallback
	Owed                int           // keys whose local use the store has yet to hear of
}

// Stats are the guard's counts.
func (g *Guard) Stats() Stats {
	return Stats{
		Away: g.breaker.isOpen(), Deadline: g.pace.deadline(), Missed: g.missed.Load(),
		Local: g.counts[0].Load(), Open: g.counts[1].Load(), Closed: g.counts[2].Load(), Owed: g.owed.len(),
	}
}

// Take decides the asks by the store, or by their fallbacks. It fails only when
// ctx was cancelled, or when the asks are not meant.
func (g *Guard) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	return g.TakeSeen(ctx, asks, out, nil)
}

// TakeSeen is Take, and tells what a denial stood on, unless a fallback decided.
func (g *Guard) TakeSeen(ctx context.Context, asks []weir.Ask, out []weir.Decision, see func(weir.Instant, weir.State)) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	if g.home != nil && g.home.TakeAtHome(asks, out, see) {
		return nil
	}
	err := g.Try(ctx, asks, out, see)
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), context.Canceled):
		return err
	}
	return g.fallBack(ctx, asks, out)
}

// Try is TakeSeen without fallbacks: it fails when the store can't be asked, and
// what was asked may then have been charged.
func (g *Guard) Try(ctx context.Context, asks []weir.Ask, out []weir.Decision, see func(weir.Instant, weir.State)) error {
	t := g.enter()
	switch {
	case t == nil:
		return weir.ErrAway
	case t.probe && len(asks) > 0:
		go g.probe(context.WithoutCancel(ctx), t, weir.Ask{State: asks[0].State, Limit: asks[0].Limit, Cost: 1, Peek: true})
		return weir.ErrAway
	}
	return g.wait(ctx, t, func(ctx context.Context) error {
		if err := g.owed.pay(ctx, g.store, asks); err != nil {
			return err
		}
		if w, ok := g.store.(weir.Witness); ok && see != nil {
			return w.TakeSeen(ctx, asks, out, see)
		}
		return g.store.Take(ctx, asks, out)
	})
}

// probe asks a store that is away whether it is back, at nobody's cost.
func (g *Guard) probe(ctx context.Context, t *ticket, peek weir.Ask) {
	one := []weir.Ask{peek}
	_ = g.wait(ctx, t, func(ctx context.Context) error { // the breaker is told
		if looker, ok := g.store.(weir.Looker); ok {
			_, _, err := looker.Look(ctx, one)
			return err
		}
		return g.store.Take(ctx, one, make([]weir.Decision, 1))
	})
}

// enter lets a call pass, or gives no ticket.
func (g *Guard) enter() *ticket {
	t, what := g.breaker.enter(time.Now(), g.pace.stall())
	if what == opened {
		g.options.Changed(errors.New("it has owed an answer for too long"))
	}
	return t
}

// wait asks the store within the time that there is.
func (g *Guard) wait(ctx context.Context, t *ticket, do func(context.Context) error) error {
	limit, cut := g.pace.deadline(), false
	if t.probe {
		limit = maxDeadline // a store that comes back has to be connected to first
	}
	if end, ok := ctx.Deadline(); ok {
		if left := time.Until(end) * 3 / 4; left < limit {
			limit, cut = left, true
		}
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	g.breaker.waits(t, cancel)
	err := do(within)
	took := time.Since(t.began)
	end := endOf(ctx, err)
	if end == failed && cut && took < g.pace.stall() && errors.Is(within.Err(), context.DeadlineExceeded) {
		end = unknown // no store answers in no time
	}
	switch {
	case end == answered:
		g.pace.note(took)
	case end == failed && took >= limit && !t.probe:
		g.missed.Add(1)
	}
	switch g.breaker.leave(t, time.Now(), end) {
	case opened:
		g.options.Changed(err)
	case closed:
		g.options.Changed(nil)
	case same:
	}
	return err
}

// ask is for what has no fallback: it fails with weir.ErrAway.
func (g *Guard) ask(ctx context.Context, do func(context.Context) error) error {
	t := g.enter()
	if t == nil {
		return weir.ErrAway
	}
	err := g.wait(ctx, t, do)
	if endOf(ctx, err) == failed && !errors.Is(err, weir.ErrAway) {
		return fmt.Errorf("%w: %w", weir.ErrAway, err)
	}
	return err
}

// endOf is how a call has ended. That many want one key, or that a receipt was used
// before, is an answer; that the caller left says nothing of the store.
func endOf(ctx context.Context, err error) ending {
	for _, fine := range []error{nil, weir.ErrBusy, weir.ErrSettled, weir.ErrExpired, weir.ErrNoPermit, weir.ErrFull} {
		if errors.Is(err, fine) {
			return answered
		}
	}
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return unknown
	}
	return failed
}

// Settle settles receipts where they were made.
func (g *Guard) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if len(settlements) > 0 && isLocal(settlements[0].Receipt.State) {
		return g.local.Settle(ctx, settlements)
	}
	return g.ask(ctx, func(ctx context.Context) error { return g.store.Settle(ctx, settlements) })
}

// Reset forgets what was used of the keys, in the store and here. When it fails,
// nothing is forgotten.
func (g *Guard) Reset(ctx context.Context, keys []weir.StateKey) error {
	if err := g.ask(ctx, func(ctx context.Context) error { return g.store.Reset(ctx, keys) }); err != nil {
		return err
	}
	local := make([]weir.StateKey, len(keys))
	for i, k := range keys {
		local[i] = localKey(k)
		g.owed.forget(k)
	}
	return g.local.Reset(ctx, local)
}

// Probe asks the store whether it is there, by ping, as any call does: it counts for
// whether the store is away, and fails with weir.ErrAway.
func (g *Guard) Probe(ctx context.Context, ping func(context.Context) error) error {
	return g.ask(ctx, ping)
}

// Look is the states of asks in the store.
func (g *Guard) Look(ctx context.Context, asks []weir.Ask) (now weir.Instant, states []weir.State, err error) {
	looker, ok := g.store.(weir.Looker)
	if !ok {
		return 0, nil, errors.New("this store does not show its states")
	}
	if len(asks) == 0 && !g.store.Traits().OwnClock { // nobody is asked, so that it says nothing of the store
		return looker.Look(ctx, nil)
	}
	err = g.ask(ctx, func(ctx context.Context) error {
		now, states, err = looker.Look(ctx, asks)
		return err
	})
	return now, states, err
}
