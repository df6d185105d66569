package lease

import (
	"errors"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/ledger"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/record"
)

// An owner grants events of a slow key only when another member, which lends it its vote, keeps a backup that has
// them. When the owner is gone, that member hands the backup over to the next owner. Nobody has granted a key
// then that is in no backup, but for the vote of the one that is gone: docs/decisions/0078.

// The bounds of backups.
const (
	// MaxSaving is how many ledgers of a node are on their way to backups, beside those that requests wait for.
	MaxSaving = 64
	// maxCopies is how many owners a key may have had of which a member keeps backups.
	maxCopies = 4
)

// ErrUnsaved is returned by an owner that can't decide yet: it has asked a member to keep a backup, and has no answer.
var ErrUnsaved = errors.New("the backup of the key is on its way")

// save is whether the backup has so many more events, and what was granted before. Else it is sent.
func (n *Node) save(now weir.Instant, key weir.StateKey, g *ledger.Ledger, events int64, fx *protocol.Effects) bool {
	has, late := g.Saves(now, events)
	if late {
		n.saves++
		m := g.Backup(now, key, events, n.saves, n.far[g.Keeper()])
		m.Incarnation, m.Shard = n.settings.Incarnation, n.settings.Shard
		fx.Send(g.Keeper(), m)
	}
	return has
}

// drop tells a member that it need not keep a backup any more. It may not hear: then it keeps one that is out of date, and the
// one by which less is left counts.
func (n *Node) drop(key weir.StateKey, keeper string, fx *protocol.Effects) {
	if keeper != "" && n.view.Has(keeper) {
		n.saves++
		fx.Send(keeper, protocol.Message{Kind: protocol.Backup, State: key, Incarnation: n.settings.Incarnation, ID: n.saves, Of: 1, Closed: true})
	}
}

// holds is whether an ask waits until the backup has what it wants.
func (n *Node) holds(now weir.Instant, from string, m *protocol.Message, g *ledger.Ledger, fx *protocol.Effects) bool {
	events := g.Hold(now, from, m)
	if events == 0 {
		return false
	}
	if n.save(now, m.State, g, events, fx) {
		g.Unhold(from)
		return false
	}
	return true
}

// saveAll is save for all that asks will charge.
func (n *Node) saveAll(now, at weir.Instant, asks []weir.Ask, ledgers []*ledger.Ledger, records []record.Record, fx *protocol.Effects) bool {
	if !slices.ContainsFunc(ledgers, (*ledger.Ledger).BackedUp) {
		return true
	}
	tries, would, all := slices.Clone(asks), make([]weir.Decision, len(asks)), true
	for i := range tries {
		tries[i].Peek, tries[i].Evidence = true, nil
	}
	record.Take(at, tries, records, would)
	for i, g := range ledgers {
		events := int64(0)
		switch a := &asks[i]; {
		case !a.Charges():
		case a.After:
			events = a.Cost
		case would[i].Outcome == weir.Allowed:
			events = would[i].Cost
		}
		all = n.save(now, asks[i].State, g, events, fx) && all
	}
	return all
}

// stored hears that a backup has arrived, and answers the asks that have waited for it.
func (n *Node) stored(now weir.Instant, from string, m *protocol.Message, fx *protocol.Effects) {
	g, ok := n.ledgers.Get(m.State)
	if !ok || m.Incarnation != n.settings.Incarnation {
		return
	}
	news, ok := g.Stored(from, m)
	if !ok {
		return
	}
	n.drop(m.State, news.Before, fx)
	fx.Messages = append(fx.Messages, news.Thanks...)
	if g.Owed && n.handing > 0 {
		n.handing = min(n.handing, now) // there is room for more
	}
	for i := range news.Held {
		e := &news.Held[i]
		if answer, ok := n.serve(now, e.Peer, &e.Message, fx); ok {
			n.answer(now, e.Peer, &answer, fx)
		}
	}
}

