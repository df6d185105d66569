// Package virtual runs clusters of the nodes of packages lease and counter in one goroutine, in
// virtual time: on a network that takes time, loses, doubles, reorders and is cut,
// with clocks that drift, and nodes that stand still or are killed. All chance comes
// from a seed.
package virtual

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/counter"
	"github.com/weir-limit/weir/internal/cluster/lease"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// Network says how messages travel. The zero Network takes no time, and loses none.
type Network struct {
	Delay  time.Duration // messages take up to this, at least half
	Loss   int           // of a thousand
	Double int           // of a thousand that come twice
	Drift  int           // clocks run so many millionths too fast or slow, at most
	Skew   time.Duration // clocks are up to this ahead of the true time
}

// Settings say what a cluster is.
type Settings struct {
	Seed    uint64
	Nodes   int // 1…member.MaxMembers
	Sharing weir.Sharing
	Keys    int // of each node
	Network Network
	// Heartbeats lets nodes with owners tell each other that they live, as they must where
	// something is cut, stands still or is killed. Else they all reach each other always.
	Heartbeats bool
	// Forge makes of a message to a replica what arrives in its place: tests show by it that they find what is
	// wrong. Nil: itself.
	Forge func(to string, message []byte) []byte
	// LogRate is how many entries a second the log of bounds.Log takes; 0: any number.
	LogRate int
}

// Stats are counters of a cluster.
type Stats struct {
	Messages, Bytes int64 // sent, whether they arrived or not; without heartbeats
	Heartbeats      int64
	Crashes         int64
	Lag             weir.Instant // the longest from an event until all nodes knew it, with a log
}

// Cluster is the nodes and what is between them. Its methods are told a time that
// never goes back.
type Cluster struct {
	Stats

	settings Settings
	random   *rand.Rand
	machines []*machine
	numbers  map[string]int
	cuts     [][]weir.Instant // [from][to]: nothing arrives until then
	events   events
	seq      uint64
	posts    []counter.Post
	fx       protocol.Effects
	beats    []member.HeartbeatTo
	waiting  map[uint64]func(weir.Instant, weir.Decision)
	asked    uint64
	faulty   bool // somebody may be silent
	log      log
}

// machine is a node and what is around it.
type machine struct {
	name        string
	node        *lease.Node      // with owners
	peers       *member.Peers    // of node, with Settings.Heartbeats
	view        *member.View     // that node has
	replica     *counter.Replica // else
	offset, ppm int64
	incarnation uint64
	away        weir.Instant // until then it stands still
	timer       weir.Instant // the earliest that is set; 0: none
	silent      []bool       // whom it does not hear
	heard       []weir.Instant
	reader      reader // of the log
}

