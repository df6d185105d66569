package lease

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/frame"
	"github.com/weir-limit/weir/internal/cluster/holder"
	"github.com/weir-limit/weir/internal/cluster/ledger"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/table"
	"github.com/weir-limit/weir/internal/limittext"
	"github.com/weir-limit/weir/internal/record"
)

// Settings say what a node is.
type Settings struct {
	// Name is the node's among the members.
	Name string
	// Incarnation is more than that of every process that had the name before.
	Incarnation uint64
	// Keys is how many keys a node asks about, and how many it owns, at a time.
	// Requests for more are denied. At least 1.
	Keys int
	// Shard tells the node from the others of its process, each of which has some of the keys: by a
	// rule of its own, for other nodes need not know of it. It is less than protocol.MaxShards.
	Shard uint64
	// Seed is that of Hash, by which the caller finds a key before. Zero: one of its own.
	Seed maphash.Seed
}

// Node is one of the nodes that share limits. Its methods are told the time of one
// clock, which never goes back and goes on while the machine sleeps. They are not
// for several goroutines at once.
type Node struct {
	settings Settings
	view     *member.View
	leases   uint64 // given so far
	asks     uint64 // sent so far
	holders  table.Table[*holder.Holder]
	ledgers  table.Table[*ledger.Ledger]
	limits   limittext.Cache
	rules    table.Texts
	given    record.Latest
	far      map[string]protocol.Distance
	timers   holder.Timers

	movers  []*mover           // one for each member at most
	handed  uint64             // the highest number that these have used
	windows map[sender]*window // of the owner before, protocol.MaxShards for each member at most
	handing weir.Instant       // when to go on with that, 0: never
	lent    weir.Instant       // then leases of ledgers are over that it has handed over
	strewn  weir.Instant       // the same of those handed over while it reached other members
	wait    bool               // some of it has to wait for others
	keeps   bool               // some is another's that this node takes itself to have a vote for still: it may not have heard yet

	backups table.Table[*backup] // of other owners
	owing   []weir.StateKey      // ledgers that wait for a backup; those that are sent come first
	saves   uint64               // backups sent
	waits   bool                 // the owner of some of those kept may be gone: the next view may tell
}

// NewNode is a node that knows of no members yet: until View has told it, it denies all.
func NewNode(s Settings) (*Node, error) {
	if s.Name == "" || s.Keys < 1 || s.Shard >= protocol.MaxShards {
		return nil, fmt.Errorf("a node needs a name, a bound for its keys, and a shard below %d", protocol.MaxShards)
	}
	if s.Seed == (maphash.Seed{}) {
		s.Seed = maphash.MakeSeed()
	}
	return &Node{
		settings: s, view: &member.View{}, rules: table.Texts{},
		holders: table.New[*holder.Holder](s.Keys, s.Seed), ledgers: table.New[*ledger.Ledger](s.Keys, s.Seed),
		backups: table.New[*backup](s.Keys, s.Seed),
		windows: map[sender]*window{},
	}, nil
}

// View tells what the node's process knows of the members.
func (n *Node) View(now weir.Instant, v *member.View, fx *protocol.Effects) {
	changed := v.Version != n.view.Version
	if v.Leaving && !n.view.Leaving {
		n.giveBack(now, fx)
	}
	if v.Reached != n.view.Reached {
		n.strewn = max(n.strewn, n.lent)
	}
	n.view = v
	if !changed {
		return
	}
	maps.DeleteFunc(n.windows, func(by sender, _ *window) bool { return !v.Has(by.name) })
	n.ledgers.Again()
	n.backups.Again()
	n.waits, n.keeps = false, false
	n.hand(now, fx)
}

// Ask decides about a request. The answer may come with a later effect.
func (n *Node) Ask(now weir.Instant, r *protocol.Request, fx *protocol.Effects) {
	h := n.holder(now, r)
	if h == nil || r.Cost < 1 || r.Cost > weir.MaxCount {
		fx.Answer(r.ID, weir.Decision{Cost: r.Cost, RetryAfter: table.MaxDeny})
		return
	}
	before := len(fx.Messages)
	h.Take(now, r, fx)
	n.settle(now, h, before, fx)
}

// Spend answers a request as Ask does, if a lease that is held covers it. Else it does
// nothing, and is false. hash is that of its key.
func (n *Node) Spend(now weir.Instant, hash uint64, r *protocol.Request, d *weir.Decision, fx *protocol.Effects) bool {
	h := n.held(now, hash, r)
	if h == nil || !h.Covers(now, r.Cost) {
		return false
	}
	before := len(fx.Messages)
	if h.Spend(now, r, d, fx); len(fx.Messages) > before {
		n.settle(now, h, before, fx)
	}
	return true
}

