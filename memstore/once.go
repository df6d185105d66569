package memstore

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// maxOnce is how many takes that asked for Once a store remembers at a time.
// Beyond it, Take fails with weir.ErrFull: none that is remembered is forgotten early, for it
// would be charged twice when it comes again.
const maxOnce = 1 << 18

const onceLife = weir.Instant(weir.OnceLife / time.Microsecond)

// once remembers the answers to takes that asked for it, in two generations:
// the older one is forgotten as a whole. An answer is remembered for at least
// weir.OnceLife and less than three times that, and none needs a timer. While the clock is behind
// the time of the last turn, no generation ends: answers stay for longer. A store that nobody
// asks for Once keeps its last answers until somebody does.
type once struct {
	// mu is held for one look or one note. The take holds its segments all the time
	// between the two, so that the same take, come again, waits for the first.
	mu sync.Mutex
	// new and old hold about maxOnce answers together at most: takes of other segments that
	// have found room at the same time may pass it by one each. Their decisions are never
	// changed.
	new, old map[onceID][]weir.Decision
	turned   weir.Instant // when new began

	seed maphash.Seed
}

// onceID is what a take is known again by: the number that its client chose, and a hash of what it
// is about, so that two clients with the same number don't get each other's answers.
type onceID struct {
	receipt uint64
	place   uint64 // the hash of the placement and key of its first ask
}

// wanted is the id by which a take is to charge at most once, if it is.
func (o *once) wanted(asks []weir.Ask) (id onceID, is bool) {
	if len(asks) == 0 || !asks[0].ChargesOnce() {
		return onceID{}, false
	}
	first := &asks[0]
	return onceID{first.Receipt, maphash.Comparable(o.seed, record.Place(first.State))}, true
}

// answered copies the first answer to the take of this id. It fails when there
// is none, and no room to remember one. That is before the take is decided, so a take that could
// not be remembered charges nothing.
func (o *once) answered(id onceID, now weir.Instant, out []weir.Decision) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now >= o.turned+onceLife {
		o.old = o.new
		if now >= o.turned+2*onceLife {
			o.old = nil
		}
		o.new, o.turned = map[onceID][]weir.Decision{}, now
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
func (o *once) remember(id onceID, out []weir.Decision) {
	if !slices.ContainsFunc(out, func(d weir.Decision) bool { return d.Charged }) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.new[id] = slices.Clone(out)
}
