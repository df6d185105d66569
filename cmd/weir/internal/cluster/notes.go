package cluster

import (
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

// The bounds of what a shard remembers as owner.
const (
	// maxOnce is how many first answers of takes that asked for Once; more fail with
	// weir.ErrFull.
	maxOnce = 1 << 12
	// maxReplies is how many answers to calls, for calls that come again; of older
	// ones that do, the work is done twice, so that less passes.
	maxReplies = 1 << 8
)

// notes are what an owner remembers beside its ledgers. They stay with the process.
type notes struct {
	once    once
	replies map[callID][]byte
	order   [maxReplies]callID // of replies, the oldest at next
	next    int
}

// receiptID is a take that asked for Once, of one placement and key.
type receiptID struct {
	id    uint64
	place uint64 // its hash
}

// callID is a call, as its caller numbers it.
type callID struct {
	from string
	id   uint64
}

// answer remembers a reply, in the place of the oldest.
func (n *notes) answer(c callID, reply []byte) {
	if n.replies == nil {
		n.replies = map[callID][]byte{}
	}
	delete(n.replies, n.order[n.next])
	n.order[n.next] = c
	n.next = (n.next + 1) % maxReplies
	n.replies[c] = slices.Clone(reply)
}

// once remembers the answers to takes that asked for it, in two generations: the
// older one is forgotten as a whole.
type once struct {
	new, old map[receiptID][]weir.Decision
	turned   weir.Instant // when new began
}

// onceLife is OnceLife in microseconds.
const onceLife = weir.Instant(weir.OnceLife / time.Microsecond)

// answered copies the first answer to a take. It fails when there is none, and no
// room to remember one.
func (o *once) answered(now weir.Instant, id receiptID, out []weir.Decision) (bool, error) {
	if o.new == nil || now >= o.turned+onceLife {
		o.old = o.new
		if now >= o.turned+2*onceLife {
			o.old = nil
		}
		o.new, o.turned = map[receiptID][]weir.Decision{}, now
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

// remember keeps an answer, if anything was charged.
func (o *once) remember(id receiptID, out []weir.Decision) {
	if slices.ContainsFunc(out, func(d weir.Decision) bool { return d.Charged }) {
		o.new[id] = slices.Clone(out)
	}
}
