package virtual

import (
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/counter"
)

// log is an event log: it takes entries one after the other, at a rate of its own, and keeps
// those that come meanwhile waiting.
type log struct {
	busy weir.Instant // until then it takes those that have come
}

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
	c.at(now+weir.Instant(counter.Gather.Microseconds()), i, func(later weir.Instant) {
		m.reader.gathering = false
		c.append(now, later, i, m.replica.Entries(m.replica.Stats().Waiting, nil))
	})
}

// beat appends a beat of the i-th node, and again each bounds.LogBeat.
func (c *Cluster) beat(now weir.Instant, i int, incarnation uint64) {
	m := c.machines[i]
	if m.incarnation != incarnation {
		return // killed meanwhile
	}
	m.reader.beats++
	c.append(now, now, i, []counter.Entry{{Node: m.name, Incarnation: incarnation, Beat: m.reader.beats}})
	c.at(now+weir.Instant(bounds.LogBeat.Microseconds()), i, func(now weir.Instant) { c.beat(now, i, incarnation) })
}

// append appends entries of events since then. Each node reads them in the order of the log.
func (c *Cluster) append(since, now weir.Instant, i int, entries []counter.Entry) {
	c.Messages++
	for e := range entries {
		c.Bytes += int64(len(entries[e].Line()))
	}
	m := c.machines[i]
	m.reader.unseen = append(m.reader.unseen, since)
	c.log.busy = max(c.log.busy, now+c.travels())
	if rate := int64(c.settings.LogRate); rate > 0 {
		c.log.busy += weir.Instant(int64(len(entries)) * time.Second.Microseconds() / rate)
	}
	for j, to := range c.machines {
		to.reader.read = max(to.reader.read, c.log.busy+c.travels())
		c.at(to.reader.read, j, func(now weir.Instant) {
			for e := range entries {
				to.replica.Hear(to.clock(now), to.clock(now), &entries[e])
			}
			if i == j {
				m.reader.unseen = m.reader.unseen[1:]
			}
			c.Lag = max(c.Lag, now-since)
		})
	}
}

// travels is how long a message takes.
func (c *Cluster) travels() weir.Instant {
	took := c.settings.Network.Delay.Microseconds()
	if took > 1 {
		took = took/2 + c.random.Int64N(took-took/2)
	}
	return weir.Instant(took)
}