// Covers is whether Spend would answer the request now.
func (n *Node) Covers(now weir.Instant, hash uint64, r *protocol.Request) bool {
	h := n.held(now, hash, r)
	return h != nil && h.Covers(now, r.Cost)
}

// Decides is whether Ask would answer the request now.
func (n *Node) Decides(now weir.Instant, hash uint64, r *protocol.Request) bool {
	h := n.held(now, hash, r)
	return h != nil && h.Decides(now, r)
}

// held is what the node keeps of a key that it was asked about before, by that limit and in this view; nil: nothing.
func (n *Node) held(now weir.Instant, hash uint64, r *protocol.Request) *holder.Holder {
	h, ok := n.holders.Find(hash, r.State)
	if !ok || !h.Knows(r.Limit, n.view.Version) {
		return nil
	}
	h.Prolong(now, n.view)
	return h
}

// Expect notes a request that is not for this node to decide, and asks the owner for a
// lease ahead where one would be used.
func (n *Node) Expect(now weir.Instant, r *protocol.Request, fx *protocol.Effects) {
	h := n.holder(now, r)
	if h == nil || r.Cost < 1 || r.Cost > weir.MaxCount {
		return
	}
	before := len(fx.Messages)
	h.Notice(now, r)
	h.Renew(now, fx)
	n.settle(now, h, before, fx)
}

// Receive hears a message of a peer. One that no node would send does nothing.
func (n *Node) Receive(now weir.Instant, peer string, m *protocol.Message, fx *protocol.Effects) {
	if !m.Sound() {
		return
	}
	switch m.Kind {
	case protocol.Grant:
		if h, ok := n.holders.Get(m.State); ok && h.Owner() == peer && m.Incarnation == n.settings.Incarnation {
			h.Receive(now, m, fx)
			n.settle(now, h, 0, fx)
		}
	case protocol.Handoff:
		if n.view.Has(peer) {
			n.accept(now, peer, m, fx)
		}
	case protocol.Taken:
		n.taken(now, peer, m, fx)
	case protocol.Backup:
		n.keep(now, peer, m, fx)
	case protocol.Stored:
		n.stored(now, peer, m, fx)
	default:
		if answer, ok := n.serve(now, peer, m, fx); ok {
			fx.Send(peer, answer)
		}
	}
}

// Next is when Tick is to be called, if nothing happens before; ok is false if never.
func (n *Node) Next() (at weir.Instant, ok bool) {
	at, ok = n.timers.Next()
	if n.handing > 0 && (!ok || n.handing < at) {
		at, ok = n.handing, true
	}
	return at, ok
}

// Tick does what is due. To call it early does nothing; late, it is done late.
func (n *Node) Tick(now weir.Instant, fx *protocol.Effects) {
	if n.handing > 0 && now >= n.handing {
		n.hand(now, fx)
	}
	for h := n.timers.Due(now); h != nil; h = n.timers.Due(now) {
		h.Follow(now, n.view, n.settings.Name, n.far)
		before := len(fx.Messages)
		h.Tick(now, fx)
		n.settle(now, h, before, fx)
	}
}

// settle delivers what h has sent to its own node, from the message numbered first,
// and sees to its timer.
func (n *Node) settle(now weir.Instant, h *holder.Holder, first int, fx *protocol.Effects) {
	for i := first; i < len(fx.Messages); {
		if fx.Messages[i].Peer != n.settings.Name {
			i++
			continue
		}
		m := fx.Messages[i].Message
		fx.Messages = slices.Delete(fx.Messages, i, i+1)
		if answer, ok := n.serve(now, n.settings.Name, &m, fx); ok {
			h.Receive(now, &answer, fx)
		}
	}
	n.timers.Set(h)
}

// holder is what the node keeps of a key that it is asked about, or nil if it can
// keep no more, or nodes can't share its limit.
func (n *Node) holder(now weir.Instant, r *protocol.Request) *holder.Holder {
	h, ok := n.holders.Get(r.State)
	if ok && h.Knows(r.Limit, n.view.Version) {
		h.Follow(now, n.view, n.settings.Name, n.far)
		return h
	}
	if protocol.Unfit(r.Limit) != "" || max(len(r.State.Rule), len(r.State.Key)) > frame.MaxText {
		return nil
	}
	if !ok {
		if !n.holders.Room(now) {
			return nil
		}
		row := holder.New(weir.StateKey{Rule: n.rules.Clone(r.State.Rule), Key: strings.Clone(r.State.Key)}, n.settings.Incarnation, &n.asks)
		n.holders.Put(row)
		h = row.Of
	}
	h.Become(r.Limit)
	h.Follow(now, n.view, n.settings.Name, n.far)
	return h
}

