// Package simulation runs whole clusters of the nodes of packages lease and counter in one goroutine,
// in virtual time: on a network that loses, doubles, delays, reorders and cuts, with clocks that drift and
// processes that are paused and killed, join and leave. All of it follows from a seed, so a run that found
// something is found again.
//
// New is a cluster that its caller asks. Run asks one by itself, and audits what passes.
package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/counter"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/rank"
)

// Settings say what is simulated.
type Settings struct {
	Seed     uint64
	Nodes    int
	Spare    int          // machines beside these, which may join
	Sharing  weir.Sharing // empty: by leases
	Shards   int          // nodes of each process, among which it divides the keys by a rule of its own; 0: 1
	Keys     int          // that are asked about; 0: 1
	Together bool         // all reach each other always, so they send no heartbeats
	Found    bool         // no process was there before the first ones
	Faults   Faults
	Parts    []Part
	Acts     []Act
	// Fence is how long a process by the name of another that may live has no vote.
	Fence time.Duration
	// Remember is whether processes keep a list of the members, by which the next one of their name begins.
	Remember bool
	GiveUp   time.Duration // who is not reached for so long is taken for gone by most of the others; 0: never
	Links    bool          // each direction of each link goes on and off by itself
	Gossip   bool          // who the members are is told from one to another, as links allow
	Look     bool          // it looks who is the first of each key
	Mutant   Mutant
	// Forge makes of a message between replicas what arrives in its place: tests show by it that they find what
	// is wrong. Nil: itself.
	Forge   func(from, to string, message []byte) []byte
	LogRate int // how many entries a second the log of bounds.Log takes; 0: any number

	// The others are of Run.

	Limit   *weir.Limit
	Policy  protocol.Policy
	Leaders int           // that have the keys, in place of an owner for each; 0: none
	Load    int64         // events asked for per event that passes at the limit's pace, of each key
	Cost    int64         // requests cost from 1 to this; 0: 1
	Wave    time.Duration // Load for so long, then a fifth of the pace for as long, by turns; 0: always Load
	Rest    time.Duration // with Wave: a twentieth of the pace, and for so long
	Turn    time.Duration // one key is asked about for so long, then the next; 0: all are, always
	Skewed  bool          // some nodes get more than others, in each wave others
	For     time.Duration
	Where   func(since time.Duration) int // who gets the request of a time, -1: there is none; nil: any
	Calm    time.Duration                 // in the end, nothing goes wrong for so long
}

// Stats are counters of a cluster.
type Stats struct {
	Messages   int64 // sent, whether they arrived or not; without heartbeats
	Bytes      int64 // of them, not of Run
	Heartbeats int64
	Crashes    int64        // processes that were killed, and others started
	Lag        weir.Instant // the longest from an event until all nodes knew it, with a log
	Price      int64        // how many events beyond the limit may be what was let pass by processes that were killed while they were cut off (I20)

	Looks, Led  int64  // how often it looked who is the first of a key, and there was one
	Firsts      int64  // there were two
	FirstFirsts string // which these were the first time
}

// Cluster is the nodes and what is between them. Its methods are told a time that
// never goes back.
type Cluster struct {
	Settings
	Stats

	random   *rand.Rand
	began    weir.Instant
	end      weir.Instant // of Run
	machines []*machine
	numbers  []int                        // of machines, by the numbers in the names that they have
	far      map[string]protocol.Distance // each way takes half of that, on the mean
	network  network
	cut      [][]weir.Instant // [from][to]: nothing arrives until then
	links    links
	events   events
	letters  []*letter // that have arrived
	fx       protocol.Effects
	beats    []member.HeartbeatTo
	posts    []counter.Post
	waiting  []func(weir.Instant, weir.Decision) // by the numbers of requests
	free     []uint64                            // numbers of requests that have been answered
	fills    uint64                              // messages that fill has made
	faulty   bool                                // a replica may be silent
	busy     weir.Instant                        // until then the log takes the entries that have come
}

// New is a cluster whose processes start now. Its network takes up to Faults.Delay, and at least half of that.
func New(now weir.Instant, s Settings) (*Cluster, error) {
	delay := weir.Instant(s.Faults.Delay / time.Microsecond)
	return newCluster(now, s, rand.New(rand.NewPCG(s.Seed, 3)), 1, network{
		least: delay / 2, most: delay, loss: s.Faults.Loss, double: s.Faults.Double, weighs: true,
	})
}

