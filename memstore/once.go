package memstore

import (
	"slices"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// maxOnce is how many takes that asked for Once a store remembers at a time.
// Beyond it, Take fails with weir.ErrFull.
const maxOnce = 1 << 18

const onceLife = weir.Instant(weir.OnceLife / time.Microsecond)

// once remembers the answers to takes that asked for it, in two generations:
// the older one is forgotten as a whole. An answer is remembered for at least
// weir.OnceLife and less than three times that, and none needs a timer.
type once struct {
	// mu is held for one look or one note. The take holds its segments all the time
	// between the two, so that the same take, come again, waits for the first.
	mu sync.Mutex
	// new and old are by the id of the take's receipts, about maxOnce together at most.
	// Their decisions are never changed.
	new, old map[uint64][]weir.Decision
	turned   weir.Instant // when new began
}

// wanted is the id by which a take is to charge at most once, or 0.
func wanted(asks []weir.Ask) uint64 {
	if len(asks) == 0 || !asks[0].Once || asks[0].Peek {
		return 0
	}
	return asks[0].Receipt
}

// answered copies the first answer to the take of this id. It fails when there
// is none, and no room to remember one.
func (o *once) answered(id uint64, now weir.Instant, out []weir.Decision) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now >= o.turned+onceLife {
		o.old = o.new
		if now >= o.turned+2*onceLife {
			o.old = nil
		}
		o.new, o.turned = map[uint64][]weir.Decision{}, now
	}
	first := o.new[id]
	if first == nil {
		first = o.old[id]
	}
	if first == nil && len(o.new)+len(o.old) >= maxOnce {
		return false, weir.ErrFull
	}
	return copy(out, first) > 0, nil
}

// remember keeps an answer, if anything was charged. Its caller has held the
// places of the take since it asked whether there was one.
func (o *once) remember(id uint64, out []weir.Decision) {
	if !slices.ContainsFunc(out, func(d weir.Decision) bool { return d.Charged }) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.new[id] = slices.Clone(out)
}