// owes notes a ledger whose backup lacks something, though no request waits for it.
func (n *Node) owes(now weir.Instant, key weir.StateKey, g *ledger.Ledger) {
	if g.Owed || !g.Owes() {
		return
	}
	g.Owed = true
	n.owing = append(n.owing, key)
	if n.handing == 0 {
		n.handing = now
	}
}

// owe sends backups that lack something, some at a time, and is whether there are any.
func (n *Node) owe(now weir.Instant, fx *protocol.Effects) bool {
	var left, late []weir.StateKey
	for i, key := range n.owing {
		g, ok := n.ledgers.Get(key)
		switch {
		case !ok:
		case len(left) >= MaxSaving:
			n.owing = append(append(n.owing[i:], left...), late...) // these come first the next time
			return true
		default:
			g.Look(now, n.view, key)
			if g.Owed = !g.Idle(now) && (g.Resets() || !n.save(now, key, g, 0, fx)); !g.Owed {
				continue
			}
			if g.Late() {
				late = append(late, key)
			} else {
				left = append(left, key)
			}
		}
	}
	n.owing = append(left, late...)
	return len(n.owing) > 0
}

// thank tells the owner before that a ledger has arrived: once its backup has, so that it is not lost.
func (n *Node) thank(now weir.Instant, key weir.StateKey, to string, m *protocol.Message, fx *protocol.Effects) {
	e := protocol.Envelope{Peer: to, Message: protocol.Message{Kind: protocol.Taken, State: key, Incarnation: m.Incarnation, ID: m.ID}}
	g, ok := n.ledgers.Get(key)
	if ok {
		n.owes(now, key, g)
	}
	if !ok || !g.Owed || n.save(now, key, g, 0, fx) {
		fx.Messages = append(fx.Messages, e)
	} else {
		g.Thank(&e)
	}
}

// Saved is whether backups have all that the node has granted of slow keys.
func (n *Node) Saved() bool {
	return len(n.owing) == 0 && !n.moving()
}

// backup is what a member keeps of a key that others own, or have owned.
type backup struct{ copies []replica }

// replica is the last that one owner has told.
type replica struct {
	from string
	run  uint64 // its process
	id   uint64
	of   ledger.Copy // as it would be
}

// Idle is whether it may be forgotten: all of it has recovered.
func (b *backup) Idle(now weir.Instant) bool {
	return !slices.ContainsFunc(b.copies, func(r replica) bool { return !r.of.Idle(now) })
}

// keep keeps a backup for an owner. Where there is no room it gives no answer, and the owner denies the key.
func (n *Node) keep(now weir.Instant, from string, m *protocol.Message, fx *protocol.Effects) {
	if m.Closed {
		n.dropped(from, m)
		return
	}
	theirs, ok := ledger.Carried(now, m, n.limit)
	if !ok || !n.view.Has(from) || n.view.Incarnation(from) != m.Incarnation || m.Epoch != n.settings.Incarnation {
		return
	}
	b, ok := n.backups.Get(m.State)
	if !ok {
		if !n.backups.Room(now) {
			return
		}
		b = &backup{}
		n.backups.Add(weir.StateKey{Rule: n.rules.Clone(m.State.Rule), Key: m.State.Key}, b)
	}
	b.copies = slices.DeleteFunc(b.copies, func(r replica) bool {
		return n.view.Fate(r.from, r.run) == member.Useless || r.of.Idle(now) && r.from != from
	})
	at := slices.IndexFunc(b.copies, func(r replica) bool { return r.from == from && r.run == m.Incarnation })
	switch {
	case at < 0 && len(b.copies) >= maxCopies:
		return
	case at < 0:
		b.copies = append(b.copies, replica{from: from, run: m.Incarnation})
		at = len(b.copies) - 1
	}
	if r := &b.copies[at]; m.ID > r.id {
		r.id, r.of = m.ID, theirs
	}
	fx.Send(from, protocol.Message{Kind: protocol.Stored, State: m.State, Incarnation: m.Incarnation, Epoch: m.Epoch, ID: m.ID})
}

