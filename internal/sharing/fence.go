package sharing

import "github.com/weir-limit/weir"

// Fence tells that an earlier process of this name may live elsewhere, and count on its vote until a
// time: one that hears nobody goes on with its part. So this process has no vote before that. 0: the
// earlier one has given up its name, or there is none.
func (p *Peers) Fence(now, until weir.Instant) {
	if until <= 0 {
		until = min(p.fenced, now)
	}
	if p.fenced = until; !p.active {
		p.look(now, true)
	}
}

// unfence remembers, when the time is over, that the earlier process may have let pass until then:
// the other members have taken it for lost when this one began.
func (p *Peers) unfence(now weir.Instant) {
	if p.fenced > 0 {
		p.lose(loss{name: p.name, incarnation: ^p.incarnation, at: now, alone: p.suspected(p.name), of: max(p.count, 1)})
	}
}
