package lease

import (
	"container/heap"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/frame"
	"github.com/weir-limit/weir/internal/cluster/member"
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
	// rule of its own, for other nodes need not know of it. It is less than MaxShards.
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
	holders  table.Table[*holder]
	ledgers  table.Table[*ledger]
	limits   limittext.Cache
	rules    table.Texts
	given    record.Latest
	far      map[string]Distance
	timers   timers

	movers  []*mover           // one for each member at most
	handed  uint64             // the highest number that these have used
	windows map[sender]*window // of the owner before, MaxShards for each member at most
	handing weir.Instant       // when to go on with that, 0: never
	lent    weir.Instant       // then leases of ledgers are over that it has handed over
	strewn  weir.Instant       // the same of those handed over while it reached other members
	wait    bool               // some of it has to wait for others

	backups table.Table[*backup] // of other owners
	owing   []weir.StateKey      // ledgers that wait for a backup; those that are sent come first
	saves   uint64               // backups sent
	waits   bool                 // the owner of some of those kept may be gone: the next view may tell
}

// Effects is what a node wants done: requests answered and messages sent. The caller
// empties it.
type Effects struct {
	Answers  []Answer
	Messages []Envelope
}

func (fx *Effects) answer(id uint64, d weir.Decision) {
	fx.Answers = append(fx.Answers, Answer{id, d})
}

func (fx *Effects) send(to string, m Message) {
	fx.Messages = append(fx.Messages, Envelope{to, m})
}

// NewNode is a node that knows of no members yet: until View has told it, it denies all.
func NewNode(s Settings) (*Node, error) {
	if s.Name == "" || s.Keys < 1 || s.Shard >= MaxShards {
		return nil, fmt.Errorf("a node needs a name, a bound for its keys, and a shard below %d", MaxShards)
	}
	if s.Seed == (maphash.Seed{}) {
		s.Seed = maphash.MakeSeed()
	}
	return &Node{
		settings: s, view: &member.View{}, rules: table.Texts{},
		holders: table.New[*holder](s.Keys, s.Seed), ledgers: table.New[*ledger](s.Keys, s.Seed),
		backups: table.New[*backup](s.Keys, s.Seed),
		windows: map[sender]*window{},
	}, nil
}

// View tells what the node's process knows of the members.
func (n *Node) View(now weir.Instant, v *member.View, fx *Effects) {
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
	n.ledgers.Looked, n.backups.Looked, n.waits = 0, 0, false
	n.hand(now, fx)
}

// Ask decides about a request. The answer may come with a later effect.
func (n *Node) Ask(now weir.Instant, r *Request, fx *Effects) {
	h := n.holder(now, r)
	if h == nil || r.Cost < 1 || r.Cost > weir.MaxCount {
		fx.answer(r.ID, weir.Decision{Cost: r.Cost, RetryAfter: table.MaxDeny})
		return
	}
	before := len(fx.Messages)
	h.take(now, r, fx)
	n.settle(now, h, before, fx)
}

// Spend answers a request as Ask does, if a lease that is held covers it. Else it does
// nothing, and is false. hash is that of its key.
func (n *Node) Spend(now weir.Instant, hash uint64, r *Request, d *weir.Decision, fx *Effects) bool {
	h, ok := n.holders.Find(hash, r.State)
	if !ok || !n.knows(h, r) {
		return false
	}
	if n.prolong(now, h); !h.covers(now, r.Cost) {
		return false
	}
	before := len(fx.Messages)
	if h.spend(now, r, d, fx); len(fx.Messages) > before {
		n.settle(now, h, before, fx)
	}
	return true
}

// Covers is whether Spend would answer the request now.
func (n *Node) Covers(now weir.Instant, hash uint64, r *Request) bool {
	h, ok := n.holders.Find(hash, r.State)
	if !ok || !n.knows(h, r) {
		return false
	}
	n.prolong(now, h)
	return h.covers(now, r.Cost)
}

// Expect notes a request that is not for this node to decide, and asks the owner for a
// lease ahead where one would be used.
func (n *Node) Expect(now weir.Instant, r *Request, fx *Effects) {
	h := n.holder(now, r)
	if h == nil || r.Cost < 1 || r.Cost > weir.MaxCount {
		return
	}
	before := len(fx.Messages)
	h.notice(now, r)
	h.renew(now, fx)
	n.settle(now, h, before, fx)
}