// newCluster has clocks that are up to skew microseconds ahead; 0: they agree.
func newCluster(now weir.Instant, s Settings, random *rand.Rand, skew int64, n network) (*Cluster, error) {
	s.Keys = max(s.Keys, 1)
	c := &Cluster{
		Settings: s, random: random, began: now, end: now + weir.Instant(cmp.Or(s.For, 1<<62)/time.Microsecond), network: n,
		far: map[string]protocol.Distance{},
	}
	all := s.Nodes + s.Spare
	for i := range all {
		m := &machine{
			name: fmt.Sprintf("node%d", i), member: i < s.Nodes, own: known{int(count(i < s.Nodes)), 1},
			heard: make([]weir.Instant, all), lost: make([]bool, all), alone: map[weir.StateKey]weir.Instant{},
		}
		c.numbers, c.far[m.name] = append(c.numbers, i), protocol.Distance(s.Faults.Delay)
		c.cut = append(c.cut, make([]weir.Instant, all))
		if skew > 0 {
			m.offset = random.Int64N(skew)
			m.ppm = int64(random.IntN(2*s.Faults.Drift+1) - s.Faults.Drift)
		}
		c.machines = append(c.machines, m)
	}
	c.watch()
	c.link()
	c.begins()
	if s.Look {
		c.At(now, c.lookFirsts)
	}
	for i := range s.Nodes {
		if err := c.boot(now, i, s.Found); err != nil {
			return nil, fmt.Errorf("start node %d: %w", i, err)
		}
	}
	for i := range s.Nodes {
		c.tell(now, i)
	}
	c.plan()
	return c, nil
}

// Ask asks a node. answered is called at once or later, when its answer is known; a
// node that is killed or stands still never answers.
func (c *Cluster) Ask(now weir.Instant, node int, a *weir.Ask, answered func(weir.Instant, weir.Decision)) {
	m := c.machines[node]
	switch {
	case !m.runs() || m.away > now:
		return
	case m.replica == nil:
		state := a.State
		if a.Policy.Sharing == weir.SharingLeader {
			state = rank.Led(state, a.Policy.Leaders)
		}
		c.ask(now, m, &protocol.Request{
			State: state, Limit: a.Limit, Cost: a.Cost, Policy: protocol.PolicyOf(a.Policy.Partition), Sticky: a.Policy.Sharing == weir.SharingSticky,
		}, answered)
	case m.reader.lag(now) > bounds.LogMost:
		answered(now, weir.Decision{Outcome: weir.Denied, RetryAfter: bounds.LogBeat}) // fallback: closed
		return
	default:
		var out [1]weir.Decision
		m.replica.Take(m.clock(now), []weir.Ask{*a}, out[:])
		answered(now, out[0])
	}
	c.effects(now, node)
}

// ask asks a node with leases. What it wants done is not done yet.
func (c *Cluster) ask(now weir.Instant, m *machine, r *protocol.Request, answered func(weir.Instant, weir.Decision)) {
	if last := len(c.free) - 1; last >= 0 {
		r.ID, c.free = c.free[last], c.free[:last]
		c.waiting[r.ID] = answered
	} else {
		r.ID, c.waiting = uint64(len(c.waiting)), append(c.waiting, answered)
	}
	m.node(r.State).Ask(m.clock(now), r, &c.fx)
}

// effects does what the i-th process wants done.
func (c *Cluster) effects(now weir.Instant, i int) {
	m := c.machines[i]
	if m.peers != nil && m.peers.View() != m.view {
		m.view = m.peers.View()
		m.counted = m.counted || m.view.Counted()
		for _, n := range m.nodes {
			n.View(m.clock(now), m.view, &c.fx)
		}
	}
	for k := range c.fx.Answers {
		a := &c.fx.Answers[k]
		c.free = append(c.free, a.ID)
		c.waiting[a.ID](now, a.Decision)
	}
	for k := range c.fx.Messages {
		e := &c.fx.Messages[k]
		delete(m.alone, e.State)
		l := c.letter(i, c.number(e.Peer))
		l.message = e.Message
		c.Messages++
		if c.network.weighs {
			c.Bytes += int64(len(l.message.Append(nil)))
		}
		c.send(now, l)
	}
	for k := range c.beats {
		l := c.letter(i, c.number(c.beats[k].Peer))
		l.isHeartbeat, l.heartbeat = true, c.beats[k].Heartbeat
		c.Heartbeats++
		c.send(now, l)
	}
	for _, post := range c.posts {
		for _, peer := range post.Peers {
			l := c.letter(i, c.number(peer))
			l.post = post.Message
			c.Messages++
			c.Bytes += int64(len(l.post))
			c.send(now, l)
		}
	}
	c.fx.Answers, c.fx.Messages, c.beats, c.posts = c.fx.Answers[:0], c.fx.Messages[:0], c.beats[:0], c.posts[:0]
	if c.Sharing == bounds.Log {
		c.gather(now, i)
	}
	c.wind(now, i)
}
