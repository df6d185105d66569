package lease

import "github.com/weir-limit/weir"

// maxSight is how many words a state has at most that an owner tells with a denial.
const maxSight = 64

// evidence is the state that a denial by the owner was decided on: the state at a moment, with what was
// outstanding. It holds until the owner is asked again.
type evidence struct {
	at, until weir.Instant
	state     weir.State
}

// evidence is the reason that a waiting caller gets.
func (g *ledger) evidence(now weir.Instant) (words string, at weir.Instant) {
	r := g.record(now)
	if at = g.at(now); at < 0 {
		return "", 0
	}
	state := r.View(g.kept.Limit, at)
	if len(state) > maxSight {
		return "", 0
	}
	return text(state), at
}

// see remembers what the owner has told.
func (h *holder) see(m *Message) {
	h.seen = nil
	state := words(m.Words)
	if n := h.limit.Words(); len(state) == 0 || n > 0 && n != len(state) {
		return
	}
	h.seen = &evidence{m.At, h.denied, state}
}

// Sight is what the denials of a key stand on now, if its owner has told: the state, which is
// not to be changed, and its moment by the owner's clock.
func (n *Node) Sight(now weir.Instant, hash uint64, key weir.StateKey) (at weir.Instant, state weir.State, ok bool) {
	h, ok := n.holders.Find(hash, key)
	if !ok || h.seen == nil || now >= h.seen.until {
		return 0, nil, false
	}
	return h.seen.at, h.seen.state, true
}
