package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// letter is a message or a heartbeat on its way.
type letter struct {
	from, to    int
	isHeartbeat bool
	message     protocol.Message
	heartbeat   member.Heartbeat
	post        []byte // between replicas; nil: it is one of the others
}

// network says how letters travel.
type network struct {
	least, most weir.Instant // how long they take
	loss        int          // in a thousand that are lost
	double      int          // in a thousand that come twice; -1: none, and no chance is drawn
	newer       int          // in a thousand that are of a later version
	weighs      bool         // bytes are counted
}

// travels is how long a letter takes.
func (n *network) travels(random *rand.Rand) weir.Instant {
	if n.most <= n.least {
		return n.least
	}
	return n.least + weir.Instant(random.Int64N(int64(n.most-n.least)))
}

// letter is one to write, perhaps one that has arrived.
func (c *Cluster) letter(from, to int) (l *letter) {
	if last := len(c.letters) - 1; last < 0 {
		l = new(letter)
	} else {
		l, c.letters = c.letters[last], c.letters[:last]
	}
	l.from, l.to, l.isHeartbeat, l.post = from, to, false, nil
	return l
}

// send sends a letter, with what goes wrong on the way.
func (c *Cluster) send(now weir.Instant, l *letter) {
	n, copies := &c.network, 1
	if c.calm(now, c.Calm) {
		n = &network{least: 1000, most: 1000, double: -1} // nothing goes wrong
	} else if c.cut[l.from][l.to] > now {
		c.letters = append(c.letters, l)
		return
	}
	switch chance := c.random.IntN(1000); {
	case chance < n.loss || c.parted(now, l.from, l.to):
		copies = 0
	case n.double >= 0 && c.random.IntN(1000) < n.double:
		copies = 2
	}
	if copies > 0 && n.newer > 0 && c.random.IntN(1000) < n.newer && !c.renew(l) {
		copies = 0
	}
	if copies == 0 {
		c.letters = append(c.letters, l)
	}
	for i := range copies {
		of := l
		if i > 0 {
			of = c.letter(l.from, l.to)
			*of = *l
		}
		c.events.add(event{at: now + n.travels(c.random), to: l.to, letter: of})
	}
}

// renew makes a letter as a later version would: with more fields, or of a kind that is
// not known yet; then it does not arrive.
func (c *Cluster) renew(l *letter) bool {
	var b []byte
	if l.isHeartbeat {
		b = l.heartbeat.Append(nil)
	} else {
		b = l.message.Append(nil)
	}
	size := 1
	for b[size-1] >= 0x80 {
		size++
	}
	if c.random.IntN(4) == 0 {
		b[size] = 99 // the version
	} else if b[0] < 0x70 {
		b[0] += 2
		b = append(b, 7, 7)
	}
	var err error
	if l.isHeartbeat {
		l.heartbeat, _, err = member.ParseHeartbeat(b)
	} else {
		l.message, _, err = protocol.Parse(b)
	}
	return err == nil
}

func count(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (c *Cluster) deliver(now weir.Instant, l *letter) {
	if m := c.machines[l.to]; m.runs() {
		from := c.machines[l.from].name
		if c.Mutant == CapIgnores {
			c.forge(now, l)
		}
		c.Mutant.tamper(l)
		switch {
		case l.post != nil && c.Forge != nil:
			_ = m.replica.Receive(m.clock(now), from, c.Forge(from, m.name, l.post), &c.posts)
		case l.post != nil:
			_ = m.replica.Receive(m.clock(now), from, l.post, &c.posts) // it drops a bad message, as a daemon would
		case l.isHeartbeat:
			if c.Gossip && !m.lost[l.from] {
				m.heard[l.from] = now
			}
			m.peers.Receive(m.clock(now), from, &l.heartbeat)
		default:
			m.node(l.message.State).Receive(m.clock(now), from, &l.message, &c.fx)
		}
		c.effects(now, l.to)
	}
	c.letters = append(c.letters, l)
}

// parted is whether one does not hear another, by Parts.
func (c *Cluster) parted(now weir.Instant, from, to int) bool {
	if c.links.down[from][to] && from != to {
		return true
	}
	since := (now - c.began).Duration()
	for i := range c.Parts {
		if p := &c.Parts[i]; since >= p.From && since < p.To && p.Deaf(from, to) {
			return true
		}
	}
	return false
}

// Part is a time in which some don't hear others.
type Part struct {
	From, To time.Duration // since the start
	Deaf     func(from, to int) bool
}

// Part has some not hear others until then.
func (c *Cluster) Part(now, until weir.Instant, deaf func(from, to int) bool) {
	c.Parts = append(c.Parts, Part{From: (now - c.began).Duration(), To: (until - c.began).Duration(), Deaf: deaf})
	c.listen(now)
}
