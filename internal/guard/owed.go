package guard

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/weir-limit/weir"
)

// maxOwed is how many keys are remembered whose use the store has yet to hear
// of. Beyond it, what is used locally is not told.
const maxOwed = 1 << 16

// owed is what was used while the store was away. It is told when the key is next
// asked for, so that nobody gets a limit twice.
type owed struct {
	some  atomic.Int64
	mu    sync.Mutex
	debts map[weir.StateKey]debt
}

type debt struct {
	limit *weir.Limit
	cost  int64
}

func (o *owed) len() int { return int(o.some.Load()) }

func (o *owed) add(k weir.StateKey, l *weir.Limit, cost int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.debts == nil {
		o.debts = map[weir.StateKey]debt{}
	}
	d, ok := o.debts[k]
	if !ok && len(o.debts) >= maxOwed {
		return
	}
	o.debts[k] = debt{l, min(d.cost+cost, weir.MaxCount)}
	o.some.Store(int64(len(o.debts)))
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

func (o *owed) forget(k weir.StateKey) { o.take(k) }

// pay tells the store what is owed of the keys of asks. What it did not hear
// stays owed; after an error that leaves it open, it is told again: rather too much
// is counted than too little.
func (o *owed) pay(ctx context.Context, store weir.Store, asks []weir.Ask) error {
	if o.some.Load() == 0 {
		return nil
	}
	for i := range asks {
		d, ok := o.take(asks[i].State)
		if !ok {
			continue
		}
		report := []weir.Ask{{State: asks[i].State, Limit: d.limit, Cost: d.cost, After: true}}
		if err := store.Take(ctx, report, make([]weir.Decision, 1)); err != nil {
			o.add(asks[i].State, d.limit, d.cost)
			return err
		}
	}
	return nil
}
