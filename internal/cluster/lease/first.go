package lease

import (
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// First is whether this node may grant at that time what belongs to the first of all members alone (I18). Simulations look at it.
func (n *Node) First(now weir.Instant, key weir.StateKey) bool {
	p, since := n.view.Place(now, key, nil), n.view.Owning
	if g, ok := n.ledgers.Get(key); ok && g.OwnsFrom() > 0 {
		since = min(since, g.OwnsFrom())
	}
	return n.view.Voting && protocol.Closed.Owns(&p) && now >= since && now < n.view.Quorum
}
