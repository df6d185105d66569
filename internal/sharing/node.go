package sharing

import (
	"container/heap"
	"errors"
	"slices"
	"strings"

	"github.com/weir-limit/weir"
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
}

// Node is one of the nodes that share limits. Its methods are told the time of one
// clock, which never goes back and goes on while the machine sleeps. They are not
// for several goroutines at once.
type Node struct {
	settings Settings
	members  []string
	view     uint64       // counts the views
	began    weir.Instant // before, this node grants nothing
	founded  bool         // nobody shared limits before
	since    weir.Instant // the latest of all ledgers, also of those that are forgotten
	leases   uint64       // given so far
	asks     uint64       // sent so far
	holders  table[*holder]
	ledgers  table[*ledger]
	limits   limits
	timers   timers
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

// NewNode is a node that starts now. It has forgotten what an earlier process of its
// name has granted, so it grants nothing until all such leases are over. It denies
// all until View has told it who shares.
func NewNode(now weir.Instant, s Settings) (*Node, error) {
	if s.Name == "" || s.Keys < 1 {
		return nil, errors.New("a node needs a name, and a bound for its keys")
	}
	return &Node{
		settings: s, began: now + micros(Life+Margin), limits: newLimits(),
		holders: newTable[*holder](s.Keys), ledgers: newTable[*ledger](s.Keys),
	}, nil
}

// View tells who shares, in any order, this node among them. One that is not among
// them owns nothing. Members beyond MaxMembers, by their names, don't count.
func (n *Node) View(now weir.Instant, members []Member, fx *Effects) {
	names := make([]string, 0, len(members))
	for i := range members {
		names = append(names, members[i].Name)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	names = names[:min(len(names), MaxMembers)]
	if slices.Equal(names, n.members) {
		return
	}
	if n.members != nil {
		n.began = max(n.began, now+micros(Life+Margin))
	}
	n.members, n.view = names, n.view+1
}

// Ask decides about a request. The answer may come with a later effect.
func (n *Node) Ask(now weir.Instant, r *Request, fx *Effects) {
	h := n.holder(now, r)
	if h == nil || r.Cost < 1 || r.Cost > weir.MaxCount {
		fx.answer(r.ID, weir.Decision{Cost: r.Cost, RetryAfter: MaxDeny})
		return
	}
	before := len(fx.Messages)
	h.take(now, r, fx)
	n.settle(now, h, before, fx)
}

// Receive hears a message of a peer. One that no node would send does nothing.
func (n *Node) Receive(now weir.Instant, peer string, m *Message, fx *Effects) {
	if !m.sound() {
		return
	}
	if m.Kind == Grant {
		if h, ok := n.holders.get(m.State); ok && h.owner == peer && m.Incarnation == n.settings.Incarnation {
			h.receive(now, m, fx)
			n.settle(now, h, 0, fx)
		}
		return
	}
	if answer, ok := n.serve(now, peer, m); ok {
		fx.send(peer, answer)
	}
}

// Next is when Tick is to be called, if nothing happens before; ok is false if never.
func (n *Node) Next() (at weir.Instant, ok bool) {
	if len(n.timers) == 0 {
		return 0, false
	}
	return n.timers[0].at, true
}

// Tick does what is due. To call it early does nothing; late, it is done late.
func (n *Node) Tick(now weir.Instant, fx *Effects) {
	for len(n.timers) > 0 && n.timers[0].at <= now {
		h := heap.Pop(&n.timers).(timer).holder
		h.timed = 0
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
		if answer, ok := n.serve(now, n.settings.Name, &m); ok {
			h.receive(now, &answer, fx)
		}
	}
	if h.due != 0 && (h.timed == 0 || h.due < h.timed) {
		h.timed = h.due
		heap.Push(&n.timers, timer{h.due, h})
	}
}

// holder is what the node keeps of a key that it is asked about, or nil if it can
// keep no more, or nodes can't share its limit.
func (n *Node) holder(now weir.Instant, r *Request) *holder {
	h, ok := n.holders.get(r.State)
	if ok && h.limit == r.Limit && h.view == n.view {
		return h
	}
	if len(n.members) == 0 || Unfit(r.Limit) != "" || max(len(r.State.Rule), len(r.State.Key)) > MaxText {
		return nil
	}
	if !ok {
		if !n.holders.room(now) {
			return nil
		}
		key := weir.StateKey{Rule: strings.Clone(r.State.Rule), Key: strings.Clone(r.State.Key)}
		h = &holder{state: key, incarnation: n.settings.Incarnation, asks: &n.asks}
		n.holders.add(key, h)
	}
	h.become(r.Limit)
	h.follow(Owner(h.state, n.members), n.view)
	return h
}

// serve hears, as owner, what a holder says. Asks for what another node owns, or
// before all leases of an earlier process are over, get no answer.
func (n *Node) serve(now weir.Instant, peer string, m *Message) (answer Message, ok bool) {
	if now < n.began {
		return Message{}, false
	}
	if _, ok := slices.BinarySearch(n.members, peer); !ok {
		return Message{}, false
	}
	if m.Epoch != n.settings.Incarnation {
		m.Lease = 0 // of an earlier process
	}
	g := n.ledger(now, m)
	if g == nil {
		return Message{}, false
	}
	if m.Kind == Release {
		g.expire(now)
		g.report(now, peer, m)
		return Message{}, false
	}
	if answer, ok = g.ask(now, peer, m, n.leases+1); ok {
		n.leases = max(n.leases, answer.Lease)
		answer.Epoch = n.settings.Incarnation
	}
	return answer, ok
}

// ledger is what the node keeps of a key that it owns, nil if another does.
func (n *Node) ledger(now weir.Instant, m *Message) *ledger {
	g, ok := n.ledgers.get(m.State)
	if m.Kind == Release {
		return g
	}
	if ok && g.limit.String() == m.Limit && g.view == n.view {
		return g
	}
	limit := n.limits.parse(m.Limit)
	if limit == nil || Unfit(limit) != "" || Owner(m.State, n.members) != n.settings.Name {
		return nil
	}
	if !ok {
		if !n.ledgers.room(now) {
			return nil
		}
		g = n.newLedger(limit)
		n.ledgers.add(m.State, g)
	}
	g.become(now, limit)
	n.since = max(n.since, g.since)
	g.view = n.view
	return g
}

// newLedger is a ledger of a key that nothing is known of. Receipts that may be of an
// earlier one give nothing back.
func (n *Node) newLedger(l *weir.Limit) *ledger {
	if n.founded {
		return &ledger{limit: l, since: n.since}
	}
	g := newLedger(l, n.began)
	g.since = max(n.since, n.began)
	return g
}

// timer is when a holder has something to do.
type timer struct {
	at     weir.Instant
	holder *holder
}

// timers is a heap, the first on top.
type timers []timer

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at < t[j].at }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	last := len(*t) - 1
	x := (*t)[last]
	*t = (*t)[:last]
	return x
}
