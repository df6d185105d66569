package sharing

import "github.com/weir-limit/weir"

// Counts is how much a node keeps.
type Counts struct {
	Asked  int // keys that it is asked about
	Leases int // of these, with a lease that it may use
	Owned  int // keys whose state it keeps
	// By is Asked by who owns the keys, as the node knows; "" is nobody.
	By map[string]int
}

// Count looks at all that the node keeps.
func (n *Node) Count(now weir.Instant) Counts {
	c := Counts{Asked: len(n.holders.rows), Owned: len(n.ledgers.rows), By: map[string]int{}}
	for _, row := range n.holders.rows {
		n.prolong(now, row.of)
		c.By[row.of.place.owner]++
		if row.of.left(now) > 0 {
			c.Leases++
		}
	}
	return c
}

// Look is the state of a key as the replica knows it, as limit would be given it.
func (p *Replica) Look(now weir.Instant, limit *weir.Limit, key weir.StateKey) weir.State {
	r, ok := p.tallies.get(key)
	if !ok {
		return nil
	}
	k := r.kept()
	return k.View(limit, now)
}
