// Package ledger is what the owner of a key keeps of it: what was charged, what is lent to whom, on whose votes, and what
// a backup at another member has. Package lease sends what it says to the other nodes.
package ledger

import (
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/table"
)

// Ledger is what the owner of a key keeps of it.
//
// An event is charged to the state when its node has reported that it passed. Until
// then it is outstanding, and the owner sets aside no more than what the state has
// left beside all that is outstanding. So at any time, what was charged and what
// nodes may still let pass fit into the limit together.
type Ledger struct {
	Copy

	row      table.Row[*Ledger] // where it is kept
	recalled weir.Instant       // when leases were called back last
	born     weir.Instant       // receipts from before give nothing back: what they are for is over, or was another owner's
	accounts []account          // of the nodes that ask
	turn     weir.Instant
	place    *member.Place // keys share places
	placed   weir.Instant  // when that was found out
	owns     weir.Instant  // from then on its node may be the first of all members, 0: it is not
	first    bool          // it is
	may      Entitlement   // now
	waits    weir.Instant  // since then it has votes for more, 0: it has not
	lost     weir.Instant  // when it lost the first votes that it has not got back, 0: never
	gave     gift          // what it had then
	released []member.Released
	credit   int64        // charged too much by rounding, in parts of an event, may.Part each
	taxed    int64        // of what is outstanding, what was charged for others already
	bare     *weir.Kept   // what would be charged if others let nothing pass; nil: kept, or it is not known
	bared    weir.Instant // since then
	partial  weir.Instant // when it granted less than all of the limit last
	resets   bool         // it was, and what was outstanding then may still be reported
	passed   int64        // charged because it passed, since the ledger began here
	set      int64        // charged, or set aside, since it began here
	judged   *weir.Limit  // by which slow is
	slow     bool         // events of its limit are in use for long
	saved    *saved
	Owed     bool   // it is among those that wait for a backup
	adopted  origin // whose backup it began with
}

// account is the lease of one node, as the owner sees it.
type account struct {
	name        string
	incarnation uint64
	lease       uint64 // 0: none
	granted     int64  // set aside under this lease, since it began
	spent       int64  // of these, reported as passed
	expires     weir.Instant
	lasts       uint64       // the number of the heartbeats that prolong it, 0: none do
	ends        weir.Instant // it is prolonged until then
	asked       weir.Instant
	demand      int64
	answered    reply             // the answer to the last ask, for when it is asked again
	held        *protocol.Message // an ask that waits for a backup
}

// reply is what the answer to an ask says beside what its account does.
type reply struct {
	id      uint64
	lease   uint64
	granted int64
	lasts   uint64
	free    int64
	life    time.Duration
	wait    time.Duration
	standing
}

// standing is when a limit passes events if nobody else asks, with all that is outstanding
// taken for used.
type standing struct{ fresh, retry, next time.Duration }

// answer is the answer to m, as it was told.
func (a *account) answer(m *protocol.Message) protocol.Message {
	t := &a.answered
	return protocol.Message{
		Kind: protocol.Grant, State: m.State, Incarnation: m.Incarnation, ID: m.ID,
		Lease: t.lease, Granted: t.granted, Lasts: t.lasts, Life: t.life, Wait: t.wait, Free: t.free, Fresh: t.fresh, Retry: t.retry, Next: t.next,
	}
}

// Row is where a ledger is kept in a table of ledgers, which does not have the key.
func (g *Ledger) Row(key weir.StateKey) *table.Row[*Ledger] {
	g.row.Key, g.row.Of = key, g
	return &g.row
}

// nowhere is the place of a key that is not known yet.
var nowhere member.Place //nolint:gochecknoglobals // it is never written, and each key would have one of its own

// begin is a ledger of a key that nothing is known of, but what other nodes may have let pass.
func begin(l *weir.Limit, used []charge) *Ledger {
	g := &Ledger{Copy: Copy{kept: weir.Kept{Limit: l}}, place: &nowhere}
	for _, c := range used {
		g.charge(c.at, c.events)
	}
	return g
}

// Become goes on with another version of the limit, if that may be. Leases that are over
// count before: the new limit begins with what the one before it has let pass.
func (g *Ledger) Become(now weir.Instant, v *member.View, l *weir.Limit) {
	g.expire(now, v)
	g.kept.Become(l, g.At(now), g.outstanding())
	if g.bare != nil {
		g.bare.Become(l, g.At(now), g.outstanding())
	}
}

// account is what is kept of a node.
func (g *Ledger) account(name string) *account {
	for i := range g.accounts {
		if g.accounts[i].name == name {
			return &g.accounts[i]
		}
	}
	return nil
}

