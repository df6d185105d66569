package simulation

import (
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/lease"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// machine is a process and what is around it.
type machine struct {
	name        string
	shards      []*shard      // each has some of the keys
	salt        uint64        // by which it finds the shard of a key, for each process another
	peers       *member.Peers // nil: it does not run
	view        *member.View  // that nodes have
	member      bool
	going       bool // it leaves, and is on the list still
	offset, ppm int64
	incarnation uint64
	next        weir.Instant    // by its clock, when its next heartbeats are planned; 0: they are not
	away        weir.Instant    // until then it is paused
	stood       weir.Instant    // how long it was, in all
	remembered  []member.Member // whom its processes knew last
	counted     bool            // they all counted its vote
	usurped     bool            // another process has its name
	met         bool            // it knows who the members are
}

// shard is one of the nodes of a process.
type shard struct {
	node *lease.Node
	tick weir.Instant // when the earliest event for its timer is; 0: there is none
}

func (m *machine) runs() bool { return m.peers != nil }

// node is the one that has a key.
func (m *machine) node(key weir.StateKey) *lease.Node {
	h := m.salt
	for i := range len(key.Key) {
		h = (h ^ uint64(key.Key[i])) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return m.shards[h%uint64(len(m.shards))].node
}

func (m *machine) moving() bool {
	return slices.ContainsFunc(m.shards, func(sh *shard) bool { return sh.node.Moving() })
}

func (m *machine) saved() bool {
	return !slices.ContainsFunc(m.shards, func(sh *shard) bool { return !sh.node.Saved() })
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

// boot starts a process on the i-th machine, which learns of the others soon.
func (s *simulation) boot(now weir.Instant, i int, found bool) error {
	m := s.machines[i]
	m.incarnation++
	m.away, m.next, m.view, m.shards, m.going, m.met = 0, 0, nil, nil, false, now == start
	m.salt = (s.Seed+1)<<32 | uint64(i)<<16 | m.incarnation
	s.watchers.begin(now, i)
	if s.Gossip && now > start {
		s.appear(i, s.Remember && m.remembered != nil)
	}
	far := map[string]protocol.Distance{}
	for _, other := range s.machines {
		far[other.name] = protocol.Distance(s.Faults.Delay) // each way half of that, on the mean
	}
	for n := range max(s.Shards, 1) {
		node, err := lease.NewNode(lease.Settings{Name: m.name, Incarnation: m.incarnation, Shard: uint64(n), Keys: 1 << 10})
		if err != nil {
			return err
		}
		node.Distances(far)
		m.shards = append(m.shards, &shard{node: node})
	}
	m.peers = member.NewPeers(m.clock(now), m.name, m.incarnation)
	if found {
		m.peers.Found()
	}
	if s.Remember && m.remembered != nil {
		s.resume(now, m)
	}
	s.pulse(now, i, m.peers)
	return nil
}

// resume has a process know of the members that the one before has known, as if from its file. It
// hears their incarnations from themselves.
func (s *simulation) resume(now weir.Instant, m *machine) {
	var names []string
	for k := range m.remembered {
		names = append(names, m.remembered[k].Name)
		m.remembered[k].Incarnation = 0
	}
	m.met = true
	m.peers.Resume(names, m.counted)
	m.peers.Agree(m.clock(now), m.remembered, &s.beats)
}

// pulse makes the i-th process tell the others that it lives, and again when it wants.
func (s *simulation) pulse(now weir.Instant, i int, peers *member.Peers) {
	m := s.machines[i]
	if m.peers != peers {
		return // it does not run any more
	}
	if m.clock(now) < m.next {
		return // it was planned for earlier since
	}
	m.next = 0
	m.peers.Tick(m.clock(now), m.moving() && s.Mutant != Hasty, m.saved(), &s.beats)
	s.effects(now, i)
}

// ring makes a node do what is due.
func (s *simulation) ring(now weir.Instant, i int, sh *shard) {
	m := s.machines[i]
	if !slices.Contains(m.shards, sh) {
		return // it does not run any more
	}
	sh.tick = 0
	sh.node.Tick(m.clock(now), &s.fx)
	s.effects(now, i)
}

// tell tells the i-th process who the members are.
func (s *simulation) tell(now weir.Instant, i int) {
	m := s.machines[i]
	if !m.runs() || m.usurped {
		return
	}
	members := s.membersOf(i)
	if s.Gossip && len(members) == 1 && !m.met {
		return // it has met nobody yet
	}
	m.met, m.remembered = true, slices.Clone(members)
	m.peers.Agree(m.clock(now), members, &s.beats)
	s.effects(now, i)
}

// tellAll tells every process who the members are, each after a while.
func (s *simulation) tellAll(now weir.Instant) {
	if s.Gossip {
		return // news of it take their way
	}
	for i := range s.machines {
		s.at(now+weir.Instant(s.random.Int64N(300_000)), func(now weir.Instant) { s.tell(now, i) })
	}
}

// crash kills the i-th process, and starts another.
func (s *simulation) crash(now weir.Instant, i int) {
	if !s.machines[i].runs() {
		return
	}
	s.kill(i)
	if err := s.boot(now, i, false); err != nil {
		panic(err) // the same settings were good at the start
	}
	if s.Mutant == StartsFull {
		s.at(now+weir.Instant(settling/time.Microsecond), func(now weir.Instant) { s.fill(now, i) })
	}
	s.tellAll(now)
}

// restart kills the i-th process, and starts another that is told of no other members.
func (s *simulation) restart(now weir.Instant, i int) {
	m := s.machines[i]
	s.kill(i)
	if err := s.boot(now, i, false); err != nil {
		panic(err)
	}
	if !s.Remember {
		m.peers.Agree(m.clock(now), []member.Member{{Name: m.name, Incarnation: m.incarnation}}, &s.beats)
	}
	s.effects(now, i)
	s.at(now+weir.Instant(8*time.Second/time.Microsecond), func(now weir.Instant) { s.tellAll(now) })
}

// usurp starts a process on the i-th machine by the name of another's, which goes on and hears nobody.
func (s *simulation) usurp(now weir.Instant, i, of int) {
	m, old := s.machines[i], s.machines[of]
	old.member, old.usurped = false, true
	m.name, m.incarnation, s.names[i], s.numbers[old.name] = old.name, old.incarnation, old.name, i
	s.news.own[of].life++
	s.join(now, i)
	s.news.known[i][of] = s.news.own[of]
	m.peers.Fence(m.clock(now), m.clock(now)+weir.Instant(s.Fence/time.Microsecond))
}

// join starts a process on the i-th machine, which was no member.
func (s *simulation) join(now weir.Instant, i int) {
	s.machines[i].member = true
	if err := s.boot(now, i, false); err != nil {
		panic(err)
	}
	s.tellAll(now)
}

// leave makes the i-th process leave in order: it hands over, and ends after a second.
func (s *simulation) leave(now weir.Instant, i int) {
	m := s.machines[i]
	peers := m.peers
	m.member, m.counted, m.going = false, false, true
	m.peers.Leave(m.clock(now), &s.beats)
	s.effects(now, i)
	s.at(now+second, func(now weir.Instant) { s.parts(now, i, peers, now+9*second) })
}

// parts ends a process that leaves when all know of it; where it can't be told, at the end of its patience.
func (s *simulation) parts(now weir.Instant, i int, peers *member.Peers, end weir.Instant) {
	m := s.machines[i]
	switch {
	case m.peers != peers:
	case s.Gossip && now < end && (m.away > now || !peers.Parted(m.clock(now))):
		s.at(now+second/10, func(now weir.Instant) { s.parts(now, i, peers, end) })
	default:
		heard := s.hearing(now, i)
		m.end()
		s.vanish(now, i, heard)
		s.tellAll(now)
	}
}

// kill ends the process of the i-th machine, and what it let pass by its own share, that nobody knows of, with it.
func (s *simulation) kill(i int) {
	m := s.machines[i]
	if m.runs() && s.Policy == protocol.Proportional && bounds.BackedUp(s.Limit) && !m.view.Converged() { // I20
		all, _ := s.Limit.Standing(nil, 0)
		s.Price += bounds.Part(all, 1, max(m.view.Count, 1))
	}
	m.end()
}

// end ends its process.
func (m *machine) end() { m.shards, m.peers, m.going = nil, nil, false }

// up is how many members run, and don't leave.
func (s *simulation) up() (n int) {
	for _, m := range s.machines {
		n += int(count(m.member && m.runs()))
	}
	return n
}

// spoke notes that a node has asked about a key, or reported.
func (s *simulation) spoke(i int, key weir.StateKey) {
	for k := range s.keys {
		if s.keys[k].state == key {
			delete(s.alone, asker{i, k})
		}
	}
}

// effects does what the i-th process wants done.
func (s *simulation) effects(now weir.Instant, i int) {
	m := s.machines[i]
	if v := m.peers.View(); v != m.view {
		m.view = v
		m.counted = m.counted || v.Counted()
		for _, sh := range m.shards {
			sh.node.View(m.clock(now), v, &s.fx)
		}
	}
	for k := range s.fx.Answers {
		s.answered(now, &s.fx.Answers[k])
	}
	for k := range s.fx.Messages {
		e := &s.fx.Messages[k]
		s.Messages++
		s.spoke(i, e.State)
		s.post(now, letter{from: i, to: s.numbers[e.Peer], message: e.Message})
	}
	for k := range s.beats {
		b := &s.beats[k]
		s.Heartbeats++
		s.post(now, letter{from: i, to: s.numbers[b.Peer], isHeartbeat: true, heartbeat: b.Heartbeat})
	}
	s.fx.Answers, s.fx.Messages, s.beats = s.fx.Answers[:0], s.fx.Messages[:0], s.beats[:0]
	if next := m.peers.Next(); m.next == 0 || next < m.next {
		m.next = next
		s.plant(event{at: max(m.when(next), now), to: i, pulse: m.peers})
	}
	for _, sh := range m.shards {
		if at, ok := sh.node.Next(); ok {
			if when := max(m.when(at), now); sh.tick == 0 || when < sh.tick {
				sh.tick = when
				s.plant(event{at: when, to: i, ring: sh})
			}
		}
	}
}
