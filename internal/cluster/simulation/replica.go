package simulation

import (
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/counter"
	"github.com/weir-limit/weir/internal/cluster/member"
)

// bootReplica starts a process that decides by itself, and knows the others.
func (c *Cluster) bootReplica(now weir.Instant, i int) (err error) {
	m := c.machines[i]
	m.replica, err = counter.New(m.clock(now), counter.Settings{Name: m.name, Incarnation: m.incarnation, Sharing: c.Sharing, Keys: c.Keys})
	switch {
	case err != nil:
	case c.Sharing == bounds.Log:
		c.beat(now, i, m.incarnation)
	default:
		r := m.replica
		m.timers = []*timer{{next: r.Next, do: func(now weir.Instant) { r.Tick(now, &c.posts) }}}
		c.present(now, i)
	}
	return err
}

// Replica is that of a node.
func (c *Cluster) Replica(node int) *counter.Replica { return c.machines[node].replica }

// present tells a replica who its members are.
func (c *Cluster) present(now weir.Instant, i int) {
	m := c.machines[i]
	var members []member.Presence
	open := member.OpenTo(i, len(c.machines), func(by int) (deaf []int) {
		for of, silent := range c.machines[by].lost {
			if silent {
				deaf = append(deaf, of)
			}
		}
		return deaf
	})
	for j, other := range c.machines {
		members = append(members, member.Presence{Name: other.name, Silent: m.lost[j], Open: open[j]})
	}
	m.replica.View(m.clock(now), members)
	c.effects(now, i)
}

// listen looks which replicas hear which, from now until nobody is silent any more. Their heartbeats are
// taken to arrive where nothing is cut: they are many, and their loss is rare.
func (c *Cluster) listen(now weir.Instant) {
	if c.faulty || c.machines[0].replica == nil {
		return
	}
	for _, m := range c.machines {
		for j := range m.heard {
			m.heard[j] = now
		}
	}
	c.poll(now)
}

// poll sees which replicas have been silent for long.
func (c *Cluster) poll(now weir.Instant) {
	news := false
	c.faulty = false
	for i, m := range c.machines {
		if m.away > now {
			c.faulty = true
			continue
		}
		changed := false
		for j := range c.machines {
			if c.reaches(now, j, i) {
				m.heard[j] = now
			} else {
				c.faulty = true
			}
			silent := i != j && now-m.heard[j] >= weir.Instant(member.Silence/time.Microsecond)
			changed = changed || silent != m.lost[j]
			m.lost[j] = silent
		}
		if news = news || changed; changed {
			c.present(now, i)
		}
	}
	for i := 0; i < len(c.machines) && news && c.Sharing == weir.SharingHub; i++ {
		c.present(now, i) // who may be a hub, by what the others hear
	}
	if c.faulty {
		c.At(now+watchEvery, c.poll)
	}
}

// The event log takes entries one after the other, at a rate of its own, and keeps those that come meanwhile waiting.

// reader is a node at the log.
type reader struct {
	gathering bool
	unseen    []weir.Instant // when what it has appended and not read back began
	read      weir.Instant   // when the last batch comes to it
	beats     int64
}

// lag is how long the node waits to read back what it has appended.
func (r *reader) lag(now weir.Instant) time.Duration {
	if len(r.unseen) == 0 {
		return 0
	}
	return (now - r.unseen[0]).Duration()
}

// gather appends what the i-th node is to tell, a little later: more comes meanwhile.
func (c *Cluster) gather(now weir.Instant, i int) {
	m := c.machines[i]
	if m.reader.gathering || m.replica.Stats().Waiting == 0 {
		return
	}
	m.reader.gathering = true
	at := now + weir.Instant(counter.Gather/time.Microsecond)
	c.events.add(event{at: at, to: i, do: func(later weir.Instant) {
		m.reader.gathering = false
		c.append(now, later, i, m.replica.Entries(m.replica.Stats().Waiting, nil))
	}})
}

// beat appends a beat of the i-th node, and again each bounds.LogBeat.
func (c *Cluster) beat(now weir.Instant, i int, incarnation uint64) {
	m := c.machines[i]
	if m.incarnation != incarnation {
		return // killed meanwhile
	}
	m.reader.beats++
	c.append(now, now, i, []counter.Entry{{Node: m.name, Incarnation: incarnation, Beat: m.reader.beats}})
	c.events.add(event{at: now + weir.Instant(bounds.LogBeat/time.Microsecond), to: i, do: func(now weir.Instant) { c.beat(now, i, incarnation) }})
}

// append appends entries of events since then. Each node reads them in the order of the log.
func (c *Cluster) append(since, now weir.Instant, i int, entries []counter.Entry) {
	c.Messages++
	for e := range entries {
		c.Bytes += int64(len(entries[e].Line()))
	}
	m := c.machines[i]
	m.reader.unseen = append(m.reader.unseen, since)
	c.busy = max(c.busy, now+c.network.travels(c.random))
	if rate := int64(c.LogRate); rate > 0 {
		c.busy += weir.Instant(int64(len(entries)) * time.Second.Microseconds() / rate)
	}
	for j, to := range c.machines {
		to.reader.read = max(to.reader.read, c.busy+c.network.travels(c.random))
		c.events.add(event{at: to.reader.read, to: j, do: func(now weir.Instant) {
			for e := range entries {
				to.replica.Hear(to.clock(now), to.clock(now), &entries[e])
			}
			if i == j {
				m.reader.unseen = m.reader.unseen[1:]
			}
			c.Lag = max(c.Lag, now-since)
		}})
	}
}