// open is the account of a node that asks. The accounts of nodes that have not asked for long make
// place.
func (g *Ledger) open(now weir.Instant, name string) *account {
	if a := g.account(name); a != nil {
		return a
	}
	g.accounts = slices.DeleteFunc(g.accounts, func(a account) bool {
		return a.lease == 0 && a.held == nil && now-a.asked >= bounds.Micros(table.MaxDeny)
	})
	g.accounts = append(g.accounts, account{name: name})
	return &g.accounts[len(g.accounts)-1]
}

// outstanding is how many events nodes may still let pass, or have and not said so.
func (g *Ledger) outstanding() int64 {
	sum := int64(0)
	for i := range g.accounts {
		sum += g.accounts[i].granted - g.accounts[i].spent
	}
	return sum
}

// expire burns the leases whose time is over: what their nodes have not reported
// counts as passed, when it was over. Nothing has been charged since.
func (g *Ledger) expire(now weir.Instant, v *member.View) {
	for {
		var first *account
		over := now
		for i := range g.accounts {
			if a := &g.accounts[i]; a.lease != 0 && a.until(v) <= over {
				first, over = a, a.until(v)
			}
		}
		if first == nil {
			break
		}
		g.burn(over, first) // I4
	}
	g.forgotten(now)
}

// until is when nobody uses the lease any more, by no view: at the latest.
func (a *account) until(v *member.View) weir.Instant {
	if a.lasts == 0 {
		return a.expires
	}
	if v == nil {
		return max(a.expires, a.ends)
	}
	return max(a.expires, min(a.ends, v.Prolonged(a.lasts)))
}

// reset forgets what was used. Nodes that hold leases may still let pass what was lent
// before, and report it: the leases are called back, and until none is outstanding,
// nothing is granted, and what is charged is forgotten in the end.
func (g *Ledger) reset(now weir.Instant) {
	for i := range g.accounts {
		a := &g.accounts[i]
		a.answered.life, a.answered.wait, a.answered.standing = 0, 0, standing{}
	}
	g.resets = true
	g.forgotten(now)
}

// forgotten ends a reset when nothing from before is outstanding any more.
func (g *Ledger) forgotten(now weir.Instant) {
	if !g.resets || g.outstanding() > 0 {
		return
	}
	g.kept.Reset(g.At(now))
	g.resets, g.bare = false, nil
}

func (g *Ledger) burn(now weir.Instant, a *account) {
	g.pass(now, a.granted-a.spent)
	a.close()
}

func (a *account) close() { a.lease, a.granted, a.spent, a.lasts = 0, 0, 0, 0 }

// report hears what a node has done with its lease. Counts are since the lease
// began, so that reports may be lost, doubled and in any order.
func (g *Ledger) report(now weir.Instant, from string, m *protocol.Message) {
	a := g.account(from)
	if a == nil || m.Lease == 0 || m.Lease != a.lease {
		return
	}
	if spent := min(m.Spent, a.granted); spent > a.spent { // I5
		g.pass(now, spent-a.spent)
		a.spent = spent
	}
	if m.Closed {
		a.close()
		g.taxed = min(g.taxed, g.outstanding())
	}
	g.forgotten(now)
}

// Ask answers a node that wants events. next is the number of a lease that was
// never used before. ok is false for asks that nobody waits for any more.
func (g *Ledger) Ask(now weir.Instant, v *member.View, from string, m *protocol.Message, next uint64) (answer protocol.Message, ok bool) {
	g.expire(now, v)
	a := g.open(now, from)
	switch {
	case m.Incarnation < a.incarnation:
		return protocol.Message{}, false
	case m.Incarnation > a.incarnation:
		g.burn(now, a) // by a process that is gone
		*a = account{name: from, incarnation: m.Incarnation}
	}
	g.report(now, from, m)
	switch {
	case m.ID < a.answered.id:
		return protocol.Message{}, false
	case m.ID == a.answered.id: // I5
		return a.answer(m), true
	}
	if m.Lease != a.lease { // which its node doesn't know, or has let go
		g.burn(now, a)
	}
	a.asked, a.demand = now, max(m.Demand, 1)
	if g.resets {
		a.answered = reply{id: m.ID, lease: a.lease, granted: a.granted, wait: protocol.Retry}
		return a.answer(m), true
	}
	may := g.covered(now) // I19
	granted, wait := g.grant(now, a, m.Least, m.Want)
	if granted > may {
		if granted = may; may < m.Least {
			granted, wait = 0, protocol.Retry
		}
	}
	if a.lease == 0 && granted > 0 {
		a.lease = next
	}
	a.granted += granted
	g.set += granted
	a.expires = member.Over(now) // I4
	lasts := uint64(0)
	if wait == 0 && m.Ahead > 0 {
		lasts = g.lend(now, a, min(m.Ahead, may-granted), v.Lends(now))
	}
	free := max(g.room(g.free(now)), 0)
	a.answered = reply{m.ID, a.lease, a.granted, lasts, free, member.Life, wait, g.standing(now, m.Least, wait > 0 || free == 0)}
	answer = a.answer(m)
	if wait > 0 {
		answer.Words, answer.At = g.evidence(now)
	}
	return answer, true
}

