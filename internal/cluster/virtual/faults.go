package virtual

import (
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/counter"
	"github.com/weir-limit/weir/internal/cluster/member"
)

// Cut lets nothing that a node sends to another arrive until then.
func (c *Cluster) Cut(now weir.Instant, from, to int, until weir.Instant) {
	c.cuts[from][to] = until
	c.watch(now)
}

// Mute lets nothing that a node sends to another arrive until then, and has neither take the other for silent.
func (c *Cluster) Mute(from, to int, until weir.Instant) { c.cuts[from][to] = until }

// Part cuts the first nodes off from all others until then.
func (c *Cluster) Part(now weir.Instant, first int, until weir.Instant) {
	for i := range c.machines {
		for j := range c.machines {
			if (i < first) != (j < first) {
				c.Cut(now, i, j, until)
			}
		}
	}
}

// Crash kills a node, which starts again at once and knows nothing.
func (c *Cluster) Crash(now weir.Instant, node int) error {
	c.Crashes++
	return c.start(now, node)
}

// Pause lets a node stand still until then.
func (c *Cluster) Pause(now weir.Instant, node int, until weir.Instant) {
	c.machines[node].away = until
	c.watch(now)
}

// Clock is the time of a node.
func (c *Cluster) Clock(now weir.Instant, node int) weir.Instant { return c.machines[node].clock(now) }

// Replica is that of a node.
func (c *Cluster) Replica(node int) *counter.Replica { return c.machines[node].replica }

// heartbeat is how often nodes look who is silent.
const heartbeat = 100 * time.Millisecond

// watch looks who hears whom, from now until nobody is silent any more. Heartbeats are
// taken to arrive where nothing is cut: they are many, and their loss is rare.
func (c *Cluster) watch(now weir.Instant) {
	if c.faulty || c.machines[0].replica == nil {
		return
	}
	c.faulty = true
	for _, m := range c.machines {
		for j := range m.heard {
			m.heard[j] = now
		}
	}
	c.look(now)
}

func (c *Cluster) look(now weir.Instant) {
	busy, news := false, false
	for i, m := range c.machines {
		if m.away > now {
			busy = true
			continue
		}
		changed := false
		for j, other := range c.machines {
			if c.cuts[j][i] > now || other.away > now {
				busy = true
			} else {
				m.heard[j] = now
			}
			silent := i != j && now-m.heard[j] >= weir.Instant(member.Silence.Microseconds())
			changed = changed || silent != m.silent[j]
			m.silent[j] = silent
		}
		if news = news || changed; changed {
			c.view(now, i)
		}
	}
	for i := 0; i < len(c.machines) && news && c.settings.Sharing == weir.SharingHub; i++ {
		c.view(now, i) // who may be a hub, by what the others hear
	}
	c.faulty = busy
	if busy {
		c.at(now+weir.Instant(heartbeat.Microseconds()), -1, c.look)
	}
}