// limit is the one of that text, nil if there is none.
func (n *Node) limit(text string) *weir.Limit {
	limit, err := n.limits.Get(text)
	if err != nil || limit.String() != text {
		return nil // no node sends a text that is not in its shortest form
	}
	return limit
}

// serve hears, as owner, what a holder says.
func (n *Node) serve(now weir.Instant, peer string, m *protocol.Message, fx *protocol.Effects) (answer protocol.Message, ok bool) {
	if !n.view.Has(peer) {
		return protocol.Message{}, false
	}
	if m.Epoch != n.settings.Incarnation {
		m.Lease = 0 // of an earlier process
	}
	g, ok := n.ledgers.Get(m.State)
	if m.Kind == protocol.Release {
		if ok {
			g.Report(now, n.view, peer, m)
		}
		return protocol.Message{}, false
	}
	limit := n.limit(m.Limit)
	if limit == nil || protocol.Unfit(limit) != "" {
		return protocol.Message{}, false
	}
	if !ok {
		g = n.open(now, m.State, limit, m.Policy)
	}
	if g == nil && n.view.Passing() && n.ledgers.Room(now) {
		return protocol.Message{}, false // until it is asked again it may know more; what the ask reports comes again, too
	}
	if g == nil { // it knows of no events that it could grant
		return protocol.Message{Kind: protocol.Grant, State: m.State, Incarnation: m.Incarnation, ID: m.ID, Wait: member.Pulse}, true
	}
	g.Become(now, n.view, limit)
	g.See(now, n.view, m.State, m.Policy)
	if !g.Grants() && n.view.Passing() {
		return protocol.Message{}, false
	}
	n.owes(now, m.State, g) // where its limit has just become a slow one
	if n.holds(now, peer, m, g, fx) {
		return protocol.Message{}, false
	}
	if answer, ok = g.Ask(now, n.view, peer, m, n.leases+1); ok {
		n.leases = max(n.leases, answer.Lease)
		answer.Epoch = n.settings.Incarnation
		if answer.Wait > 0 {
			n.recall(now, m.State, g, fx)
		}
	}
	return answer, ok
}

// open is a ledger for a key that has none, nil where this node may grant nothing of it
// or keep no more.
func (n *Node) open(now weir.Instant, key weir.StateKey, l *weir.Limit, policy protocol.Policy) *ledger.Ledger {
	if n.sends(key) {
		return nil // it is not known yet whether the next owner has it
	}
	g := ledger.Open(now, n.view, key, l, policy)
	if g == nil || !n.ledgers.Room(now) {
		return nil
	}
	n.ledgers.Put(g.Row(key))
	return g
}

// recall calls back leases that last, where somebody is denied.
func (n *Node) recall(now weir.Instant, key weir.StateKey, g *ledger.Ledger, fx *protocol.Effects) {
	n.end(now, g.Recall(now, key), fx)
}

// end sends answers that lend nothing.
func (n *Node) end(now weir.Instant, answers []protocol.Envelope, fx *protocol.Effects) {
	for i := range answers {
		e := &answers[i]
		e.Message.Epoch = n.settings.Incarnation
		n.answer(now, e.Peer, &e.Message, fx)
	}
}

// answer tells a lease holder, which may be this node's own, what it gets.
func (n *Node) answer(now weir.Instant, to string, m *protocol.Message, fx *protocol.Effects) {
	if to != n.settings.Name {
		fx.Send(to, *m)
	} else if h, ok := n.holders.Get(m.State); ok {
		before := len(fx.Messages)
		h.Receive(now, m, fx)
		n.settle(now, h, before, fx)
	}
}

// Distances tells how far the members are, for asks from now on. All is not changed any
// more.
func (n *Node) Distances(all map[string]protocol.Distance) { n.far = all }

// Distance is how far a member is.
func (n *Node) Distance(name string) protocol.Distance { return n.far[name] }

// Sight is what the denials of a key stand on now, if its owner has told: the state, which is
// not to be changed, and its moment by the owner's clock.
func (n *Node) Sight(now weir.Instant, hash uint64, key weir.StateKey) (at weir.Instant, state weir.State, ok bool) {
	h, ok := n.holders.Find(hash, key)
	if !ok {
		return 0, nil, false
	}
	return h.Sight(now)
}
