package simulation

import (
	"slices"
	"strconv"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/counter"
	"github.com/weir-limit/weir/internal/cluster/lease"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// machine is where processes run, one after the other.
type machine struct {
	process

	name        string
	member      bool
	offset, ppm int64
	incarnation uint64
	away        weir.Instant                   // until then it is paused
	stood       weir.Instant                   // how long it was, in all
	remembered  []member.Member                // whom its processes knew last
	counted     bool                           // they all counted its vote
	usurped     bool                           // another process has its name
	heard       []weir.Instant                 // when it heard each machine last, as far as that is looked at
	lost        []bool                         // which it has not heard for long
	own         known                          // with Gossip, what is so
	known       []known                        // and what its processes know of each machine
	alone       map[weir.StateKey]weir.Instant // since when its processes deny a key by themselves, by its clock but for pauses
	reader      reader                         // of the log
}

// process is what runs on a machine. The zero process is none.
type process struct {
	replica *counter.Replica // decides by itself; nil: the nodes do
	nodes   []*lease.Node    // each has some of the keys
	salt    uint64           // by which it finds the node of a key, for each process another
	peers   *member.Peers    // of the nodes; nil: all are together
	view    *member.View     // that the nodes have
	timers  []*timer
	going   bool // it leaves, and is on the list still
	met     bool // it knows who the members are
}

// timer is when a part of a process has something to do.
type timer struct {
	next func() (weir.Instant, bool) // when, by the clock of the machine; false: never
	do   func(now weir.Instant)
	due  weir.Instant // when it is set to ring, by that clock
	at   weir.Instant // the same by the true time; 0: it is not set
}

func (p *process) runs() bool { return p.replica != nil || p.nodes != nil }

// node is the one that has a key.
func (p *process) node(key weir.StateKey) *lease.Node {
	h := p.salt
	for i := range len(key.Key) {
		h = (h ^ uint64(key.Key[i])) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return p.nodes[h%uint64(len(p.nodes))]
}

// number is that of the machine that has a name.
func (c *Cluster) number(name string) int {
	n, _ := strconv.Atoi(name[len("node"):])
	return c.numbers[n]
}

// clock is the machine's time at a true time.
func (m *machine) clock(now weir.Instant) weir.Instant {
	return now + weir.Instant(m.offset+int64(now)*m.ppm/1e6)
}

// when is the first true time at which the machine's clock shows at least at.
func (m *machine) when(at weir.Instant) weir.Instant {
	t := int64(at) - m.offset
	guess := weir.Instant(t - t*m.ppm/(1e6+m.ppm))
	for m.clock(guess) < at {
		guess++
	}
	for m.clock(guess-1) >= at {
		guess--
	}
	return guess
}

// boot starts a process on the i-th machine, which learns of the others soon.
func (c *Cluster) boot(now weir.Instant, i int, found bool) error {
	m := c.machines[i]
	m.incarnation++
	m.away = 0
	m.process = process{salt: (c.Seed+1)<<32 | uint64(i)<<16 | m.incarnation, met: now == c.began}
	for j := range m.heard {
		m.heard[j], m.lost[j] = now, false
	}
	if c.Gossip && now > c.began {
		c.appear(i, c.Remember && m.remembered != nil)
	}
	switch c.Sharing {
	case weir.SharingMesh, weir.SharingGossip, weir.SharingHub, weir.SharingDivided, bounds.Log:
		return c.bootReplica(now, i)
	default: // one node decides for each key
	}
	for n := range max(c.Shards, 1) {
		node, err := lease.NewNode(lease.Settings{Name: m.name, Incarnation: m.incarnation, Shard: uint64(n), Keys: max(c.Keys, 1<<10)})
		if err != nil {
			return err
		}
		node.Distances(c.far)
		m.nodes = append(m.nodes, node)
	}
	if !c.Together {
		m.peers = member.NewPeers(m.clock(now), m.name, m.incarnation)
		if found {
			m.peers.Found()
		}
		if c.Remember && m.remembered != nil {
			c.resume(now, m)
		}
		heartbeats := &timer{next: func() (weir.Instant, bool) { return m.peers.Next(), true }, do: func(now weir.Instant) {
			moving := slices.ContainsFunc(m.nodes, (*lease.Node).Moving) && c.Mutant != Hasty
			saved := !slices.ContainsFunc(m.nodes, func(n *lease.Node) bool { return !n.Saved() })
			m.peers.Tick(now, moving, saved, &c.beats)
		}}
		m.timers = []*timer{heartbeats}
		heartbeats.do(m.clock(now))
	}
	for _, n := range m.nodes {
		m.timers = append(m.timers, &timer{next: n.Next, do: func(now weir.Instant) { n.Tick(now, &c.fx) }})
	}
	c.effects(now, i)
	return nil
}

// resume has a process know of the members that the one before has known, as if from its file. It
// hears their incarnations from themselves.
func (c *Cluster) resume(now weir.Instant, m *machine) {
	var names []string
	for k := range m.remembered {
		names = append(names, m.remembered[k].Name)
		m.remembered[k].Incarnation = 0
	}
	m.met = true
	m.peers.Resume(names, m.counted)
	m.peers.Agree(m.clock(now), m.remembered, &c.beats)
}

// wind sets the timers of the i-th process. One that is set already may ring sooner.
func (c *Cluster) wind(now weir.Instant, i int) {
	m := c.machines[i]
	for _, t := range m.timers {
		due, ok := t.next()
		if !ok || t.at > 0 && due >= t.due {
			continue
		}
		if at := max(m.when(due), now); t.at == 0 || at < t.at {
			t.due, t.at = due, at
			c.events.add(event{at: at, to: i, timer: t})
		}
	}
}

// ring does what is due by a timer. One that rings too early, because it was put off meanwhile, is set anew.
func (c *Cluster) ring(now weir.Instant, i int, t *timer) {
	m := c.machines[i]
	if !slices.Contains(m.timers, t) {
		return // the process is gone
	}
	due, ok := t.next()
	late := ok && due <= m.clock(now)
	if late || due != t.due {
		t.at = 0
	}
	if late {
		t.do(m.clock(now))
		c.effects(now, i)
	} else {
		c.wind(now, i)
	}
}

// tell tells the i-th process who the members are.
func (c *Cluster) tell(now weir.Instant, i int) {
	m := c.machines[i]
	if m.nodes == nil || m.usurped {
		return
	}
	members := c.members(i)
	if c.Gossip && len(members) == 1 && !m.met {
		return // it has met nobody yet
	}
	if c.Together {
		for _, n := range m.nodes {
			n.View(m.clock(now), member.Together(m.name, members), &c.fx)
		}
	} else {
		m.met, m.remembered = true, slices.Clone(members)
		m.peers.Agree(m.clock(now), members, &c.beats)
	}
	c.effects(now, i)
}

// tellAll tells every process who the members are, each after a while.
func (c *Cluster) tellAll(now weir.Instant) {
	if c.Gossip || c.machines[0].replica != nil {
		return // news of it take their way, or all know
	}
	for i := range c.machines {
		c.At(now+weir.Instant(c.random.Int64N(300_000)), func(now weir.Instant) { c.tell(now, i) })
	}
}

// reboot starts another process on the i-th machine.
func (c *Cluster) reboot(now weir.Instant, i int) {
	if err := c.boot(now, i, false); err != nil {
		panic(err) // the same settings were good at the start
	}
}

// Crash kills a process that runs, and starts another.
func (c *Cluster) Crash(now weir.Instant, node int) {
	if !c.machines[node].runs() {
		return
	}
	c.kill(node)
	c.Crashes++
	c.reboot(now, node)
	if c.Mutant == StartsFull {
		c.At(now+weir.Instant(settling/time.Microsecond), func(now weir.Instant) { c.fill(now, node) })
	}
	c.tellAll(now)
}

// restart kills the i-th process, and starts another that is told of no other members.
func (c *Cluster) restart(now weir.Instant, i int) {
	m := c.machines[i]
	c.kill(i)
	c.reboot(now, i)
	if !c.Remember {
		m.peers.Agree(m.clock(now), []member.Member{{Name: m.name, Incarnation: m.incarnation}}, &c.beats)
	}
	c.effects(now, i)
	c.At(now+weir.Instant(8*time.Second/time.Microsecond), c.tellAll)
}

// usurp starts a process on the i-th machine by the name of another's, which goes on and hears nobody.
func (c *Cluster) usurp(now weir.Instant, i, of int) {
	m, old := c.machines[i], c.machines[of]
	old.member, old.usurped = false, true
	m.name, m.incarnation, c.numbers[of] = old.name, old.incarnation, i
	c.machines[of].own.life++
	c.join(now, i)
	m.known[of] = c.machines[of].own
	m.peers.Fence(m.clock(now), m.clock(now)+weir.Instant(c.Fence/time.Microsecond))
}

// join starts a process on the i-th machine, which was no member.
func (c *Cluster) join(now weir.Instant, i int) {
	c.machines[i].member = true
	c.reboot(now, i)
	c.tellAll(now)
}

// leave makes the i-th process leave in order: it hands over, and ends after a second.
func (c *Cluster) leave(now weir.Instant, i int) {
	m := c.machines[i]
	peers := m.peers
	m.member, m.counted, m.going = false, false, true
	m.peers.Leave(m.clock(now), &c.beats)
	c.effects(now, i)
	c.At(now+second, func(now weir.Instant) { c.departs(now, i, peers, now+9*second) })
}

// departs ends a process that leaves when all know of it; where it can't be told, at the end of its patience.
func (c *Cluster) departs(now weir.Instant, i int, peers *member.Peers, end weir.Instant) {
	m := c.machines[i]
	switch {
	case m.peers != peers:
	case c.Gossip && now < end && (m.away > now || !peers.Parted(m.clock(now))):
		c.At(now+second/10, func(now weir.Instant) { c.departs(now, i, peers, end) })
	default:
		c.vanish(now, i)
		c.tellAll(now)
	}
}

// kill ends the i-th process, and what it let pass by its own share, that nobody knows of, with it.
func (c *Cluster) kill(i int) {
	m := c.machines[i]
	if m.view != nil && c.Limit != nil && c.Policy == protocol.Proportional && bounds.BackedUp(c.Limit) && !m.view.Converged() { // I20
		all, _ := c.Limit.Standing(nil, 0)
		c.Price += bounds.Part(all, 1, max(m.view.Count, 1))
	}
	m.process = process{}
}

// Pause has a process that is not paused stand still until then.
func (c *Cluster) Pause(now weir.Instant, node int, until weir.Instant) {
	if m := c.machines[node]; m.away <= now {
		m.away, m.stood = until, m.stood+until-now
		c.listen(now)
	}
}

// up is how many members run.
func (c *Cluster) up() (n int) {
	for _, m := range c.machines {
		n += int(count(m.member && m.runs()))
	}
	return n
}
