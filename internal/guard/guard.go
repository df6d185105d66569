package guard

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// ErrAway is returned by Settle, Reset and Look while the store is away.
var ErrAway = errors.New("the store is away; try again later")

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
		Away: g.breaker.open(), Deadline: g.pace.deadline(), Missed: g.missed.Load(),
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
	return g.call(ctx, func(ctx context.Context) error {
		if err := g.owed.pay(ctx, g.store, asks); err != nil {
			return err
		}
		if w, ok := g.store.(weir.Witness); ok && see != nil {
			return w.TakeSeen(ctx, asks, out, see)
		}
		return g.store.Take(ctx, asks, out)
	})
}

// call asks the store within the time that there is, unless it is away.
func (g *Guard) call(ctx context.Context, do func(context.Context) error) error {
	now := time.Now()
	ticket, what := g.breaker.enter(now, g.pace.stall())
	if what == opened {
		g.options.Changed(errors.New("it has owed an answer for too long"))
	}
	if ticket == nil {
		return ErrAway
	}
	limit := g.pace.deadline()
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)*3/4)
	}
	within, cancel := context.WithTimeout(ctx, limit)
	err := do(within)
	cancel()
	took := time.Since(now)
	failed := fails(ctx, err)
	if failed && took >= limit {
		g.missed.Add(1)
	}
	if !failed {
		g.pace.note(took)
	}
	switch g.breaker.leave(ticket, time.Now(), failed) {
	case opened:
		g.options.Changed(err)
	case closed:
		g.options.Changed(nil)
	case same:
	}
	return err
}

// fails is whether an error says that the store is away. That many want one key,
// that a receipt was used before, or that the caller left, says nothing of it.
func fails(ctx context.Context, err error) bool {
	for _, fine := range []error{nil, weir.ErrBusy, weir.ErrSettled, weir.ErrExpired, weir.ErrNoPermit, weir.ErrFull} {
		if errors.Is(err, fine) {
			return false
		}
	}
	return !errors.Is(context.Cause(ctx), context.Canceled)
}

// Settle settles receipts where they were made.
func (g *Guard) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if len(settlements) > 0 && isLocal(settlements[0].Receipt.State) {
		return g.local.Settle(ctx, settlements)
	}
	return g.call(ctx, func(ctx context.Context) error { return g.store.Settle(ctx, settlements) })
}

// Reset forgets what was used of the keys, here and in the store.
func (g *Guard) Reset(ctx context.Context, keys []weir.StateKey) error {
	local := make([]weir.StateKey, len(keys))
	for i, k := range keys {
		local[i] = localKey(k)
		g.owed.forget(k)
	}
	if err := g.local.Reset(ctx, local); err != nil {
		return err
	}
	return g.call(ctx, func(ctx context.Context) error { return g.store.Reset(ctx, keys) })
}

// Look is the states of asks in the store.
func (g *Guard) Look(ctx context.Context, asks []weir.Ask) (now weir.Instant, states []weir.State, err error) {
	looker, ok := g.store.(weir.Looker)
	if !ok {
		return 0, nil, errors.New("this store does not show its states")
	}
	err = g.call(ctx, func(ctx context.Context) error {
		now, states, err = looker.Look(ctx, asks)
		return err
	})
	return now, states, err
}