// Receive hears a message of a peer. One that no node would send does nothing.
func (n *Node) Receive(now weir.Instant, peer string, m *Message, fx *Effects) {
	if !m.sound() {
		return
	}
	switch m.Kind {
	case Grant:
		if h, ok := n.holders.Get(m.State); ok && h.place.owner == peer && m.Incarnation == n.settings.Incarnation {
			h.receive(now, m, fx)
			n.settle(now, h, 0, fx)
		}
	case Handoff:
		if n.view.Has(peer) {
			n.accept(now, peer, m, fx)
		}
	case Taken:
		n.taken(now, peer, m, fx)
	case Backup:
		n.keep(now, peer, m, fx)
	case Stored:
		n.stored(now, peer, m, fx)
	default:
		if answer, ok := n.serve(now, peer, m, fx); ok {
			fx.send(peer, answer)
		}
	}
}

// Next is when Tick is to be called, if nothing happens before; ok is false if never.
func (n *Node) Next() (at weir.Instant, ok bool) {
	if len(n.timers) > 0 {
		at, ok = n.timers[0].timed, true
	}
	if n.handing > 0 && (!ok || n.handing < at) {
		at, ok = n.handing, true
	}
	return at, ok
}

// Tick does what is due. To call it early does nothing; late, it is done late.
func (n *Node) Tick(now weir.Instant, fx *Effects) {
	if n.handing > 0 && now >= n.handing {
		n.hand(now, fx)
	}
	for len(n.timers) > 0 && n.timers[0].timed <= now {
		h := heap.Pop(&n.timers).(*holder)
		h.timed = 0
		n.follow(now, h)
		before := len(fx.Messages)
		if h.due != 0 && h.due <= now {
			h.tick(now, fx)
		}
		n.settle(now, h, before, fx)
	}
}

// settle delivers what h has sent to its own node, from the message numbered first,
// and sees to its timer.
func (n *Node) settle(now weir.Instant, h *holder, first int, fx *Effects) {
	for i := first; i < len(fx.Messages); {
		if fx.Messages[i].Peer != n.settings.Name {
			i++
			continue
		}
		m := fx.Messages[i].Message
		fx.Messages = slices.Delete(fx.Messages, i, i+1)
		if answer, ok := n.serve(now, n.settings.Name, &m, fx); ok {
			h.receive(now, &answer, fx)
		}
	}
	switch {
	case h.due == 0:
	case h.timed == 0:
		h.timed = h.due
		heap.Push(&n.timers, h)
	case h.due < h.timed:
		h.timed = h.due
		heap.Fix(&n.timers, h.slot)
	}
}

// holder is what the node keeps of a key that it is asked about, or nil if it can
// keep no more, or nodes can't share its limit.
func (n *Node) holder(now weir.Instant, r *Request) *holder {
	h, ok := n.holders.Get(r.State)
	if ok && n.knows(h, r) {
		n.follow(now, h)
		return h
	}
	if Unfit(r.Limit) != "" || max(len(r.State.Rule), len(r.State.Key)) > frame.MaxText {
		return nil
	}
	if !ok {
		if !n.holders.Room(now) {
			return nil
		}
		key := weir.StateKey{Rule: n.rules.Clone(r.State.Rule), Key: strings.Clone(r.State.Key)}
		x := &struct { // side by side: a decision reads both
			row table.Row[*holder]
			of  holder
		}{of: holder{state: key, incarnation: n.settings.Incarnation, asks: &n.asks}}
		h = &x.of
		x.row.Key, x.row.Of = key, h
		n.holders.Put(&x.row)
	}
	h.become(r.Limit)
	n.follow(now, h)
	return h
}

// knows is whether h is of the request's limit, and of the view.
func (n *Node) knows(h *holder, r *Request) bool {
	return h.limit == r.Limit && h.place.version == n.view.Version
}

// follow sees whom h is to ask, and how far that is.
func (n *Node) follow(now weir.Instant, h *holder) {
	if h.place.version != n.view.Version {
		p := n.view.Place(now, h.state, nil)
		h.follow(asked{version: p.Version, owner: p.Owner, first: p.First, most: p.Most, own: p.Owner == n.settings.Name})
	}
	h.place.far = n.far[h.place.owner]
	n.prolong(now, h)
}

