// Package sharingtest runs whole clusters of sharing.Node in one goroutine: on a
// network that loses, doubles, delays, reorders and cuts, with clocks that drift and
// nodes that are paused and killed. All of it follows from a seed, so a run that
// found something is found again.
package sharingtest

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/sharing"
)

// Faults say what goes wrong. The zero Faults is a network that takes a millisecond
// and nothing else.
type Faults struct {
	Loss   int           // messages in a thousand that are lost
	Double int           // in a thousand that come twice
	Delay  time.Duration // messages take from half a millisecond to this; 0: one millisecond
	Drift  int           // clocks run so many millionths too fast or slow, at most
	Crash  time.Duration // about how often a node is killed and comes back without memory; 0: never
	Pause  time.Duration // about how often a node stands still, up to two lives of a lease
	Cut    time.Duration // about how often one node is not heard by another, for up to a second
}

// Settings say what is simulated.
type Settings struct {
	Seed   uint64
	Nodes  int
	Limit  *weir.Limit
	Load   int64         // requests per event that passes at the limit's pace
	Wave   time.Duration // Load for so long, then a fifth of the pace for as long, by turns; 0: always Load
	Skewed bool          // some nodes get more than others, in each wave others
	For    time.Duration
	Faults Faults
	Calm   time.Duration // in the end, nothing goes wrong for so long
	Mutant Mutant
}

// Result is what happened.
type Result struct {
	Offered, Passed int64
	Ideal           int64 // what one node would have let pass of the same requests
	Last, LastIdeal int64 // the same as Passed and Ideal, in the second half of Calm
	Over            int64 // the most events beyond the limit
	Messages        int64
	LongestDeny     time.Duration
}

func (r *Result) String() string {
	return fmt.Sprintf("%d of %d requests passed, %d on one node; %d over; %d messages", r.Passed, r.Offered, r.Ideal, r.Over, r.Messages)
}

// machine is a node and what is around it.
type machine struct {
	name        string
	node        *sharing.Node
	peers       *sharing.Peers
	view        *sharing.View // that node has
	offset, ppm int64
	incarnation uint64
	away        weir.Instant // until then it is paused
	tick        weir.Instant // when the earliest event for its timer is; 0: there is none
}

// clock is the machine's time at a true time.
func (m *machine) clock(now weir.Instant) weir.Instant {
	return now + weir.Instant(m.offset+int64(now)*m.ppm/1e6)
}

// when is the first true time at which the machine's clock shows at least at.
func (m *machine) when(at weir.Instant) weir.Instant {
	t := int64(at) - m.offset
	guess := weir.Instant(t - t*m.ppm/1e6 - 1)
	for m.clock(guess) < at {
		guess++
	}
	return guess
}

type event struct {
	at  weir.Instant
	seq uint64
	do  func(now weir.Instant)
	to  int // the machine that it happens to, when it is not paused; -1: none
}

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

type simulation struct {
	Settings
	key      weir.StateKey
	random   *rand.Rand
	machines []*machine
	names    []string
	owner    int
	cut      [][]weir.Instant // [from][to]: nothing arrives until then
	events   events
	seq      uint64
	fx       sharing.Effects
	audit    auditor
	end      weir.Instant
	ideal    weir.State
	id       uint64
	Result
}

const (
	start = weir.Instant(1_000_000_000)
	// settling is how long it takes until a process that starts has votes.
	settling = time.Second
)

// Run simulates.
func Run(s Settings) (Result, error) {
	end := start + weir.Instant(s.For/time.Microsecond)
	sim := &simulation{end: end, Settings: s, key: weir.StateKey{Rule: "api", Key: "k"}, random: rand.New(rand.NewPCG(s.Seed, 1)), audit: audit(s.Limit)}
	for i := range s.Nodes {
		sim.names = append(sim.names, fmt.Sprintf("node%d", i))
		sim.cut = append(sim.cut, make([]weir.Instant, s.Nodes))
		m := &machine{name: sim.names[i], offset: sim.random.Int64N(int64(time.Hour / time.Microsecond))}
		m.ppm = int64(sim.random.IntN(2*s.Faults.Drift+1) - s.Faults.Drift)
		sim.machines = append(sim.machines, m)
	}
	for i, name := range sim.names {
		if name == sharing.Owner(sim.key, sim.names) {
			sim.owner = i
		}
		if err := sim.boot(start, i); err != nil {
			return Result{}, err
		}
	}
	sim.plan()
	sim.run()
	sim.Over = sim.audit.over()
	return sim.Result, nil
}

func (s *simulation) boot(now weir.Instant, i int) (err error) {
	m := s.machines[i]
	m.incarnation++
	m.tick = 0
	if m.node, err = sharing.NewNode(sharing.Settings{Name: m.name, Incarnation: m.incarnation, Keys: 16}); err != nil {
		return err
	}
	m.peers, m.view = sharing.NewPeers(m.clock(now), m.name, m.incarnation), nil
	m.peers.Agree(m.clock(now), s.members(), &s.fx)
	s.effects(now, i)
	s.pulse(now, i, m.peers)
	return nil
}

// pulse makes the i-th process tell the others that it lives, and again when it wants.
func (s *simulation) pulse(now weir.Instant, i int, peers *sharing.Peers) {
	m := s.machines[i]
	if m.peers != peers {
		return // killed meanwhile
	}
	m.peers.Tick(m.clock(now), m.node.Moving(), &s.fx)
	s.effects(now, i)
	s.at(max(m.when(m.peers.Next()), now), i, func(now weir.Instant) { s.pulse(now, i, peers) })
}

// members are all nodes.
func (s *simulation) members() []sharing.Member {
	var members []sharing.Member
	for _, m := range s.machines {
		members = append(members, sharing.Member{Name: m.name, Incarnation: m.incarnation})
	}
	return members
}

