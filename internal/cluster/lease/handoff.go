package lease

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/frame"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/packing"
)

// The bounds of handing over.
const (
	// MaxMoves is how many ledgers of a node are on their way to one other process. More wait: what a
	// process can't hear in time comes back, and is worth nothing.
	MaxMoves = 8
	// maxState is how many bytes of states are handed over. If they are more, none is, and all counts
	// as used: with the longest texts they would not go into one message.
	maxState = 51 << 10
	// scanned is how many ledgers of a node are looked at in one go after a change: all nodes of a process
	// look at as many before it hears of the next heartbeat.
	scanned = 16
	// patience is how long the new owner waits until it has the votes of the one before.
	patience = 4 * Retry
)

// move is a ledger on its way to its next owner. It is sent until that has taken it, or
// could have begun without: then it comes back, and is worth nothing.
type move struct {
	of      *ledger // nil: it is a backup of a member that is gone
	copied  *replica
	message Message
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

func (n *Node) moving() bool { return n.wait || n.handing > 0 && n.looks() }

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

// giveBack gives back leases, when the node leaves. While an answer is on its way, which
// counts from when the lease began, it can't be told what is left.
func (n *Node) giveBack(now weir.Instant, fx *Effects) {
	for _, row := range n.holders.Rows {
		if h := row.Of; h.lease != 0 && !h.asking && h.place.owner != "" && h.place.owner != n.settings.Name {
			fx.send(h.place.owner, h.message(Release, now))
		}
	}
}

// hand hands over, after a change, the ledgers of keys that this node has no votes for any
// more.
func (n *Node) hand(now weir.Instant, fx *Effects) {
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
		n.handing = now + bounds.Micros(Retry)
	default:
		n.handing = 0
	}
}

// look looks at some more ledgers, and is whether too many are on their way.
func (n *Node) look(now weir.Instant, fx *Effects) (full bool) {
	for range scanned {
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
		g.known = 0
		return
	}
	m.of.has, m.of.waits, m.of.known, m.of.lost, m.of.owed = entitlement{0, 1}, 0, 0, 0, false // I13
	n.ledgers.Add(m.message.State, m.of)
}

func (m *move) send(now weir.Instant, to string, fx *Effects) {
	m.again = now + bounds.Micros(Retry)
	m.message.Wait = (now - m.began).Duration()
	fx.send(to, m.message)
}

