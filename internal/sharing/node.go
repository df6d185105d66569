package sharing

import (
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

// Settings say what a node is.
type Settings struct {
	// Name is the node's, one of Members.
	Name string
	// Members are all that share, in the same order on each; at most MaxMembers.
	Members []string
	// Incarnation is more than that of every process that had the name before.
	Incarnation uint64
	// Keys is how many keys a node asks about, and how many it owns, at a time.
	// Requests for more are denied. At least 1.
	Keys int
	// Limit is the limit of a rule, nil if there is none or it is Unfit.
	Limit func(rule string) *weir.Limit
}

// MaxMembers is the largest number of nodes that share.
const MaxMembers = 1024

// Node is one of the nodes that share limits. Its methods are told the time of one
// clock, which never goes back and goes on while the machine sleeps. They are not
// for several goroutines at once.
type Node struct {
	settings Settings
	began    weir.Instant // before, this node grants nothing
	leases   uint64       // given so far
	asks     uint64       // sent so far
	holders  table[*holder]
	ledgers  table[*ledger]
	timers   timers
}

// Answer is the decision about a request. One that is not Allowed may come again in
// RetryAfter.
type Answer struct {
	ID         uint64
	Allowed    bool
	RetryAfter time.Duration
}

// Effects is what a node wants done: requests answered and messages sent. The caller
// empties it.
type Effects struct {
	Answers  []Answer
	Messages []Envelope
}

func (fx *Effects) answer(id uint64, allowed bool, after time.Duration) {
	fx.Answers = append(fx.Answers, Answer{id, allowed, after})
}

func (fx *Effects) send(to string, m Message) {
	fx.Messages = append(fx.Messages, Envelope{to, m})
}

// NewNode is a node that starts now. It has forgotten what an earlier process of its
// name has granted, so it grants nothing until all such leases are over.
func NewNode(now weir.Instant, s Settings) (*Node, error) {
	switch {
	case !slices.Contains(s.Members, s.Name):
		return nil, fmt.Errorf("node %q is not among the members %q; add it", s.Name, s.Members)
	case len(s.Members) > MaxMembers:
		return nil, fmt.Errorf("%d members are more than %d; take redis://", len(s.Members), MaxMembers)
	case s.Keys < 1 || s.Limit == nil:
		return nil, errors.New("a node needs a bound for its keys, and limits")
	}
	return &Node{
		settings: s, began: now + micros(Life+Margin),
		holders: newTable[*holder](s.Keys), ledgers: newTable[*ledger](s.Keys),
	}, nil
}

// Ask decides about a request, whose id tells it from all that wait. The answer may
// come with a later effect.
func (n *Node) Ask(now weir.Instant, id uint64, key weir.StateKey, cost int64, fx *Effects) {
	h := n.holder(now, key)
	if h == nil || cost < 1 || cost > weir.MaxCount {
		fx.answer(id, false, MaxDeny)
		return
	}
	before := len(fx.Messages)
	h.take(now, id, cost, fx)
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
// keep no more, or the key has no limit.
func (n *Node) holder(now weir.Instant, key weir.StateKey) *holder {
	if h, ok := n.holders.get(key); ok {
		return h
	}
	limit := n.settings.Limit(key.Rule)
	if limit == nil || max(len(key.Rule), len(key.Key)) > MaxText || !n.holders.room(now) {
		return nil
	}
	h := &holder{
		state: key, limit: limit, pace: pace(limit), incarnation: n.settings.Incarnation, asks: &n.asks,
		owner: Owner(key, n.settings.Members),
	}
	all, _ := limit.Standing(nil, now)
	h.tight = all <= h.pace
	n.holders.add(key, h)
	return h
}

// serve hears, as owner, what a holder says. Asks for what another node owns, or
// before all leases of an earlier process are over, get no answer.
func (n *Node) serve(now weir.Instant, peer string, m *Message) (answer Message, ok bool) {
	from := slices.Index(n.settings.Members, peer)
	if from < 0 || now < n.began {
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
		g.report(now, from, m)
		return Message{}, false
	}
	if answer, ok = g.ask(now, from, m, n.leases+1); ok {
		n.leases = max(n.leases, answer.Lease)
		answer.Epoch = n.settings.Incarnation
	}
	return answer, ok
}

func (n *Node) ledger(now weir.Instant, m *Message) *ledger {
	if g, ok := n.ledgers.get(m.State); ok {
		return g
	}
	limit := n.settings.Limit(m.State.Rule)
	if m.Kind != Ask || limit == nil || Owner(m.State, n.settings.Members) != n.settings.Name || !n.ledgers.room(now) {
		return nil
	}
	g := newLedger(limit, n.began, len(n.settings.Members))
	n.ledgers.add(m.State, g)
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