// New is a cluster whose nodes start now.
func New(now weir.Instant, s Settings) (*Cluster, error) {
	c := &Cluster{
		settings: s, random: rand.New(rand.NewPCG(s.Seed, 3)), numbers: map[string]int{},
		waiting: map[uint64]func(weir.Instant, weir.Decision){},
	}
	for i := range s.Nodes {
		name := fmt.Sprintf("node%d", i)
		c.numbers[name] = i
		c.cuts = append(c.cuts, make([]weir.Instant, s.Nodes))
		m := &machine{name: name, silent: make([]bool, s.Nodes), heard: make([]weir.Instant, s.Nodes)}
		m.offset = c.random.Int64N(s.Network.Skew.Microseconds() + 1)
		m.ppm = int64(c.random.IntN(2*s.Network.Drift+1) - s.Network.Drift)
		c.machines = append(c.machines, m)
	}
	for i := range c.machines {
		if err := c.start(now, i); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// start starts the i-th node, which knows nothing.
func (c *Cluster) start(now weir.Instant, i int) (err error) {
	m := c.machines[i]
	m.incarnation++
	m.timer, m.away = 0, 0
	for j := range m.heard {
		m.heard[j], m.silent[j] = now, false
	}
	switch c.settings.Sharing {
	case weir.SharingMesh, weir.SharingGossip, weir.SharingHub, weir.SharingDivided, bounds.Log:
		m.replica, err = counter.New(m.clock(now), counter.Settings{
			Name: m.name, Incarnation: m.incarnation, Sharing: c.settings.Sharing, Keys: c.settings.Keys,
		})
	default:
		m.node, err = lease.NewNode(lease.Settings{Name: m.name, Incarnation: m.incarnation, Keys: c.settings.Keys})
	}
	if err != nil {
		return fmt.Errorf("start node %d: %w", i, err)
	}
	switch {
	case c.settings.Sharing == bounds.Log:
		c.beat(now, i, m.incarnation)
		return nil
	case m.replica != nil:
		c.view(now, i)
		return nil
	}
	var members []member.Member
	for _, other := range c.machines {
		members = append(members, member.Member{Name: other.name, Incarnation: max(other.incarnation, 1)})
	}
	if !c.settings.Heartbeats {
		m.node.View(m.clock(now), member.Together(m.name, members), &c.fx)
		return nil
	}
	m.peers, m.view = member.NewPeers(m.clock(now), m.name, m.incarnation), nil
	m.peers.Agree(m.clock(now), members, &c.beats)
	c.settle(now, i)
	c.pulse(now, i, m.peers)
	return nil
}

// pulse lets a node tell the others that it lives, and again when it wants.
func (c *Cluster) pulse(now weir.Instant, i int, peers *member.Peers) {
	m := c.machines[i]
	if m.peers != peers {
		return // killed meanwhile
	}
	peers.Tick(m.clock(now), m.node.Moving(), m.node.Saved(), &c.beats)
	c.settle(now, i)
	c.at(m.when(peers.Next(), now), i, func(now weir.Instant) { c.pulse(now, i, peers) })
}

// view tells a replica who its members are.
func (c *Cluster) view(now weir.Instant, i int) {
	m := c.machines[i]
	var members []member.Presence
	open := member.OpenTo(i, len(c.machines), func(by int) (deaf []int) {
		for of, silent := range c.machines[by].silent {
			if silent {
				deaf = append(deaf, of)
			}
		}
		return deaf
	})
	for j, other := range c.machines {
		members = append(members, member.Presence{Name: other.name, Silent: m.silent[j], Open: open[j]})
	}
	m.replica.View(m.clock(now), members)
	c.settle(now, i)
}

// clock is the machine's time at a true time.
func (m *machine) clock(now weir.Instant) weir.Instant {
	return now + weir.Instant(m.offset+int64(now)/1_000_000*m.ppm)
}

// when is the first true time at which the machine's clock shows at least at.
func (m *machine) when(at, now weir.Instant) weir.Instant {
	t := max(now+(at-m.clock(now)), now)
	for m.clock(t) < at {
		t += at - m.clock(t)
	}
	return t
}

// Ask asks a node. answered is called at once or later, when its answer is known; a
// node that is killed or stands still never answers.
func (c *Cluster) Ask(now weir.Instant, node int, a *weir.Ask, answered func(weir.Instant, weir.Decision)) {
	m := c.machines[node]
	if m.away > now {
		return
	}
	if m.replica != nil {
		var out [1]weir.Decision
		if m.reader.lag(now) > bounds.LogMost {
			answered(now, weir.Decision{Outcome: weir.Denied, RetryAfter: bounds.LogBeat}) // fallback: closed
			return
		}
		m.replica.Take(m.clock(now), []weir.Ask{*a}, out[:])
		answered(now, out[0])
		c.settle(now, node)
		return
	}
	state := a.State
	if a.Policy.Sharing == weir.SharingLeader {
		state = member.Led(state, a.Policy.Leaders)
	}
	c.asked++
	c.waiting[c.asked] = answered
	m.node.Ask(m.clock(now), &protocol.Request{
		ID: c.asked, State: state, Limit: a.Limit, Cost: a.Cost, Policy: protocol.PolicyOf(a.Policy.Partition), Sticky: a.Policy.Sharing == weir.SharingSticky,
	}, &c.fx)
	c.settle(now, node)
}

// Until lets happen what happens until now.
func (c *Cluster) Until(now weir.Instant) {
	for len(c.events) > 0 && c.events[0].at <= now {
		e := heap.Pop(&c.events).(event)
		if e.to >= 0 && c.machines[e.to].away > e.at {
			c.at(c.machines[e.to].away, e.to, e.do)
			continue
		}
		e.do(e.at)
	}
}

// At does something at a time.
func (c *Cluster) At(at weir.Instant, do func(now weir.Instant)) { c.at(at, -1, do) }

func (c *Cluster) at(at weir.Instant, to int, do func(weir.Instant)) {
	c.seq++
	heap.Push(&c.events, event{at: at, seq: c.seq, to: to, do: do})
}

// settle sends what the i-th node wants sent, and sets its timer.
func (c *Cluster) settle(now weir.Instant, i int) {
	m := c.machines[i]
	if m.peers != nil && m.peers.View() != m.view {
		m.view = m.peers.View()
		m.node.View(m.clock(now), m.view, &c.fx)
	}
	for _, a := range c.fx.Answers {
		if answered := c.waiting[a.ID]; answered != nil {
			delete(c.waiting, a.ID)
			answered(now, a.Decision)
		}
	}
	for _, e := range c.fx.Messages {
		to, message := c.numbers[e.Peer], e.Message
		c.Messages++
		c.Bytes += int64(len(message.Append(nil)))
		c.send(now, i, to, func(now weir.Instant) {
			c.machines[to].node.Receive(c.machines[to].clock(now), m.name, &message, &c.fx)
		})
	}
	for _, b := range c.beats {
		to, heartbeat := c.numbers[b.Peer], b.Heartbeat
		c.Heartbeats++
		c.send(now, i, to, func(now weir.Instant) {
			c.machines[to].peers.Receive(c.machines[to].clock(now), m.name, &heartbeat)
		})
	}
	c.fx.Answers, c.fx.Messages, c.beats = c.fx.Answers[:0], c.fx.Messages[:0], c.beats[:0]
	for _, post := range c.posts {
		for _, peer := range post.Peers {
			to, message := c.numbers[peer], post.Message
			if c.settings.Forge != nil {
				message = c.settings.Forge(peer, message)
			}
			c.Messages++
			c.Bytes += int64(len(message))
			c.send(now, i, to, func(now weir.Instant) {
				// The node drops a bad message, as a daemon would.
				_ = c.machines[to].replica.Receive(c.machines[to].clock(now), m.name, message, &c.posts)
			})
		}
	}
	c.posts = c.posts[:0]
	if c.settings.Sharing == bounds.Log {
		c.gather(now, i)
		return
	}
	c.set(now, i)
}

// set sets the timer of the i-th node.
func (c *Cluster) set(now weir.Instant, i int) {
	m := c.machines[i]
	at, ok := m.next()
	if !ok {
		return
	}
	when := m.when(at, now)
	if m.timer != 0 && m.timer <= when {
		return
	}
	m.timer = when
	incarnation := m.incarnation
	c.at(when, i, func(now weir.Instant) {
		if m.incarnation != incarnation || m.timer != when {
			return // killed, or woken sooner
		}
		m.timer = 0
		if m.replica != nil {
			m.replica.Tick(m.clock(now), &c.posts)
		} else {
			m.node.Tick(m.clock(now), &c.fx)
		}
		c.settle(now, i)
	})
}

func (m *machine) next() (weir.Instant, bool) {
	if m.replica != nil {
		return m.replica.Next()
	}
	return m.node.Next()
}

// send sends a message; hear takes it in, at the other end.
func (c *Cluster) send(now weir.Instant, from, to int, hear func(now weir.Instant)) {
	n, copies := &c.settings.Network, 1
	switch chance := c.random.IntN(1000); {
	case chance < n.Loss || c.cuts[from][to] > now:
		copies = 0
	case c.random.IntN(1000) < n.Double:
		copies = 2
	}
	for range copies {
		c.at(now+c.travels(), to, func(now weir.Instant) {
			hear(now)
			c.settle(now, to)
		})
	}
}

type event struct {
	at  weir.Instant
	seq uint64
	to  int // the node that it happens to, when it does not stand still; −1: none
	do  func(now weir.Instant)
}

// events is a heap, the first on top.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}
