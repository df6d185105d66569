package ledger

import (
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// worthy is how long a limit that is taken for used recovers at most, so that it is done
// while members change.
const worthy = time.Second

// Open is a ledger for a key that has none, nil where its node may grant nothing of it.
func Open(now weir.Instant, v *member.View, key weir.StateKey, l *weir.Limit, policy protocol.Policy) *Ledger {
	used, guess := used(now, v, key, l, policy)
	g := begin(l, used)
	if _, recovers := l.Standing(g.kept.State, now); guess && recovers > worthy {
		return nil // soon more will be known of it, and a guess would stay for long
	}
	g.policy, g.born = policy, now
	if v.Converged() && now < v.Sure || v.Delivered && g.forgives() {
		g.known = v.Lost.Of(g.forgives())
	}
	if g.stand(now, v, key); g.entitlement(now, v).Part == 0 {
		return nil
	}
	return g
}

// See brings a ledger up to date with the view, and with the policy that is asked by.
func (g *Ledger) See(now weir.Instant, v *member.View, key weir.StateKey, policy protocol.Policy) {
	g.expire(now, v)
	if g.policy != policy {
		place := *g.place
		place.Version = 0 // so that it is looked at again
		g.policy, g.place = policy, &place
	}
	g.stand(now, v, key)
	if g.enter(now, g.entitlement(now, v)); !g.may.whole() {
		g.partial = now
	}
}

// Look is See by the policy that was asked by last.
func (g *Ledger) Look(now weir.Instant, v *member.View, key weir.StateKey) {
	g.See(now, v, key, g.policy)
}

// Grants is whether it may grant anything, as it was seen last.
func (g *Ledger) Grants() bool { return g.may.Part > 0 }

// stand sees what its node is to the key.
func (g *Ledger) stand(now weir.Instant, v *member.View, key weir.StateKey) {
	g.settled(now, v)
	if g.place.Version == v.Version && (g.first || g.owns == 0 || now < g.owns) && g.waits == 0 {
		return
	}
	p := v.Place(now, key, g.released)
	first := g.first && g.policy.Owns(&p)
	votes, all := v.Unbroken(&p, g.place)
	had := g.worthOf(Entitled(g.policy, votes, all, first))
	if g.less(&p) || v.Leaving || g.first && !first {
		g.lose(now, v)
	}
	g.move(now, v, &p, had)
}

// entitlement is how much of its limit it may grant.
func (g *Ledger) entitlement(now weir.Instant, v *member.View) Entitlement {
	votes := v.Count
	if now >= v.Sure || !g.place.Owns {
		votes = v.Votes(now, g.place)
	}
	if o := &g.adopted; o.from != "" && !o.all {
		if o.all = v.Delivered || v.Converged(); !o.all {
			return Entitlement{0, 1} // a newer backup may come
		}
	}
	most := now < v.Quorum || g.policy == protocol.Open
	e := Entitled(g.policy, votes, v.Count, v.Voting && g.first && most)
	if g.waits > 0 && g.has.less(e) {
		return g.has
	}
	return e
}
