package lease

import (
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/ledger"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// The bounds of handing over.
const (
	// MaxMoves is how many ledgers of a node are on their way to one other process. More wait: what a
	// process can't hear in time comes back, and is worth nothing.
	MaxMoves = 8
	// scanned is how many ledgers of a node are looked at in one go after a change, each millisecond: all nodes of a process
	// look at as many before it hears of the next heartbeat. A node with more than scanned·rounds ledgers looks at more at a time, so
	// that none waits for longer than a share rests (I10).
	scanned = 16
	rounds  = 500
)

// move is a ledger on its way to its next owner. It is sent until that has taken it, or
// could have begun without: then it comes back, and is worth nothing.
type move struct {
	of      *ledger.Ledger // nil: it is a backup of a member that is gone
	copied  *replica
	message protocol.Message
	began   weir.Instant
	again   weir.Instant
}

// mover numbers the ledgers that are handed over to one process. Its numbers are more than all that
// the node has used before, for the process may remember those.
type mover struct {
	to          string
	incarnation uint64
	last        uint64
	pending     []move
}

// sender is who numbers what it hands over: a process has several nodes, and each numbers by itself.
type sender struct {
	name  string
	shard uint64
}

// window tells which of the last MaxMoves numbers of one sender were taken.
type window struct {
	incarnation uint64
	last        uint64
	taken       uint64
}

// take is whether number comes for the first time.
func (w *window) take(incarnation, number uint64) bool {
	if incarnation > w.incarnation {
		*w = window{incarnation: incarnation}
	}
	if number > w.last {
		w.taken <<= min(number-w.last, 64)
		w.last = number
	}
	bit := uint64(1) << min(w.last-number, 63)
	if incarnation < w.incarnation || w.last-number >= MaxMoves || w.taken&bit != 0 { // I12
		return false
	}
	w.taken |= bit
	return true
}

// Moving is whether there are ledgers that may be another node's now. All ledgers of a node that
// leaves may be.
func (n *Node) Moving() bool {
	return n.moving() || n.view.Leaving && len(n.ledgers.Rows) > 0 && !n.view.Alone()
}

func (n *Node) moving() bool { return n.wait || n.keeps || n.handing > 0 && n.looks() }

// looks is whether not all has been looked at since the last change.
func (n *Node) looks() bool {
	return n.ledgers.Looked < len(n.ledgers.Rows) || n.backups.Looked < len(n.backups.Rows)
}

// Left is how many ledgers the node has, those included that are on their way to others.
func (n *Node) Left() int {
	left := len(n.ledgers.Rows)
	for _, by := range n.movers {
		left += len(by.pending)
	}
	return left
}

// giveBack gives back leases, when the node leaves.
func (n *Node) giveBack(now weir.Instant, fx *protocol.Effects) {
	for _, row := range n.holders.Rows {
		row.Of.GiveBack(now, fx)
	}
}

// hand hands over, after a change, the ledgers of keys that this node has no votes for any
// more.
func (n *Node) hand(now weir.Instant, fx *protocol.Effects) {
	n.movers = slices.DeleteFunc(n.movers, func(by *mover) bool { return len(by.pending) == 0 && !n.view.Has(by.to) })
	for _, by := range n.movers {
		ended := n.view.Has(by.to) && n.view.Incarnation(by.to) != by.incarnation
		by.pending = slices.DeleteFunc(by.pending, func(m move) bool {
			over := ended || now >= m.began+member.Settle(n.view.Count)
			if over {
				n.back(&m)
			}
			return over
		})
		for i := range by.pending {
			if m := &by.pending[i]; now >= m.again {
				m.send(now, by.to, fx)
			}
		}
	}
	full := n.look(now, fx)
	full = n.deliver(now, fx) || full
	n.wait = full || n.waits || now < n.strewn
	for _, by := range n.movers {
		n.wait = n.wait || len(by.pending) > 0
	}
	switch owing := n.owe(now, fx); {
	case n.looks() && !full:
		n.handing = now + bounds.Micros(time.Millisecond)
	case n.wait || owing:
		n.handing = now + bounds.Micros(protocol.Retry)
	default:
		n.handing = 0
	}
}

// look looks at some more ledgers, and is whether too many are on their way.
func (n *Node) look(now weir.Instant, fx *protocol.Effects) (full bool) {
	for range max(scanned, len(n.ledgers.Rows)/rounds) {
		if n.ledgers.Looked >= len(n.ledgers.Rows) {
			return false
		}
		row := n.ledgers.Rows[n.ledgers.Looked]
		moved, wait := n.pass(now, row.Key, row.Of, fx)
		switch {
		case wait:
			return true
		case moved:
			n.ledgers.Remove(n.ledgers.Looked)
		default:
			to := row.Of.Owner()
			n.keeps = n.keeps || to != "" && to != n.settings.Name
			n.ledgers.Looked++
			n.owes(now, row.Key, row.Of)
		}
	}
	return false
}

// back goes on with a ledger that no node has said to have taken. A node that took it may be gone,
// so back goes on as if all was used, to tell the next owner that there was something. If this node
// has begun another ledger meanwhile, that one knows of it now. The table may be over its bound by
// as many ledgers as were on their way.
func (n *Node) back(m *move) {
	if m.of == nil {
		n.putBack(m)
		return
	}
	if g, ok := n.ledgers.Get(m.message.State); ok {
		g.Doubt()
		return
	}
	m.of.Return()
	n.ledgers.Put(m.of.Row(m.message.State))
}

func (m *move) send(now weir.Instant, to string, fx *protocol.Effects) {
	m.again = now + bounds.Micros(protocol.Retry)
	m.message.Wait = (now - m.began).Duration()
	fx.Send(to, m.message)
}

// pass sends a ledger on, if it is another node's now. wait tells that too many are on
// their way.
func (n *Node) pass(now weir.Instant, key weir.StateKey, g *ledger.Ledger, fx *protocol.Effects) (moved, wait bool) {
	to := g.Moves(now, n.view, key)
	if to == "" || to == n.settings.Name {
		return false, false
	}
	if g.Idle(now) || g.Unused(n.view, to) {
		return true, false
	}
	by := n.mover(to)
	if len(by.pending) > 0 && by.last-by.pending[0].message.ID >= MaxMoves-1 {
		return false, true
	}
	by.last++
	n.handed = max(n.handed, by.last)
	m := move{of: g, message: g.Handoff(now, n.view), began: now}
	m.message.State, m.message.Incarnation, m.message.Shard = key, n.settings.Incarnation, n.settings.Shard
	m.message.Epoch, m.message.ID = by.incarnation, by.last
	m.send(now, to, fx)
	by.pending = append(by.pending, m)
	n.lent = max(n.lent, now+bounds.Micros(m.message.Life))
	return true, false
}

// sends is whether a ledger of a key is on its way to another node.
func (n *Node) sends(key weir.StateKey) bool {
	return slices.ContainsFunc(n.movers, func(by *mover) bool {
		return slices.ContainsFunc(by.pending, func(m move) bool { return m.of != nil && m.message.State == key })
	})
}

// mover is what numbers the ledgers for the process that has the name now.
func (n *Node) mover(to string) *mover {
	incarnation := n.view.Incarnation(to)
	i := slices.IndexFunc(n.movers, func(by *mover) bool { return by.to == to })
	if i < 0 {
		i = len(n.movers)
		n.movers = append(n.movers, &mover{to: to})
	}
	if n.movers[i].incarnation != incarnation {
		n.movers[i] = &mover{to: to, incarnation: incarnation, last: n.handed}
	}
	return n.movers[i]
}

// accept takes a ledger over, and tells the owner before.
func (n *Node) accept(now weir.Instant, from string, m *protocol.Message, fx *protocol.Effects) {
	if m.Epoch != n.settings.Incarnation {
		return // it was for an earlier process
	}
	theirs, ok := ledger.Carried(now, m, n.limit)
	switch {
	case !ok:
		return
	case m.Lost != "":
		n.inherit(now, from, m, &theirs, fx)
		return
	}
	g, known := n.ledgers.Get(m.State)
	if !known {
		g = ledger.Blank(&theirs)
	}
	in, ok := g.Expects(now, n.view, n.settings.Name, from, m)
	if !ok || !known && !n.ledgers.Room(now) {
		return
	}
	by := sender{from, m.Shard}
	if n.windows[by] == nil {
		n.windows[by] = &window{}
	}
	if n.windows[by].take(m.Incarnation, m.ID) {
		g.Take(now, n.view, &in, m, &theirs, known)
		if !known {
			n.ledgers.Put(g.Row(m.State))
		}
	}
	n.thank(now, m.State, from, m, fx)
}

// taken hears that a ledger has arrived.
func (n *Node) taken(now weir.Instant, from string, m *protocol.Message, fx *protocol.Effects) {
	i := slices.IndexFunc(n.movers, func(by *mover) bool { return by.to == from })
	if i < 0 || m.Incarnation != n.settings.Incarnation {
		return
	}
	by := n.movers[i]
	by.pending = slices.DeleteFunc(by.pending, func(p move) bool {
		is := p.message.ID == m.ID && p.message.State == m.State
		if is && p.of != nil {
			n.drop(m.State, p.of.Keeper(), fx)
		}
		return is
	})
	n.handing = min(n.handing, now) // there is room for more
}
