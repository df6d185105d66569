package sharing

import (
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/sharing/bounds"
)

// Leases that last are used for longer than a Life, while heartbeats of their owner prolong
// them: docs/decisions/0036.

// lasting is which leases of the process its heartbeats prolong: those granted on all votes, in
// views of one version, while no more than a Life passes between two heartbeats.
type lasting struct {
	number  uint64       // 0: there have been none
	version uint64       // of the views
	lent    weir.Instant // when the last heartbeats prolonged them
	ended   weir.Instant // when the last heartbeats prolonged those of the number before
}

// next is the number that heartbeats at now tell, by that view.
func (l *lasting) next(now weir.Instant, v *View) uint64 {
	if now >= v.sure {
		return 0
	}
	if l.number == 0 || l.version != v.version || now >= l.lent+bounds.Micros(Life) { // I16
		l.number, l.version, l.ended = l.number+1, v.version, l.lent
	}
	l.lent = now
	return l.number
}

func (l *lasting) show(v *View) {
	if l.version == v.version {
		v.prolongs, v.lent, v.ended = l.number, l.lent, l.ended
	} else {
		v.ended = l.lent
	}
}

// lends is the number of leases that last, 0 where none can be granted.
func (v *View) lends(now weir.Instant) uint64 {
	if now >= v.sure {
		return 0
	}
	return v.prolongs
}

// prolonged is until when this process has to expect that leases of a number are used.
func (v *View) prolonged(number uint64) weir.Instant {
	if number == v.prolongs {
		return v.lent + bounds.Micros(Life+Margin)
	}
	return v.ended + bounds.Micros(Life+Margin)
}

// lasts is until when leases of a number may be used that a process of that name has granted.
func (v *View) lasts(lender string, incarnation, number uint64) weir.Instant {
	if i := v.find(lender); i >= 0 && v.members[i].prolongs == number && v.members[i].run[0] == incarnation {
		return v.members[i].lasts
	}
	return 0
}

// prolong goes on with a lease that lasts, where its owner's heartbeats allow it.
func (n *Node) prolong(now weir.Instant, h *holder) {
	if h.lasts > 0 && now >= h.expires {
		h.expires = max(h.expires, min(h.ends, n.view.lasts(h.lender, h.epoch, h.lasts)))
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
