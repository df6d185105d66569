package lease

import (
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

// prolong goes on with a lease that lasts, where its owner's heartbeats allow it.
func (n *Node) prolong(now weir.Instant, h *holder) {
	if h.lasts > 0 && now >= h.expires {
		h.expires = max(h.expires, min(h.ends, n.view.Lasts(h.lender, h.epoch, h.lasts)))
	}
}

// recall calls back leases that last, where somebody is denied.
func (n *Node) recall(now weir.Instant, key weir.StateKey, g *ledger, fx *Effects) {
	if now < g.recalled+bounds.Micros(Retry) {
		return
	}
	for i := range g.accounts {
		if a := &g.accounts[i]; a.lasts > 0 && a.granted > a.spent {
			g.recalled = now
			n.end(now, key, a, fx)
		}
	}
}

// end tells a node that what it knows of a key is over, its lease, and that it was denied, by an
// answer that lends nothing.
func (n *Node) end(now weir.Instant, key weir.StateKey, a *account, fx *Effects) {
	a.answered.life, a.answered.lasts = 0, 0
	m := a.answer(&Message{State: key, Incarnation: a.incarnation, ID: a.answered.id})
	m.Epoch = n.settings.Incarnation
	n.answer(now, a.name, &m, fx)
}

// answer tells a lease holder, which may be this node's own, what it gets.
func (n *Node) answer(now weir.Instant, to string, m *Message, fx *Effects) {
	if to != n.settings.Name {
		fx.send(to, *m)
	} else if h, ok := n.holders.Get(m.State); ok {
		before := len(fx.Messages)
		h.receive(now, m, fx)
		n.settle(now, h, before, fx)
	}
}
