package lease

import "github.com/weir-limit/weir"

// Counts is how much a node keeps.
type Counts struct {
	Asked  int // keys that it is asked about
	Leases int // of these, with a lease that it may use
	Owned  int // keys whose state it keeps
	Backup int // keys of other owners of which it keeps a backup
	// By is Asked by who owns the keys, as the node knows; "" is nobody.
	By map[string]int
}

// Count looks at all that the node keeps.
func (n *Node) Count(now weir.Instant) Counts {
	c := Counts{Asked: len(n.holders.Rows), Owned: len(n.ledgers.Rows), Backup: len(n.backups.Rows), By: map[string]int{}}
	for _, row := range n.holders.Rows {
		row.Of.Prolong(now, n.view)
		c.By[row.Of.Owner()]++
		if row.Of.Left(now) > 0 {
			c.Leases++
		}
	}
	return c
}