func (s *simulation) at(at weir.Instant, to int, do func(weir.Instant)) {
	s.seq++
	heap.Push(&s.events, event{at: at, seq: s.seq, to: to, do: do})
}

// run makes requests, and lets happen before each what is due.
func (s *simulation) run() {
	spec := s.Limit.Spec()
	pace := float64(spec.Period.Microseconds()) / float64(spec.Count)
	begin := start + weir.Instant(settling/time.Microsecond)
	all, _ := s.Limit.Standing(nil, begin)
	var d weir.Decision
	s.ideal = s.Limit.Take(s.ideal, begin, all, &d)
	for now := begin; now < s.end; now += 1 + weir.Instant(s.random.ExpFloat64()*pace*s.gap(now)) {
		s.until(now)
		s.request(now)
	}
	s.until(s.end)
}

// calm is whether now lies in the last part of the run.
func (s *simulation) calm(now weir.Instant, part time.Duration) bool {
	return now >= s.end-weir.Instant(part/time.Microsecond)
}

// wave numbers the waves, from 0; odd ones are low.
func (s *simulation) wave(now weir.Instant) int {
	if s.Wave == 0 {
		return 0
	}
	return int((now - start).Duration() / s.Wave)
}

// gap is how much longer than at the limit's pace it is to the next request.
func (s *simulation) gap(now weir.Instant) float64 {
	if s.wave(now)%2 == 1 {
		return 5
	}
	return 1 / float64(s.Load)
}

func (s *simulation) until(now weir.Instant) {
	for len(s.events) > 0 && s.events[0].at <= now {
		e := heap.Pop(&s.events).(event)
		if e.to >= 0 && s.machines[e.to].away > e.at {
			s.at(s.machines[e.to].away, e.to, e.do)
			continue
		}
		e.do(e.at)
	}
}

func (s *simulation) request(now weir.Instant) {
	var d weir.Decision
	s.ideal = s.Limit.Take(s.ideal, now, 1, &d)
	if d.Outcome == weir.Allowed {
		s.Ideal++
		if s.calm(now, s.Calm/2) {
			s.LastIdeal++
		}
	}
	s.Offered++
	i := s.random.IntN(s.Nodes)
	if s.Skewed {
		i = (min(i, s.random.IntN(s.Nodes)) + s.wave(now)) % s.Nodes
	}
	m := s.machines[i]
	if m.away > now {
		return
	}
	s.id++
	m.node.Ask(m.clock(now), &sharing.Request{ID: s.id, State: s.key, Limit: s.Limit, Cost: 1}, &s.fx)
	s.effects(now, i)
}

// effects does what the i-th node wants done.
func (s *simulation) effects(now weir.Instant, i int) {
	m := s.machines[i]
	if v := m.peers.View(); v != m.view {
		m.view = v
		m.node.View(m.clock(now), v, &s.fx)
	}
	for _, a := range s.fx.Answers {
		if a.Decision.Outcome == weir.Allowed {
			s.Passed++
			if s.calm(now, s.Calm/2) {
				s.Last++
			}
			s.audit.pass(s.machines[s.owner].clock(now)) // whose clock the limit goes by
		}
		s.LongestDeny = max(s.LongestDeny, a.Decision.RetryAfter)
	}
	for _, e := range s.fx.Messages {
		for to, name := range s.names {
			if name == e.Peer {
				s.Messages++
				s.send(now, i, to, func(now weir.Instant) { s.deliver(now, i, to, e.Message) })
			}
		}
	}
	for _, b := range s.fx.Beats {
		for to, name := range s.names {
			if name == b.Peer {
				s.send(now, i, to, func(now weir.Instant) { s.hear(now, i, to, &b.Beat) })
			}
		}
	}
	s.fx.Answers, s.fx.Messages, s.fx.Beats = s.fx.Answers[:0], s.fx.Messages[:0], s.fx.Beats[:0]
	if at, ok := m.node.Next(); ok {
		if when := max(m.when(at), now); m.tick == 0 || when < m.tick {
			m.tick = when
			node := m.node
			s.at(when, i, func(now weir.Instant) { s.ring(now, i, node) })
		}
	}
}

func (s *simulation) ring(now weir.Instant, i int, node *sharing.Node) {
	m := s.machines[i]
	if m.node != node {
		return // killed meanwhile
	}
	m.tick = 0
	m.node.Tick(m.clock(now), &s.fx)
	s.effects(now, i)
}

func (s *simulation) send(now weir.Instant, from, to int, arrive func(weir.Instant)) {
	copies, faults := 1, s.Faults
	if s.calm(now, s.Calm) {
		faults = Faults{}
	}
	switch n := s.random.IntN(1000); {
	case n < faults.Loss || s.cut[from][to] > now:
		copies = 0
	case s.random.IntN(1000) < faults.Double:
		copies = 2
	}
	for range copies {
		took := weir.Instant(1000)
		if faults.Delay > 0 {
			took = 500 + weir.Instant(s.random.Int64N(max(faults.Delay.Microseconds()-500, 1)))
		}
		s.at(now+took, to, arrive)
	}
}

func (s *simulation) hear(now weir.Instant, from, to int, b *sharing.Beat) {
	m := s.machines[to]
	m.peers.Receive(m.clock(now), s.names[from], b, &s.fx)
	s.effects(now, to)
}

func (s *simulation) deliver(now weir.Instant, from, to int, message sharing.Message) {
	m := s.machines[to]
	s.tamper(now, from, to, &message)
	m.node.Receive(m.clock(now), s.names[from], &message, &s.fx)
	s.effects(now, to)
}
