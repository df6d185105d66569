package sharing

import (
	"errors"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// Whole asks are those that no lease can answer: they want a receipt, to wait, to
// peek, to take what fits, to report, or are about a limit that is Unfit for leases.
// Their owner decides them by the same state that its leases go by, with all that is
// outstanding taken for used.

// ErrNotYet is returned by an owner that can't decide yet: leases of the owner before
// it may still be used.
var ErrNotYet = errors.New("the owner of the key can't decide yet")

// ErrElsewhere is returned where another node owns a key; Node.Owner tells which.
var ErrElsewhere = errors.New("another node owns the key")

// Owner is who keeps the state of key, as this node sees it; empty before View.
func (n *Node) Owner(key weir.StateKey) string { return Owner(key, n.members) }

// Found tells that no node has shared limits before this one began: keys that nobody
// has asked about are as never used. It is to be told before anything is decided.
func (n *Node) Found() { n.founded = true }

// Take decides whole asks of one placement and key, which this node has to own, by
// the rules of weir.Store. It fails with ErrElsewhere, ErrNotYet, or weir.ErrFull when
// it can keep no more keys; then it has decided nothing.
func (n *Node) Take(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	ledgers, records, err := n.open(now, asks)
	if err != nil {
		return err
	}
	record.Take(now, asks, records, out)
	for i, g := range ledgers {
		n.keep(g, &records[i])
	}
	return nil
}

// Look is the states of asks of one placement and key, which this node has to own,
// with what is outstanding. It fails as Take.
func (n *Node) Look(now weir.Instant, asks []weir.Ask) ([]weir.State, error) {
	_, records, err := n.open(now, asks)
	if err != nil {
		return nil, err
	}
	states := make([]weir.State, len(asks))
	for i := range asks {
		states[i] = records[i].View(asks[i].Limit, now)
	}
	return states, nil
}

// Settle settles receipts of one placement and key, which this node has to own. It
// fails as Take and as weir.Store, but it is for its caller to see to it that a
// receipt works once.
func (n *Node) Settle(now weir.Instant, settlements []weir.Settlement) error {
	asks := make([]weir.Ask, len(settlements))
	for i := range settlements {
		r := settlements[i].Receipt
		asks[i] = weir.Ask{State: r.State, Limit: r.Limit}
	}
	ledgers, records, err := n.open(now, asks)
	if err != nil {
		return err
	}
	err = record.Settle(now, settlements, records)
	for i, g := range ledgers {
		n.keep(g, &records[i])
	}
	return err
}

// Reset forgets what was used of a key, which this node has to own. What is
// outstanding stays so. It fails as Take.
func (n *Node) Reset(now weir.Instant, key weir.StateKey) error {
	if err := n.owns(now, key); err != nil {
		return err
	}
	g, ok := n.ledgers.get(key)
	if !ok {
		n.since = max(n.since, now+1)
		return nil
	}
	r := g.record()
	r.Reset(now)
	n.keep(g, &r)
	return nil
}

// owns is nil if this node may decide about a key.
func (n *Node) owns(now weir.Instant, key weir.StateKey) error {
	switch {
	case n.Owner(key) != n.settings.Name:
		return ErrElsewhere
	case now < n.began:
		return ErrNotYet
	}
	return nil
}

// open finds the ledgers that asks are about, and what each is to be decided by.
func (n *Node) open(now weir.Instant, asks []weir.Ask) ([]*ledger, []record.Record, error) {
	if len(asks) == 0 {
		return nil, nil, nil
	}
	if err := n.owns(now, asks[0].State); err != nil {
		return nil, nil, err
	}
	ledgers, records := make([]*ledger, len(asks)), make([]record.Record, len(asks))
	for i := range asks {
		g, ok := n.ledgers.get(asks[i].State)
		if !ok {
			if !n.ledgers.room(now) {
				return nil, nil, weir.ErrFull
			}
			g = n.newLedger(asks[i].Limit)
			n.ledgers.add(asks[i].State, g)
		}
		g.expire(now)
		g.view = n.view
		ledgers[i], records[i] = g, g.record()
	}
	return ledgers, records, nil
}

// record is what a ledger keeps, as stores keep it.
func (g *ledger) record() record.Record {
	return record.Record{Limit: g.limit, State: g.state, Since: g.since, Aside: g.outstanding()}
}

func (n *Node) keep(g *ledger, r *record.Record) {
	g.limit, g.state, g.since = r.Limit, r.State, r.Since
	n.since = max(n.since, g.since)
}