// serve hears, as owner, what a holder says.
func (n *Node) serve(now weir.Instant, peer string, m *Message, fx *Effects) (answer Message, ok bool) {
	if !n.view.Has(peer) {
		return Message{}, false
	}
	if m.Epoch != n.settings.Incarnation {
		m.Lease = 0 // of an earlier process
	}
	g, ok := n.ledgers.Get(m.State)
	if m.Kind == Release {
		if ok {
			g.expire(now, n.view)
			g.report(now, peer, m)
		}
		return Message{}, false
	}
	limit := n.limit(m.Limit)
	if limit == nil || Unfit(limit) != "" {
		return Message{}, false
	}
	if !ok {
		g = n.open(now, m.State, limit, m.Policy)
	}
	if g == nil && n.view.Passing() && n.ledgers.Room(now) {
		return Message{}, false // until it is asked again it may know more; what the ask reports comes again, too
	}
	if g == nil { // it knows of no events that it could grant
		return Message{Kind: Grant, State: m.State, Incarnation: m.Incarnation, ID: m.ID, Wait: member.Pulse}, true
	}
	g.become(now, n.view, limit)
	n.see(now, m.State, g, m.Policy)
	if g.may.part == 0 && n.view.Passing() {
		return Message{}, false
	}
	n.owes(now, m.State, g) // where its limit has just become a slow one
	if n.holds(now, peer, m, g, fx) {
		return Message{}, false
	}
	if answer, ok = g.ask(now, n.view, peer, m, n.leases+1); ok {
		n.leases = max(n.leases, answer.Lease)
		answer.Epoch = n.settings.Incarnation
		if answer.Wait > 0 {
			n.recall(now, m.State, g, fx)
		}
	}
	return answer, ok
}

// worthy is how long a limit that is taken for used recovers at most, so that it is done
// while members change.
const worthy = time.Second

// open is a ledger for a key that has none, nil where this node may grant nothing of it
// or keep no more.
func (n *Node) open(now weir.Instant, key weir.StateKey, l *weir.Limit, policy Policy) *ledger {
	if n.sends(key) {
		return nil // it is not known yet whether the next owner has it
	}
	used, guess := used(now, n.view, key, l, policy)
	g := newLedger(l, used)
	if _, recovers := l.Standing(g.kept.State, now); guess && recovers > worthy {
		return nil // soon more will be known of it, and a guess would stay for long
	}
	g.policy, g.born = policy, now
	if n.view.Converged() && now < n.view.Sure || n.view.Delivered && g.forgives() {
		g.known = n.view.Lost.Of(g.forgives())
	}
	n.stand(now, key, g)
	if n.entitlement(now, g).part == 0 || !n.ledgers.Room(now) {
		return nil
	}
	n.ledgers.Add(key, g)
	return g
}

// see brings a ledger up to date with the view, and with the policy that is asked by.
func (n *Node) see(now weir.Instant, key weir.StateKey, g *ledger, policy Policy) {
	g.expire(now, n.view)
	if g.policy != policy {
		g.policy, g.place.Version = policy, 0
	}
	n.stand(now, key, g)
	if g.enter(now, n.entitlement(now, g)); !g.may.whole() {
		g.partial = now
	}
}

// stand sees what this node is to the key of a ledger.
func (n *Node) stand(now weir.Instant, key weir.StateKey, g *ledger) {
	g.settled(now, n.view)
	if g.place.Version == n.view.Version && (g.first || g.owns == 0 || now < g.owns) && g.waits == 0 {
		return
	}
	p := n.view.Place(now, key, g.released)
	first := g.first && g.policy.owns(&p)
	votes, all := n.view.Unbroken(&p, &g.place)
	had := g.worthOf(entitled(g.policy, votes, all, first))
	if g.less(&p) || n.view.Leaving || g.first && !first {
		g.lose(now, n.view)
	}
	g.stand(now, n.view, p, had)
}

// entitlement is how much of its limit a ledger may grant.
func (n *Node) entitlement(now weir.Instant, g *ledger) entitlement {
	votes := n.view.Count
	if now >= n.view.Sure || !g.place.Owns {
		votes = n.view.Votes(now, &g.place)
	}
	if o := &g.adopted; o.from != "" && !o.all {
		if o.all = n.view.Delivered || n.view.Converged(); !o.all {
			return entitlement{0, 1} // a newer backup may come
		}
	}
	most := now < n.view.Quorum || g.policy == Open
	e := entitled(g.policy, votes, n.view.Count, n.view.Voting && g.first && most)
	if g.waits > 0 && g.has.less(e) {
		return g.has
	}
	return e
}

// timers is a heap of holders by when they have something to do, the first on top.
type timers []*holder

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].timed < t[j].timed }

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].slot, t[j].slot = i, j
}

func (t *timers) Push(x any) {
	h := x.(*holder)
	h.slot = len(*t)
	*t = append(*t, h)
}

func (t *timers) Pop() any {
	last := len(*t) - 1
	h := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	return h
}