// pass sends a ledger on, if it is another node's now. wait tells that too many are on
// their way.
func (n *Node) pass(now weir.Instant, key weir.StateKey, g *ledger, fx *Effects) (moved, wait bool) {
	g.expire(now, n.view)
	n.stand(now, key, g)
	to := g.place.Owner
	if to == "" || to == n.settings.Name || !n.gone(g) {
		return false, false
	}
	if g.Idle(now) || g.unused(n.view, to) {
		return true, false
	}
	by := n.mover(to)
	if len(by.pending) > 0 && by.last-by.pending[0].message.ID >= MaxMoves-1 {
		return false, true
	}
	by.last++
	n.handed = max(n.handed, by.last)
	if g.lost == 0 {
		g.lose(now, n.view)
	}
	m := move{of: g, message: g.handoff(now, n.view), began: now}
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

// gone is whether no vote is this node's any more, or it leaves and may use none.
func (n *Node) gone(g *ledger) bool {
	for _, by := range g.place.Voters {
		if !by.Kept || !n.view.Leaving {
			return false
		}
	}
	return !g.first
}

// handoff is a ledger as the next owner gets it: what is left is of the moment when the
// first votes went, for what came since may be another's.
func (g *ledger) handoff(now weir.Instant, v *member.View) Message {
	g.enter(now, entitlement{0, 1})
	m := Message{
		Kind: Handoff, Limit: g.kept.Limit.String(), Policy: g.policy, Closed: g.gave.first, Spent: g.outstanding(),
		At: g.at(g.lost), Part: g.gave.part, Of: g.gave.of, Known: g.known, Resets: g.resets,
	}
	m.carry(&g.kept)
	for i := range g.accounts {
		m.Life = max(m.Life, (g.accounts[i].until(v) - now).Duration())
	}
	return m
}

// carry is for a message to have a ledger's states, where they are not too long.
func (m *Message) carry(k *weir.Kept) {
	m.Words, m.Earlier = text(k.State), versions(k.Earlier)
	if len(m.Words)+len(m.Earlier) > maxState {
		m.Words, m.Earlier, m.Part, m.Of, m.Known = "", "", 0, 1, 0
	}
}

// accept takes a ledger over, and tells the owner before.
func (n *Node) accept(now weir.Instant, from string, m *Message, fx *Effects) {
	if m.Epoch != n.settings.Incarnation {
		return // it was for an earlier process
	}
	theirs, ok := n.theirs(now, m)
	switch {
	case !ok:
		return
	case m.Lost != "":
		n.inherit(now, from, m, &theirs, fx)
		return
	}
	g, known := n.ledgers.Get(m.State)
	if !known {
		g = &ledger{kept: weir.Kept{Limit: theirs.kept.Limit}, policy: m.Policy}
	}
	released := append(slices.DeleteFunc(slices.Clone(g.released), func(r member.Released) bool { return r.By == from }), member.Released{By: from, Until: now + member.Settle(n.view.Count)})
	p := n.view.Place(now, m.State, released)
	if p.Owner != n.settings.Name {
		return // not any more, or not yet
	}
	gave := entitlement{m.Part, m.Of}
	if has := entitled(m.Policy, int64(len(p.Voters)), p.Count, m.Closed && m.Policy.owns(&p)); has.less(gave) && m.Wait < patience {
		return // votes of the one before are on their way
	}
	if !known && !n.ledgers.Room(now) {
		return
	}
	by := sender{from, m.Shard}
	if n.windows[by] == nil {
		n.windows[by] = &window{}
	}
	if n.windows[by].take(m.Incarnation, m.ID) {
		if known {
			n.stand(now, m.State, g)
		} else {
			n.ledgers.Add(m.State, g)
		}
		g.released = released
		g.merge(now, m, &theirs, known)
		g.set++ // what has come in is to be saved, too
		if !known {
			g.born = g.at(now) // the one before knows which receipts were used
		}
		if m.Closed && m.Policy.owns(&p) {
			g.owns = now
		}
		g.stand(now, n.view, p, g.has)
	}
	n.thank(now, m.State, from, m, fx)
}

// theirs is the ledger that a message carries.
func (n *Node) theirs(now weir.Instant, m *Message) (g ledger, ok bool) {
	limit := n.limit(m.Limit)
	g = ledger{kept: weir.Kept{Limit: limit, State: words(m.Words)}, ahead: m.At - now, policy: m.Policy, known: m.Known, has: entitlement{m.Part, m.Of}}
	if g.kept.Earlier, ok = n.earlier(m.Earlier); !ok || limit == nil || !holds(limit, g.kept.State) {
		return g, false
	}
	if m.Part == 0 && m.Words == "" && (m.Kind == Backup || m.Lost != "") { // the state was too long: all counts as used
		all, _ := limit.Standing(nil, now)
		g.charge(now, all)
	}
	return g, true
}

// both is what has passed by this ledger that counts for another's, too: where the two have
// more than all of the limit together, they have had some of it both.
func (g *ledger) both(gave entitlement) int64 {
	if g.has.part*gave.of+gave.part*g.has.of <= g.has.of*gave.of {
		return 0
	}
	return g.passed
}

// merge goes on with what another owner has handed over. The state by which more is left counts,
// and the outstanding events of both.
func (g *ledger) merge(now weir.Instant, m *Message, theirs *ledger, known bool) {
	gave := entitlement{m.Part, m.Of}
	if theirs.kept.Limit.Algorithm() == weir.FixedWindow && max(theirs.ahead, -theirs.ahead) <= apart && len(theirs.kept.Earlier) == 0 {
		theirs.keepTime(now)
	}
	theirs.charge(now, g.both(gave))
	left := theirs.free(now) - m.Spent
	if mine := g.free(now) - g.takes(0); !known || bounds.Part(left, gave.part, gave.of) > bounds.Part(mine, g.has.part, max(g.has.of, 1)) {
		g.kept.Limit, g.kept.State, g.kept.Earlier = theirs.kept.Limit, theirs.kept.State, theirs.kept.Earlier
		g.ahead, g.has = theirs.ahead, gave
	}
	if g.known, g.bare = m.Known, nil; known {
		g.known = 0 // neither has all
	}
	g.resets = g.resets || m.Resets
	if m.Spent > 0 {
		g.taxed += m.Spent
		g.accounts = append(g.accounts, account{lease: 1, granted: m.Spent, expires: now + bounds.Micros(m.Life)})
	}
}

// apart is how far clocks of nodes may be apart, and a ledger be on its way, for its windows to go
// by the clock of the next owner.
const apart = 10 * second

const second = weir.Instant(time.Second / time.Microsecond)

// keepTime makes windows go by this node's clock, where it is about that of the owner
// before: else each move would shift them. The events left do not grow by that.
func (g *ledger) keepTime(now weir.Instant) {
	left := g.free(now)
	g.ahead = 0
	g.charge(now, g.free(now)-left)
}

// holds is whether a state could be one of l. A state that grows says itself how long it is.
func holds(l *weir.Limit, s weir.State) bool {
	last := uint64(len(s)) - 1
	switch {
	case len(s) == 0:
		return true
	case l.Algorithm() == weir.Concurrent:
		held := uint64(0)
		for i := 3; i < len(s); i += 3 {
			held += min(s[i], weir.MaxCount)
		}
		return last%3 == 0 && s[0] == held
	case l.Algorithm() == weir.SlidingLog:
		return s[0]&(1<<14-1) <= last && s[0]>>32 < max(last, 1) // between them stands how many more found no room
	}
	return len(s) == l.Words()
}

// taken hears that a ledger has arrived.
func (n *Node) taken(now weir.Instant, from string, m *Message, fx *Effects) {
	i := slices.IndexFunc(n.movers, func(by *mover) bool { return by.to == from })
	if i < 0 || m.Incarnation != n.settings.Incarnation {
		return
	}
	by := n.movers[i]
	by.pending = slices.DeleteFunc(by.pending, func(p move) bool {
		is := p.message.ID == m.ID && p.message.State == m.State
		if is && p.of != nil && p.of.saved != nil {
			n.drop(m.State, p.of.saved.at, fx)
		}
		return is
	})
	n.handing = min(n.handing, now) // there is room for more
}

// versions is the states by earlier limits as messages carry them. The next owner does not know which
// receipts of them were used.
func versions(earlier []weir.Version) string {
	var b []byte
	for _, v := range earlier {
		b = packing.AppendText(b, v.Limit.String())
		b = binary.AppendUvarint(b, uint64(max(v.Until, 0)))
		state := text(v.State)
		b = packing.AppendText(b, state)
	}
	return string(b)
}

// earlier is what a message carries. ok is false for what no node would send.
func (n *Node) earlier(s string) (all []weir.Version, ok bool) {
	r := packing.Reader{Rest: []byte(s)}
	for len(r.Rest) > 0 {
		limit, until := n.limit(r.Text(frame.MaxText)), weir.Instant(r.Below(1<<62))
		v := weir.Version{Limit: limit, State: words(r.Text(maxState)), Until: until}
		if r.Bad || limit == nil || !holds(limit, v.State) || len(all) == weir.MaxVersions-1 {
			return nil, false
		}
		all = append(all, v)
	}
	return all, true
}

// text is a state as messages carry it, and words what they carry.
func text(state weir.State) string {
	b := make([]byte, 0, 8*len(state))
	for _, w := range state {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return string(b)
}

func words(s string) weir.State {
	state := make(weir.State, len(s)/8)
	for i := range state {
		state[i] = binary.LittleEndian.Uint64([]byte(s[8*i : 8*i+8]))
	}
	return state
}
