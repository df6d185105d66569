package holder

import (
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// sight is the state that a denial by the owner was decided on: the state at a moment, with what was
// outstanding. It holds until the owner is asked again.
type sight struct {
	at, until weir.Instant
	state     weir.State
}

// see remembers what the owner has told.
func (h *Holder) see(m *protocol.Message) {
	h.seen = nil
	state := protocol.Words(m.Words)
	if n := h.limit.Words(); len(state) == 0 || n > 0 && n != len(state) {
		return
	}
	h.seen = &sight{m.At, h.denied, state}
}

// Sight is what the denials of the key stand on now, if its owner has told: the state, which is
// not to be changed, and its moment by the owner's clock.
func (h *Holder) Sight(now weir.Instant) (at weir.Instant, state weir.State, ok bool) {
	if h.seen == nil || now >= h.seen.until {
		return 0, nil, false
	}
	return h.seen.at, h.seen.state, true
}