// dropped forgets a backup that its owner needs no more.
func (n *Node) dropped(from string, m *protocol.Message) {
	if b, ok := n.backups.Get(m.State); ok {
		b.copies = slices.DeleteFunc(b.copies, func(r replica) bool { return r.from == from && r.run == m.Incarnation && r.id < m.ID })
	}
}

// deliver hands over backups of members that are gone, and is whether too many are on their way.
func (n *Node) deliver(now weir.Instant, fx *protocol.Effects) (full bool) {
	for range scanned {
		if n.backups.Looked >= len(n.backups.Rows) {
			return false
		}
		row := n.backups.Rows[n.backups.Looked]
		row.Of.copies = slices.DeleteFunc(row.Of.copies, func(r replica) bool {
			switch n.view.Fate(r.from, r.run) {
			case member.Useless:
				return true
			case member.Waits:
				n.waits = true
			case member.Due:
				done := n.forward(now, row.Key, &r, fx)
				full = full || !done
				return done
			case member.Kept:
			}
			return false
		})
		switch {
		case len(row.Of.copies) == 0:
			n.backups.Remove(n.backups.Looked)
		case full:
			return true
		default:
			n.backups.Looked++
		}
	}
	return false
}

// forward gives a backup to the owner of its key, and is whether that is on its way.
func (n *Node) forward(now weir.Instant, key weir.StateKey, r *replica, fx *protocol.Effects) bool {
	if r.of.Idle(now) {
		return true
	}
	m := r.of.Forward(now, key, r.from, r.run)
	switch to := n.view.Place(now, key, nil).Owner; to {
	case "":
		return false
	case n.settings.Name:
		return n.adopt(now, &m, &r.of)
	default:
		by := n.mover(to)
		if len(by.pending) > 0 && by.last-by.pending[0].message.ID >= MaxMoves-1 {
			return false
		}
		by.last++
		n.handed = max(n.handed, by.last)
		m.Incarnation, m.Shard, m.Epoch, m.ID = n.settings.Incarnation, n.settings.Shard, by.incarnation, by.last
		moved := *r
		mv := move{copied: &moved, message: m, began: now}
		mv.send(now, to, fx)
		by.pending = append(by.pending, mv)
		return true
	}
}

// putBack keeps a backup that no node has said to have taken.
func (n *Node) putBack(m *move) {
	b, ok := n.backups.Get(m.message.State)
	if !ok {
		b = &backup{}
		n.backups.Add(m.message.State, b)
	}
	b.copies = append(b.copies, *m.copied)
	n.backups.Looked = 0
}

// inherit takes over the backup of a member that is gone.
func (n *Node) inherit(now weir.Instant, from string, m *protocol.Message, theirs *ledger.Copy, fx *protocol.Effects) {
	if n.adopt(now, m, theirs) {
		n.thank(now, m.State, from, m, fx)
	}
}

// adopt goes on with the backup of a member that is gone, and is whether nothing of it is needed any more. If others have kept older ones of the
// key, the one by which least is left counts.
func (n *Node) adopt(now weir.Instant, m *protocol.Message, theirs *ledger.Copy) bool {
	switch n.view.Fate(m.Lost, m.LostRun) {
	case member.Kept, member.Waits:
		return false
	case member.Useless:
		return true
	case member.Due:
	}
	p := n.view.Place(now, m.State, nil)
	if p.Owner != n.settings.Name {
		return false
	}
	g, ok := n.ledgers.Get(m.State)
	switch {
	case ok:
		g.Merge(now, n.view, m, theirs)
		return true
	case !n.ledgers.Room(now):
		return false
	}
	g = ledger.Adopt(now, n.view, &p, m, theirs)
	n.ledgers.Put(g.Row(m.State))
	n.owes(now, m.State, g)
	return true
}
