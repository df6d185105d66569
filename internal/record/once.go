package record

import (
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

// MaxOnce is how many first answers a Once remembers; more takes that ask for it fail with
// weir.ErrFull.
const MaxOnce = 1 << 12

// OnceID is a take that asked for Once, of one placement and key.
type OnceID struct {
	ID    uint64 // of its receipt
	Place uint64 // a hash of its Place
}

// Once remembers in this process the answers to takes that asked for it, in two generations: the
// older one is forgotten as a whole. The zero Once is empty. One goroutine uses it at a time.
type Once struct {
	new, old map[OnceID][]weir.Decision
	turned   weir.Instant // when new began
}

// onceLife is OnceLife in microseconds.
const onceLife = weir.Instant(weir.OnceLife / time.Microsecond)

// Answered copies the first answer to a take. It fails when there is none, and no
// room to remember one.
func (o *Once) Answered(now weir.Instant, id OnceID, out []weir.Decision) (bool, error) {
	if o.new == nil || now >= o.turned+onceLife {
		o.old = o.new
		if now >= o.turned+2*onceLife {
			o.old = nil
		}
		o.new, o.turned = map[OnceID][]weir.Decision{}, now
	}
	first := o.new[id]
	if first == nil {
		first = o.old[id]
	}
	if first == nil && len(o.new)+len(o.old) >= MaxOnce {
		return false, weir.ErrFull
	}
	return copy(out, first) > 0, nil
}

// Remember keeps an answer, if anything was charged.
func (o *Once) Remember(id OnceID, out []weir.Decision) {
	if slices.ContainsFunc(out, func(d weir.Decision) bool { return d.Charged }) {
		o.new[id] = slices.Clone(out)
	}
}
