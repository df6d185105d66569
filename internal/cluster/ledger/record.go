package ledger

import (
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/record"
)

// Record is what a ledger keeps, as stores keep it. Events of the shares that other members may
// grant are aside.
func (g *Ledger) Record(now weir.Instant) record.Record {
	aside := g.outstanding()
	if free := g.free(now); !g.may.whole() {
		aside = max(aside, free-g.room(free))
	}
	return record.Record{Kept: g.kept, Aside: aside}
}

// Charged goes on with a record that a take was decided by.
func (g *Ledger) Charged(now weir.Instant, kept weir.Kept, d *weir.Decision) {
	g.kept = kept
	if !d.Charged || kept.Limit.Algorithm() == weir.Concurrent {
		return
	}
	g.passed = min(g.passed+d.Cost, weir.MaxCount)
	g.set += d.Cost
	tax := g.tax(d.Cost)
	g.passed = min(g.passed+tax, weir.MaxCount)
	g.charge(now, tax)
	g.pay(now, d.Cost)
}

// Bound has a record give nothing back for receipts of another owner.
func (g *Ledger) Bound(r *record.Record) {
	r.Since = max(r.Since, g.born)
	for i := range r.Earlier {
		v := &r.Earlier[i]
		v.Since = max(v.Since, g.born)
	}
}

// Corrected goes on with a bound record that receipts were settled by, and so many events more were charged.
func (g *Ledger) Corrected(now weir.Instant, kept weir.Kept, more int64) {
	kept.Since = g.kept.Since
	g.kept = kept
	g.set += more
	g.pay(now, more)
}

// Resets is whether it was reset, and what was outstanding then may still be reported.
func (g *Ledger) Resets() bool { return g.resets }

// Reset forgets what was used, and receipts from before since. It is the answers that call back what is lent.
func (g *Ledger) Reset(now weir.Instant, key weir.StateKey, since weir.Instant) (ends []protocol.Envelope) {
	g.kept.Since = max(g.kept.Since, since)
	g.reset(now)
	if g.saved != nil {
		g.saved.lose()
	}
	for i := range g.accounts {
		ends = append(ends, g.accounts[i].end(key))
	}
	return ends
}

// Recall is the answers that call back leases that last, where somebody is denied.
func (g *Ledger) Recall(now weir.Instant, key weir.StateKey) (ends []protocol.Envelope) {
	if now < g.recalled+bounds.Micros(protocol.Retry) {
		return nil
	}
	for i := range g.accounts {
		if a := &g.accounts[i]; a.lasts > 0 && a.granted > a.spent {
			g.recalled = now
			ends = append(ends, a.end(key))
		}
	}
	return ends
}

// end tells a node that what it knows of a key is over, its lease, and that it was denied, by an
// answer that lends nothing.
func (a *account) end(key weir.StateKey) protocol.Envelope {
	a.answered.life, a.answered.lasts = 0, 0
	return protocol.Envelope{Peer: a.name, Message: a.answer(&protocol.Message{State: key, Incarnation: a.incarnation, ID: a.answered.id})}
}

// Report hears what a node has done with its lease.
func (g *Ledger) Report(now weir.Instant, v *member.View, from string, m *protocol.Message) {
	g.expire(now, v)
	g.report(now, from, m)
}

// evidence is the reason that a waiting caller gets.
func (g *Ledger) evidence(now weir.Instant) (words string, at weir.Instant) {
	r := g.Record(now)
	if at = g.At(now); at < 0 {
		return "", 0
	}
	state := r.View(g.kept.Limit, at)
	if len(state) > protocol.MaxSight {
		return "", 0
	}
	return protocol.Text(state), at
}
