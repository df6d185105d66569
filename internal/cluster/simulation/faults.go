package simulation

import (
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// Faults say what goes wrong.
type Faults struct {
	Loss   int           // messages in a thousand that are lost
	Double int           // in a thousand that come twice
	Newer  int           // in a thousand that are of a later version
	Delay  time.Duration // messages take up to this: New and Run say how long at least
	Drift  int           // clocks run so many millionths too fast or slow, at most
	Crash  time.Duration // about how often a process is killed and another started; 0: never, as of all that follow
	Behead time.Duration // how often the owner of the first key is killed, and another process started
	Pause  time.Duration // about how often a process stands still, for up to maxPause
	Cut    time.Duration // about how often one node is not heard by another, for up to a second
	Split  time.Duration // about how often some hear none of the others, for up to three seconds
	Change time.Duration // about how often a node leaves in order, or joins
}

// maxPause is how long a process stands still at most.
const maxPause = 2 * member.Life

// Mutant is a fault of the design itself, which the auditor must catch. No node has
// it: the simulation forges what nodes hear, so that they behave as if.
type Mutant int

// The mutants.
const (
	NoMutant   Mutant = iota
	StartsFull        // a process that starts takes keys for never used
	CapIgnores        // what is outstanding does not count
	Credits           // what a holder has not reported until its lease ends is credited back
	Overstays         // holders use leases whose time is over
	Inherits          // after a partition, votes count as if nobody else had had them
	Prolongs          // heartbeats prolong leases whatever has happened since these were granted
	Confuses          // what several nodes of a process hand over is taken for one's
	Unsaved           // a backup does not have what its owner has granted
	Trusts            // whoever is gone is believed to have had all in backups
	Hasty             // a process says that it has nothing of others' while that is on its way
	Mutants
)

// tamper makes a mutant of what is delivered. Of CapIgnores that is not all: forge does the rest.
func (of Mutant) tamper(l *letter) {
	m := &l.message
	switch of {
	case Inherits:
		l.heartbeat.Run, l.heartbeat.Others = 1, nil
	case Overstays:
		if m.Kind == protocol.Grant {
			m.Life = time.Hour
		}
	case Credits:
		if m.Closed && m.Kind != protocol.Handoff {
			m.Spent = 0
		}
	case Prolongs:
		l.heartbeat.Lasting, m.Lasts = 1, min(m.Lasts, 1)
	case Confuses:
		m.Shard = 0
	case Unsaved:
		if m.Kind == protocol.Backup {
			m.Words = ""
		}
	case Trusts:
		l.heartbeat.Saved, l.heartbeat.Losses, l.heartbeat.Others = true, slices.Clone(l.heartbeat.Losses), slices.Clone(l.heartbeat.Others)
		for i := range l.heartbeat.Losses {
			l.heartbeat.Losses[i].Saved, l.heartbeat.Losses[i].Alone = true, true
		}
		for i := range l.heartbeat.Others {
			l.heartbeat.Others[i].Saved = true
		}
	case NoMutant, StartsFull, CapIgnores, Hasty, Mutants:
	}
}

// fill makes a process that has started take a key for never used.
func (c *Cluster) fill(now weir.Instant, i int) {
	m := c.machines[i]
	if !m.runs() {
		return
	}
	c.fills++
	full := protocol.Message{
		Kind: protocol.Handoff, State: c.key(0), Limit: c.Limit.String(), Incarnation: 1 << 40, Epoch: m.incarnation, ID: c.fills,
		At: m.clock(now), Part: 1, Of: 1, Wait: time.Second,
	}
	m.node(full.State).Receive(m.clock(now), c.machines[(i+1)%len(c.machines)].name, &full, &c.fx)
	c.effects(now, i)
}

// forge tells an owner that a holder has let all pass that it was granted.
func (c *Cluster) forge(now weir.Instant, grant *letter) {
	m := c.machines[grant.from]
	if !m.runs() || grant.isHeartbeat || grant.message.Kind != protocol.Grant {
		return
	}
	lie := grant.message
	lie.Kind, lie.Spent = protocol.Release, lie.Granted
	var none protocol.Effects
	m.node(lie.State).Receive(m.clock(now), c.machines[grant.to].name, &lie, &none)
}

// plan sets going what goes wrong again and again.
func (c *Cluster) plan() {
	any := func() int { return c.random.IntN(len(c.machines)) }
	c.often(c.began, c.Faults.Crash, false, func(now weir.Instant) { c.Crash(now, any()) })
	c.often(c.began, c.Faults.Behead, true, c.behead)
	c.often(c.began, c.Faults.Pause, false, func(now weir.Instant) {
		c.Pause(now, any(), now+weir.Instant(c.random.Int64N(maxPause.Microseconds())))
	})
	c.often(c.began, c.Faults.Cut, false, func(now weir.Instant) {
		c.cut[any()][any()] = now + weir.Instant(c.random.Int64N(1_000_000))
	})
	c.often(c.began, c.Faults.Split, false, c.split)
	c.often(c.began, c.Faults.Change, false, c.change)
	for _, a := range c.Acts {
		c.At(c.began+weir.Instant(a.At/time.Microsecond), func(now weir.Instant) { c.act(now, a) })
	}
}

// Act is what is done to a node at a time since the start.
type Act struct {
	At   time.Duration
	What What
	Node int
	Long time.Duration // of Pause
}

// What is a kind of event in the life of a node.
type What int

// The kinds of event.
const (
	Kill What = iota // its process ends, and none is started
	Leave
	Join
	Usurp   // a process on the machine after the last node takes its name
	Restart // its process is killed, and another knows of no member but those in its list
	Crash   // its process is killed, and another started
	Pause   // its process stands still
)

func (c *Cluster) act(now weir.Instant, a Act) {
	switch a.What {
	case Kill:
		c.kill(a.Node)
	case Leave:
		if m := c.machines[a.Node]; m.runs() && m.member && c.up() > 1 {
			c.leave(now, a.Node)
		}
	case Join:
		if m := c.machines[a.Node]; !m.runs() || m.peers.Parted(m.clock(now)) {
			c.join(now, a.Node)
		}
	case Usurp:
		c.usurp(now, c.Nodes, a.Node)
	case Restart:
		c.restart(now, a.Node)
	case Crash:
		c.Crash(now, a.Node)
	case Pause:
		c.Pause(now, a.Node, now+weir.Instant(a.Long/time.Microsecond))
	}
}

// split cuts the machines into two sides, or in one direction, for long or in bursts.
func (c *Cluster) split(now weir.Instant) {
	side := c.sides()
	oneWay := c.random.IntN(3) == 0
	long := weir.Instant(c.random.Int64N([]int64{400_000, 3_000_000}[c.random.IntN(2)]))
	for from := range side {
		for to := range side {
			if side[from] != side[to] && (side[from] || !oneWay) {
				c.cut[from][to] = now + long
			}
		}
	}
}

// change makes a node leave or join.
func (c *Cluster) change(now weir.Instant) {
	i := c.random.IntN(len(c.machines))
	members := 0
	for _, m := range c.machines {
		members += int(count(m.member))
	}
	switch m := c.machines[i]; {
	case !m.runs() && !m.member:
		c.join(now, i)
	case m.member && members > 2 && m.runs():
		c.leave(now, i)
	}
}

// behead kills the process that owns the first key, as some process that runs sees it.
func (c *Cluster) behead(now weir.Instant) {
	key := c.key(0)
	for _, m := range c.machines {
		if !m.runs() {
			continue
		}
		if owner := m.node(key).Owner(key); owner != "" {
			c.Crash(now, c.number(owner))
			return
		}
	}
}

// often does something after so long, or after about so long, and again and again until the end is calm.
func (c *Cluster) often(now weir.Instant, every time.Duration, exactly bool, do func(weir.Instant)) {
	gap := weir.Instant(every / time.Microsecond)
	if gap > 0 && !exactly {
		gap = 1 + weir.Instant(c.random.Int64N(2*int64(gap)))
	}
	if gap > 0 {
		c.At(now+gap, func(now weir.Instant) {
			if !c.calm(now, c.Calm) {
				do(now)
				c.often(now, every, exactly, do)
			}
		})
	}
}

// calm is whether now lies in the last part of a run.
func (c *Cluster) calm(now weir.Instant, part time.Duration) bool {
	return now >= c.end-weir.Instant(part/time.Microsecond)
}
