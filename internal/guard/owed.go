package guard

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

// maxOwed is how many keys are remembered whose use the store has yet to hear
// of. Beyond it, what is used locally is not told.
const maxOwed = 1 << 16

// maxSwept is how many keys are looked at for one that makes place.
const maxSwept = 16

// owed is what was used while the store was away. It is told when the key is next
// asked for, so that nobody gets a limit twice, unless by then it would be as never
// used.
type owed struct {
	some   atomic.Int64
	untold atomic.Int64 // takes that found no room
	mu     sync.Mutex
	debts  map[weir.StateKey]debt
}

type debt struct {
	limit *weir.Limit
	part  *weir.Limit // that counted here
	cost  int64
	until time.Time // when the use is over
}

func (o *owed) len() int { return int(o.some.Load()) }

func (o *owed) add(k weir.StateKey, more debt) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.debts == nil {
		o.debts = map[weir.StateKey]debt{}
	}
	d, ok := o.debts[k]
	if !ok {
		if o.sweep(); len(o.debts) >= maxOwed {
			o.untold.Add(1)
			return
		}
		k.Key = strings.Clone(k.Key) // it may be a piece of a request
	}
	if d.until.After(more.until) {
		more.until = d.until
	}
	more.cost = min(d.cost+more.cost, weir.MaxCount)
	o.debts[k] = more
	o.some.Store(int64(len(o.debts)))
}

// sweep makes place where some is needed, by what is over. mu is held.
func (o *owed) sweep() {
	if len(o.debts) < maxOwed {
		return
	}
	looked, now := 0, time.Now()
	for k, d := range o.debts {
		if !now.Before(d.until) {
			delete(o.debts, k)
		}
		if looked++; looked == maxSwept {
			return
		}
	}
}

func (o *owed) take(k weir.StateKey) (debt, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, ok := o.debts[k]
	if ok {
		delete(o.debts, k)
		o.some.Store(int64(len(o.debts)))
	}
	return d, ok
}

// settle takes note that what was used here turned out to be so much more, or less.
// What the store has heard of by then stays as it heard it.
func (o *owed) settle(k weir.StateKey, more int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, ok := o.debts[k]
	if !ok {
		return
	}
	if d.cost = min(d.cost+more, weir.MaxCount); d.cost > 0 {
		o.debts[k] = d
	} else {
		delete(o.debts, k)
	}
	o.some.Store(int64(len(o.debts)))
}

// pay tells the store what is owed of the keys of asks, as far as it is still in
// use here. What it did not hear stays owed; after an error that leaves it open, it
// is told again: rather too much is counted than too little.
func (g *Guard) pay(ctx context.Context, asks []weir.Ask) error {
	if g.owed.len() == 0 {
		return nil
	}
	for i := range asks {
		k := asks[i].State
		d, ok := g.owed.take(k)
		if !ok || !time.Now().Before(d.until) {
			continue
		}
		report := []weir.Ask{{State: k, Limit: d.limit, Cost: g.inUse(k, &d), After: true}}
		if err := g.store.Take(ctx, report, make([]weir.Decision, 1)); err != nil {
			g.owed.add(k, d)
			return err
		}
	}
	return nil
}

// inUse is how much of a debt is still in use. What was forgotten here is taken for
// in use.
func (g *Guard) inUse(k weir.StateKey, d *debt) int64 {
	now, states, err := g.local.Look(context.Background(), []weir.Ask{{State: localKey(k), Limit: d.part}})
	if err != nil || states[0] == nil {
		return d.cost
	}
	return min(d.cost, d.part.Used(states[0], now))
}
