package ledger

import (
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// patience is how long the new owner waits until it has the votes of the one before.
const patience = 4 * protocol.Retry

// Moves is who is to have the ledger in place of its node, by its view; empty: nobody.
func (g *Ledger) Moves(now weir.Instant, v *member.View, key weir.StateKey) (to string) {
	g.expire(now, v)
	g.stand(now, v, key)
	if !g.gone(v) {
		return ""
	}
	return g.place.Owner
}

// Owner is who is asked about the key, as its node knew when it looked last; empty: nobody may be.
func (g *Ledger) Owner() string { return g.place.Owner }

// OwnsFrom is from when on its node may be the first of all members, 0: it is not.
func (g *Ledger) OwnsFrom() weir.Instant { return g.owns }

// gone is whether no vote is its node's any more, or it leaves and may use none.
func (g *Ledger) gone(v *member.View) bool {
	for _, by := range g.place.Voters {
		if !by.Kept || !v.Leaving {
			return false
		}
	}
	return !g.first
}

// Unused is whether a ledger is the backup of a process that is heard again, and has not been needed: that one
// has its own.
func (g *Ledger) Unused(v *member.View, to string) bool {
	return g.adopted.from == to && g.adopted.run == v.Incarnation(to) && g.set == 1 && g.passed == 0
}

// Handoff is a ledger as the next owner gets it: what is left is of the moment when the
// first votes went, for what came since may be another's.
func (g *Ledger) Handoff(now weir.Instant, v *member.View) protocol.Message {
	if g.lost == 0 {
		g.lose(now, v)
	}
	g.enter(now, Entitlement{0, 1})
	m := protocol.Message{
		Kind: protocol.Handoff, Limit: g.kept.Limit.String(), Policy: g.policy, Closed: g.gave.first, Spent: g.outstanding(),
		At: g.At(g.lost), Part: g.gave.Part, Of: g.gave.Of, Known: g.known, Resets: g.resets,
	}
	m.Carry(&g.kept)
	for i := range g.accounts {
		m.Life = max(m.Life, (g.accounts[i].until(v) - now).Duration())
	}
	return m
}

// Return goes on with a ledger that no node has said to have taken. A node that took it may be gone, so it
// goes on as if all was used, to tell the next owner that there was something.
func (g *Ledger) Return() {
	g.has, g.waits, g.known, g.lost, g.Owed = Entitlement{0, 1}, 0, 0, 0, false // I13
}

// Doubt tells that more has passed than is in it.
func (g *Ledger) Doubt() { g.known = 0 }

// Blank is a ledger of a key that nothing is known of but what merges with it.
func Blank(theirs *Copy) *Ledger {
	return &Ledger{Copy: Copy{kept: weir.Kept{Limit: theirs.kept.Limit}, policy: theirs.policy}, place: &nowhere}
}

// Arrival is who has released a key when a ledger of it comes from another node, and what the own node is to the key then.
type Arrival struct {
	released []member.Released
	place    member.Place
}

// Expects is what it is when another node's ledger comes now. ok is false where that has to wait: the own node is not the owner, or
// has not the votes of the one before yet.
func (g *Ledger) Expects(now weir.Instant, v *member.View, self, from string, m *protocol.Message) (in Arrival, ok bool) {
	in.released = append(slices.DeleteFunc(slices.Clone(g.released), func(r member.Released) bool { return r.By == from }), member.Released{By: from, Until: now + member.Settle(v.Count)})
	in.place = v.Place(now, m.State, in.released)
	p := &in.place
	if p.Owner != self {
		return in, false // not any more, or not yet
	}
	has := Entitled(m.Policy, int64(len(p.Voters)), p.Count, m.Closed && m.Policy.Owns(p))
	return in, !has.less(Entitlement{m.Part, m.Of}) || m.Wait >= patience // else votes of the one before are on their way
}

// Take takes over what another owner has handed over. known tells that there was a ledger here.
func (g *Ledger) Take(now weir.Instant, v *member.View, in *Arrival, m *protocol.Message, theirs *Copy, known bool) {
	if known {
		g.stand(now, v, m.State)
	}
	g.released = in.released
	g.merge(now, m, theirs, known)
	g.set++ // what has come in is to be saved, too
	if !known {
		g.born = g.At(now) // the one before knows which receipts were used
	}
	if m.Closed && m.Policy.Owns(&in.place) {
		g.owns = now
	}
	g.move(now, v, &in.place, g.has)
}

// both is what has passed by this ledger that counts for another's, too: where the two have
// more than all of the limit together, they have had some of it both.
func (g *Ledger) both(gave Entitlement) int64 {
	if g.has.Part*gave.Of+gave.Part*g.has.Of <= g.has.Of*gave.Of {
		return 0
	}
	return g.passed
}

// merge goes on with what another owner has handed over. The state by which more is left counts,
// and the outstanding events of both.
func (g *Ledger) merge(now weir.Instant, m *protocol.Message, theirs *Copy, known bool) {
	gave := Entitlement{m.Part, m.Of}
	if theirs.kept.Limit.Algorithm() == weir.FixedWindow && max(theirs.ahead, -theirs.ahead) <= apart && len(theirs.kept.Earlier) == 0 {
		theirs.keepTime(now)
	}
	theirs.charge(now, g.both(gave))
	left := theirs.free(now) - m.Spent
	if mine := g.free(now) - g.takes(0); !known || bounds.Part(left, gave.Part, gave.Of) > bounds.Part(mine, g.has.Part, max(g.has.Of, 1)) {
		g.kept.Limit, g.kept.State, g.kept.Earlier = theirs.kept.Limit, theirs.kept.State, theirs.kept.Earlier
		g.ahead, g.has = theirs.ahead, gave
	}
	if g.known, g.bare = m.Known, nil; known {
		g.known = 0 // neither has all
	}
	g.resets = g.resets || m.Resets
	if m.Spent > 0 {
		g.taxed += m.Spent
		g.accounts = append(g.accounts, account{lease: 1, granted: m.Spent, expires: now + bounds.Micros(m.Life)})
	}
}

// origin is the process whose backup a ledger began with; empty: none.
type origin struct {
	from string
	run  uint64
	all  bool // all backups of it have been delivered since: this is the newest
}

// Adopt is the ledger that goes on with a backup, which a message has forwarded. p is what its node is to the key.
func Adopt(now weir.Instant, v *member.View, p *member.Place, m *protocol.Message, theirs *Copy) *Ledger {
	gave := Entitlement{m.Part, m.Of}
	g := &Ledger{
		Copy:  Copy{kept: theirs.kept, ahead: theirs.ahead, policy: m.Policy, known: m.Known, has: gave},
		place: &nowhere, adopted: origin{from: m.Lost, run: m.LostRun}, born: now + theirs.ahead, set: 1,
	}
	g.move(now, v, p, gave)
	return g
}

// Merge goes on with another backup of the same key, if it began with one. The one by which least is left counts: of what was
// charged, none has forgotten more.
func (g *Ledger) Merge(now weir.Instant, v *member.View, m *protocol.Message, theirs *Copy) {
	if g.adopted.from == "" {
		return // the key was its node's before
	}
	g.expire(now, v)
	left := bounds.Part(theirs.free(now), m.Part, m.Of) - g.passed - g.outstanding()
	g.charge(now, g.free(now)-max(left, 0))
	g.bare = nil
}