// lend has a's lease last, with so many events more, where that leaves most of the limit to
// others. It is the number of the lease, 0 if it does not last.
func (g *Ledger) lend(now weir.Instant, a *account, events int64, number uint64) uint64 {
	if g.BackedUp() && !g.large() {
		return 0 // its backup has them charged before they may be used
	}
	more := g.room(g.free(now)) / 32
	for i := range g.accounts {
		if of := &g.accounts[i]; of.lasts > 0 {
			more -= of.granted - of.spent
		}
	}
	if number == 0 || !g.may.whole() || more <= 0 {
		return 0
	}
	a.granted += min(events, more)
	g.set += min(events, more)
	a.lasts, a.ends = number, now+bounds.Micros(protocol.Lasting+protocol.Lasting/100)
	return number
}

// standing tells how long it takes until the limit is as never used, and where something
// has to wait, until so many events pass, and one.
func (g *Ledger) standing(now weir.Instant, least int64, waits bool) (s standing) {
	used := Copy{kept: weir.Kept{Limit: g.kept.Limit, State: g.kept.State}, ahead: g.ahead}
	if out := g.takes(0); out > 0 {
		used.kept.State = slices.Clone(g.kept.State)
		used.charge(now, out)
	}
	_, s.fresh = used.kept.Limit.Standing(used.kept.State, used.At(now))
	if waits {
		s.retry, s.next = used.passes(now, g.takes(least)-g.takes(0)), used.passes(now, g.takes(1)-g.takes(0))
	}
	return s
}

// grant is how many events a gets now, and for how long it need not ask again.
func (g *Ledger) grant(now weir.Instant, a *account, least, want int64) (int64, time.Duration) {
	if g.may.Part == 0 {
		return 0, member.Pulse // another has the votes, or nobody yet
	}
	room, all := g.room(g.free(now)), g.demand(now) // I6
	try := weir.Ask{Limit: g.kept.Limit, Cost: g.takes(want), AtLeast: g.takes(least), Peek: true}
	d := g.kept.Limit.Decide(g.kept.State, g.At(now), &try)
	if d.Outcome != weir.Allowed {
		return 0, g.next(now, a, all, &d)
	}
	free := min(g.room(d.Cost), want)
	if free >= want && (all <= a.demand || all <= room) {
		return want, 0
	}
	share := bounds.Part(room+g.pace(), a.demand, all)
	granted := min(free, max(least, share))
	if granted >= want {
		return granted, 0
	}
	span, _, _ := g.kept.Limit.Span(granted)
	if span == 0 {
		return granted, protocol.Horizon / 2 // a window has no pace to tell the next turn by
	}
	return granted, min(protocol.Horizon, time.Duration(bounds.Part(span, all, a.demand))*time.Microsecond)
}

// next gives a denied node its turn. If each were told when the next event is free,
// all would come for the same one.
func (g *Ledger) next(now weir.Instant, a *account, all int64, d *weir.Decision) time.Duration {
	free := now + bounds.Micros(min(d.RetryAfter, table.MaxDeny))
	if d.Outcome == weir.Impossible { // as long as others hold so much
		span, _, _ := g.kept.Limit.Span(1)
		free = now + min(weir.Instant(span)+1, bounds.Micros(protocol.Horizon)/4)
	}
	if all <= a.demand { // nobody else comes for it
		return (free - now).Duration()
	}
	turn := min(max(g.turn, free), now+bounds.Micros(table.MaxDeny))
	span, _, _ := g.kept.Limit.Span(max(1, bounds.Part(g.pace(), a.demand, all)))
	g.turn = turn + weir.Instant(span)
	return (turn - now).Duration()
}

// demand is what all nodes that asked lately want in a protocol.Horizon.
func (g *Ledger) demand(now weir.Instant) int64 {
	sum := int64(0)
	for i := range g.accounts {
		if a := &g.accounts[i]; a.demand > 0 && now-a.asked < bounds.Micros(table.MaxDeny) {
			sum += a.demand
		}
	}
	return sum
}

// Idle is whether the ledger may be forgotten: a new one would know no less.
func (g *Ledger) Idle(now weir.Instant) bool {
	g.expire(now, nil)
	return g.outstanding() == 0 && g.kept.FreshAfter(g.At(now)) == 0
}
