package lease

import (
	"errors"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/ledger"
	"github.com/weir-limit/weir/internal/cluster/protocol"
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

// Owner is who is to be asked about key, as this node sees it; empty where there is
// nobody.
func (n *Node) Owner(key weir.StateKey) string { return n.view.Place(0, key, nil).Owner }

// Take decides whole asks of one placement and key, which this node has to own, by
// the rules of weir.Store. It fails with ErrElsewhere, ErrNotYet, or weir.ErrFull when
// it can keep no more keys; then it has decided nothing. Else seen are the states
// before, at the moment at.
func (n *Node) Take(now weir.Instant, asks []weir.Ask, out []weir.Decision, fx *protocol.Effects) (at weir.Instant, seen []weir.State, err error) {
	ledgers, records, at, err := n.records(now, asks)
	if err != nil {
		return 0, nil, err
	}
	if slices.ContainsFunc(ledgers, (*ledger.Ledger).Resets) {
		for i, g := range ledgers {
			n.recall(now, asks[i].State, g, fx)
		}
		return 0, nil, ErrNotYet
	}
	for i := range records {
		seen = append(seen, records[i].View(asks[i].Limit, at))
	}
	if !n.saveAll(now, at, asks, ledgers, records, fx) {
		return 0, nil, ErrUnsaved
	}
	record.Take(at, asks, records, out)
	n.given.Note(out)
	for i, g := range ledgers {
		g.Charged(now, records[i].Kept, &out[i])
		if out[i].Outcome != weir.Allowed {
			n.recall(now, asks[i].State, g, fx)
		}
	}
	return at, seen, nil
}

// Look is the states of asks of one placement and key, which this node has to own,
// with what is outstanding. It fails as Take.
func (n *Node) Look(now weir.Instant, asks []weir.Ask) ([]weir.State, error) {
	_, records, at, err := n.records(now, asks)
	if err != nil {
		return nil, err
	}
	states := make([]weir.State, len(asks))
	for i := range asks {
		states[i] = records[i].View(asks[i].Limit, at)
	}
	return states, nil
}

// Settle settles receipts of one placement and key, which this node has to own. It
// fails as Take and as weir.Store, but it is for its caller to see to it that a
// receipt works once.
func (n *Node) Settle(now weir.Instant, settlements []weir.Settlement, fx *protocol.Effects) error {
	asks := make([]weir.Ask, len(settlements))
	for i := range settlements {
		r := settlements[i].Receipt
		asks[i] = weir.Ask{State: r.State, Limit: r.Limit}
	}
	ledgers, records, at, err := n.records(now, asks)
	if err != nil {
		return err
	}
	for i, g := range ledgers {
		g.Bound(&records[i])
	}
	more := map[*ledger.Ledger]int64{}
	for i, g := range ledgers {
		st := &settlements[i]
		if more[g] += max(st.Used-st.Receipt.Cost, 0); !n.save(now, st.Receipt.State, g, more[g], fx) {
			return ErrUnsaved
		}
	}
	err = record.Settle(at, settlements, records)
	for i, g := range ledgers {
		charged := int64(0)
		if err == nil {
			charged = max(settlements[i].Charged-settlements[i].Receipt.Cost, 0)
		}
		g.Corrected(now, records[i].Kept, charged)
	}
	return err
}

// Reset forgets what was used of a key, which this node has to own, and calls back what is
// lent of it. Until that is back or over, in a Life and Margin at most, nothing is granted.
// It fails as Take.
func (n *Node) Reset(now weir.Instant, key weir.StateKey, fx *protocol.Effects) error {
	if g, ok := n.ledgers.Get(key); ok {
		if g.Look(now, n.view, key); !g.Grants() {
			return n.refusal(key)
		}
		ends := g.Reset(now, key, n.given.Or(0)+1)
		n.drop(key, g.Keeper(), fx)
		n.end(now, ends, fx)
		return nil
	}
	if n.Owner(key) != n.settings.Name {
		return ErrElsewhere
	}
	return nil
}

// refusal is why this node decides nothing about a key now.
func (n *Node) refusal(key weir.StateKey) error {
	if n.Owner(key) != n.settings.Name {
		return ErrElsewhere
	}
	return ErrNotYet
}

// records are the ledgers that asks are about, what each is to be decided by, and the
// time by their clock.
func (n *Node) records(now weir.Instant, asks []weir.Ask) (ledgers []*ledger.Ledger, records []record.Record, at weir.Instant, err error) {
	at = now
	for i := range asks {
		a := &asks[i]
		policy := protocol.PolicyOf(a.Policy.Partition)
		g, ok := n.ledgers.Get(a.State)
		if ok {
			g.See(now, n.view, a.State, policy)
		} else if g = n.open(now, a.State, a.Limit, policy); g != nil {
			g.See(now, n.view, a.State, policy)
		}
		switch {
		case g == nil && !n.ledgers.Room(now):
			return nil, nil, 0, weir.ErrFull
		case g == nil || !g.Grants():
			return nil, nil, 0, n.refusal(a.State)
		}
		n.owes(now, a.State, g)
		ledgers, records = append(ledgers, g), append(records, g.Record(now))
		if i == 0 || g.At(now) < at {
			at = g.At(now)
		}
	}
	return ledgers, records, at, nil
}
