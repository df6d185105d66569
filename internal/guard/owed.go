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

// maxReport is of how many keys the store is told in one call.
const maxReport = 64

// owed is what was used while the store was away. It is told when the store is back, and
// of a key that is asked for before, so that nobody gets a limit twice, unless by then it
// would be as never used.
type owed struct {
	count  atomic.Int64
	untold atomic.Int64 // takes that found no room
	mu     sync.Mutex
	debts  map[weir.StateKey]debt
	saying map[weir.StateKey]*report // of which the store is being told
}

// report is a call that tells the store of debts.
type report struct {
	asks  []weir.Ask
	debts []debt
	done  chan struct{} // closed when the store has answered, or failed
}

type debt struct {
	limit *weir.Limit
	part  *weir.Limit // that counted here
	cost  int64
	until time.Time // when the use is over
}

func (o *owed) len() int { return int(o.count.Load()) }

func (o *owed) add(k weir.StateKey, more debt) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.debts == nil {
		o.debts, o.saying = map[weir.StateKey]debt{}, map[weir.StateKey]*report{}
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
	more.cost = min(d.cost+more.cost, weir.MaxCost)
	o.debts[k] = more
	o.counted()
}

// left is of how many keys the store has not heard whose use is not over.
func (o *owed) left() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, now := len(o.saying), time.Now()
	for _, d := range o.debts {
		if now.Before(d.until) {
			n++
		}
	}
	return n
}

// counted has len tell of what there is now. mu is held.
func (o *owed) counted() { o.count.Store(int64(len(o.debts) + len(o.saying))) }

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

// drop forgets a debt.
func (o *owed) drop(k weir.StateKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.debts, k)
	o.counted()
}

// begin takes the debts of keys into a report. of are those of others that are being told
// of some of these keys.
func (o *owed) begin(keys []weir.StateKey, inUse func(weir.StateKey, *debt) int64) (r *report, of []*report) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r = &report{done: make(chan struct{})}
	for _, k := range keys {
		if other := o.saying[k]; other != nil {
			of = append(of, other)
			continue
		}
		d, ok := o.debts[k]
		if !ok {
			continue
		}
		if delete(o.debts, k); time.Now().Before(d.until) {
			o.saying[k] = r
			r.asks = append(r.asks, weir.Ask{State: k, Limit: d.limit, Cost: inUse(k, &d), After: true})
			r.debts = append(r.debts, d)
		}
	}
	o.counted()
	return r, of
}

// end ends a report. Debts that the store did not hear of stay owed.
func (o *owed) end(r *report, err error) {
	o.mu.Lock()
	for i := range r.asks {
		delete(o.saying, r.asks[i].State)
	}
	o.counted()
	o.mu.Unlock()
	for i := range r.asks {
		if err != nil {
			o.add(r.asks[i].State, r.debts[i])
		}
	}
	close(r.done)
}

// settle takes note that what was used here turned out to be so much more, or less.
// Events that the store has heard of by then stay as it heard of them.
func (o *owed) settle(k weir.StateKey, more int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, ok := o.debts[k]
	if !ok {
		return
	}
	if d.cost = min(d.cost+more, weir.MaxCost); d.cost > 0 {
		o.debts[k] = d
	} else {
		delete(o.debts, k)
	}
	o.counted()
}

// of is what is owed of a key.
func (o *owed) of(k weir.StateKey) int64 {
	if o.len() == 0 {
		return 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	cost := o.debts[k].cost
	if r := o.saying[k]; r != nil {
		for i := range r.asks {
			if r.asks[i].State == k {
				cost += r.debts[i].cost
			}
		}
	}
	return cost
}

// some is keys that a server has not heard of, at most so many: first those of which nobody is
// telling it.
func (o *owed) some(most int, fits func(weir.StateKey) bool) (keys []weir.StateKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k := range o.debts {
		if len(keys) == most {
			return keys
		}
		if fits(k) {
			keys = append(keys, k)
		}
	}
	for k := range o.saying {
		if len(keys) == most {
			return keys
		}
		if _, more := o.debts[k]; !more && fits(k) {
			keys = append(keys, k)
		}
	}
	return keys
}

// pay tells the store what is owed of the keys of asks.
func (g *Guard) pay(ctx context.Context, asks []weir.Ask) error {
	if g.owed.len() == 0 {
		return nil
	}
	for i := range asks {
		if err := g.report(ctx, []weir.StateKey{asks[i].State}); err != nil {
			return err
		}
	}
	return nil
}

// payAll tells a server that is there what is owed of all its keys, until a call fails or ctx
// ends.
func (g *Guard) payAll(ctx context.Context, s *server) {
	most := maxReport
	if !g.store.Traits().Atomic {
		most = 1
	}
	for g.owed.len() > 0 {
		keys := g.owed.some(most, func(k weir.StateKey) bool { return g.serverOf(k) == s })
		within, cancel := context.WithTimeout(ctx, maxDeadline)
		err := g.report(within, keys)
		cancel()
		if err != nil || len(keys) == 0 {
			return
		}
	}
}

// report tells the store what is owed of keys, as far as it is still in use here, and waits for
// other goroutines that do. After an error that leaves it open whether the store has heard, it is
// told again: rather too much is counted than too little.
func (g *Guard) report(ctx context.Context, keys []weir.StateKey) error {
	mine, others := g.owed.begin(keys, g.inUse)
	if len(mine.asks) > 0 {
		err := g.store.Take(ctx, mine.asks, make([]weir.Decision, len(mine.asks)))
		if g.owed.end(mine, err); err != nil {
			return err
		}
	}
	for _, r := range others {
		select {
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// inUse is how much of a debt is still in use. A debt that was forgotten here counts as in use.
func (g *Guard) inUse(k weir.StateKey, d *debt) int64 {
	now, states, err := g.local.Look(context.Background(), []weir.Ask{{State: localKey(k), Limit: d.part}})
	if err != nil || states[0] == nil {
		return d.cost
	}
	return min(d.cost, d.part.Used(states[0], now))
}
