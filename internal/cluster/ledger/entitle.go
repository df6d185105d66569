package ledger

import (
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// gift is what an owner was entitled to, and whether it was the first of all members.
type gift struct {
	Entitlement
	first bool
}

// less is whether it has lost votes where p is its place now.
func (g *Ledger) less(p *member.Place) bool {
	return int64(len(p.Voters))*max(g.place.Count, 1) < int64(len(g.place.Voters))*p.Count
}

// lose remembers what the owner had before it loses votes.
func (g *Ledger) lose(now weir.Instant, v *member.View) {
	if g.lost > 0 && now < g.lost+member.Settle(v.Count) {
		return
	}
	g.lost, g.gave = now, gift{g.worthOf(Entitled(g.policy, v.Valid(now, g.place), max(g.place.Count, 1), g.first)), g.first}
}

// worthOf is what is left of what it has when its votes are worth so much, and no more than they
// were. While it waits, it has less than they are worth: of that as large a part.
func (g *Ledger) worthOf(worth Entitlement) Entitlement {
	if g.waits == 0 {
		return worth
	}
	return g.has.times(worth, Entitled(g.policy, int64(len(g.place.Voters)), max(g.place.Count, 1), g.first))
}

// move tells what its node is to the key now, which had some of the limit that nobody
// else could use. The events left do not grow with the entitlement: the node that had the shares
// before has used them, unless it turns out soon that no node has.
func (g *Ledger) move(now weir.Instant, v *member.View, p *member.Place, had Entitlement) {
	owns := g.policy.Owns(p)
	if !owns {
		g.owns = 0
	} else if g.owns == 0 || v.Owning < g.owns {
		g.owns = v.Owning
	}
	g.place, g.placed, g.first = v.Shared(p), now, owns && now >= g.owns
	if s := g.saved; s != nil && !s.isOf(p) {
		s.lose() // it may be gone there
	}
	has := Entitled(g.policy, int64(len(p.Voters)), p.Count, g.first)
	switch {
	case g.has.Of == 0 || !had.less(has):
	case v.Leaving && g.waits == 0:
	case v.Leaving || g.worthWaiting(now, v, g.claim(now, had, has)):
		if has = had; g.waits == 0 {
			g.waits = now
		}
		if !g.forgives() {
			g.bare = nil // another may have had these shares, and a ledger that is idle again says nothing
		}
		g.has = has
		return
	default:
		g.charge(now, g.claim(now, had, has)) // I10
		g.bare = nil
	}
	g.has, g.waits = has, 0
}

// claim is what the nodes may have let pass that had the votes that it has gained, the fraction of
// an event that a bucket has beside, too. Where each event is in use for a period, what they let
// pass may have been the last that it was: what was charged with the own events for theirs goes too
// early. Permits are whole, and none is let pass that other nodes hold.
func (g *Ledger) claim(now weir.Instant, had, has Entitlement) int64 {
	left := g.free(now) - g.takes(0)
	events := left - bounds.Part(left, had.Part*has.Of, had.Of*has.Part)
	algorithm := g.kept.Limit.Algorithm()
	if algorithm == weir.Concurrent {
		return events
	}
	if algorithm == weir.SlidingLog || algorithm == weir.SlidingWindow {
		events += bounds.Part(g.kept.Limit.Used(g.kept.State, g.At(now)), had.Of-had.Part, had.Of)
	}
	return events + 1
}

// worthWaiting is whether the ledger goes on with what it had until all ledgers are where they
// belong, and it is known that nobody else has let pass: not for what comes back as soon, nor
// for long, nor where that will never be known.
func (g *Ledger) worthWaiting(now weir.Instant, v *member.View, claim int64) bool {
	waits := 4 * member.Settle(v.Count)
	if g.known == 0 || g.known != v.Lost.Of(g.forgives()) || g.waits > 0 && now >= g.waits+waits {
		return false
	}
	recovers := func(of weir.State) bool {
		charged := Copy{kept: weir.Kept{Limit: g.kept.Limit, State: of}, ahead: g.ahead}
		charged.charge(now, claim)
		_, takes := g.kept.Limit.Standing(charged.kept.State, g.At(now))
		return bounds.Micros(takes) <= waits
	}
	few := claim <= 1+g.pace()
	return !recovers(slices.Clone(g.kept.State)) && (!few || !recovers(nil))
}

// settled notes that all ledgers were where they belong since its place is the present one: then
// all that passed of the key is in the only one there is. If it has always been here or come in
// whole since that was so before, and no process is gone, all that has passed since is, too: what it
// has grows for nothing.
func (g *Ledger) settled(now weir.Instant, v *member.View) {
	if g.place.Version != v.LastConverged.Version || g.placed > v.LastConverged.At { // I11
		return
	}
	same := g.known == v.LastConverged.Losses.Of(g.forgives())
	if same && g.waits == 0 && (g.bare == nil || g.partial > v.LastConverged.At) {
		return
	}
	has := Entitled(g.policy, int64(len(g.place.Voters)), g.place.Count, g.first)
	if !has.whole() {
		return
	}
	switch {
	case !same && g.has.less(has):
		g.charge(now, g.claim(now, g.has, has))
	case same && g.hasBare() && (!g.forgives() || now < g.bared+bounds.Micros(bounds.Slow)): // a ledger that others had is not idle yet
		g.kept = *g.bare // nobody has used what was charged for others
	}
	g.bare = nil
	g.has, g.waits, g.known = has, 0, v.LastConverged.Losses.Of(g.forgives())
}

// enter lets it grant another part of the limit from now on. Outstanding events were granted by the
// part before, and are charged by that.
func (g *Ledger) enter(now weir.Instant, may Entitlement) {
	if may == g.may {
		return
	}
	out := g.outstanding()
	g.charge(now, g.tax(out-g.taxed))
	g.may, g.taxed, g.credit = may, out, 0
	if !may.whole() && g.known > 0 && g.bare == nil && protocol.Unfit(g.kept.Limit) == "" { // of others a denial or a permit would be forgotten
		bare := g.kept.Clone()
		g.bare, g.bared = &bare, now
	}
}

// pass charges events that have passed under leases.
func (g *Ledger) pass(now weir.Instant, events int64) {
	taxed := min(events, g.taxed)
	g.taxed -= taxed
	tax := g.tax(events - taxed)
	g.passed = min(g.passed+events+tax, weir.MaxCount)
	g.charge(now, events+tax) // I9
	g.pay(now, events)
}

// hasBare is whether it is known what would be charged if others let nothing pass: by the same limit, for a whole take may
// have brought another.
func (g *Ledger) hasBare() bool {
	if g.bare != nil && g.bare.Limit != g.kept.Limit && g.bare.Limit.String() != g.kept.Limit.String() {
		g.bare = nil
	}
	return g.bare != nil
}

// pay charges events that have passed to what would be charged if others let nothing pass.
func (g *Ledger) pay(now weir.Instant, events int64) {
	if events > 0 && g.hasBare() {
		g.bare.Charge(g.At(now), events)
	}
}

// tax is how many events to charge beside so many that pass, for the nodes that have the other
// votes. It remembers what that is too much, by rounding.
func (g *Ledger) tax(events int64) int64 {
	if events == 0 || g.may.whole() {
		return 0
	}
	needs := g.needs(events)
	g.credit += needs*g.may.Part - events*g.may.Of
	return needs - events
}

// needs is how many events have to be left for so many to pass.
func (g *Ledger) needs(events int64) int64 {
	if events == 0 || g.may.whole() {
		return events
	}
	return min((events*g.may.Of-g.credit+g.may.Part-1)/max(g.may.Part, 1), weir.MaxCount)
}

// takes is how many events have to be left for all that is outstanding and so many more.
func (g *Ledger) takes(events int64) int64 {
	return g.taxed + g.needs(g.outstanding()-g.taxed+events)
}

// room is how many events may be granted where so many are left.
func (g *Ledger) room(left int64) int64 { // I6, I9
	if g.may.Part == 0 {
		return 0
	}
	return ((left-g.taxed)*g.may.Part+g.credit)/g.may.Of - (g.outstanding() - g.taxed)
}

// charge is events that may have passed at a time.
type charge struct {
	at     weir.Instant
	events int64
}

// used is what may have been let pass, of all, of a key that nothing is known of. guess is
// whether more will be known soon.
func used(now weir.Instant, v *member.View, key weir.StateKey, l *weir.Limit, policy protocol.Policy) (charges []charge, guess bool) { // I15
	all, _ := l.Standing(nil, now)
	unknown, guess := v.Unknown(now, key, forgives(l, policy))
	for _, u := range unknown {
		events := all
		if u.Of > 0 {
			events = share(policy, u.Votes, u.Of, all)
		}
		charges = append(charges, charge{u.At, events})
	}
	return charges, guess
}

// share is how much of all so many votes may let pass, rounded up.
func share(policy protocol.Policy, votes, of, all int64) int64 {
	e := Entitled(policy, votes, max(of, votes), false)
	return min(bounds.Part(all, e.Part, e.Of)+min(e.Part, 1), all)
}
