package simulation

import (
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
)

// known is what is known of a node: that it is a member, where life is odd. Each change is a later life. With Settings.Gossip news of
// it take their way from one process to another, as cmd/weir/internal/gossip brings them.
type known struct {
	life        int
	incarnation uint64
}

// begins has all processes know of those that are members from the start.
func (c *Cluster) begins() {
	for _, m := range c.machines {
		for _, of := range c.machines {
			m.known = append(m.known, of.own)
		}
	}
	if c.Gossip {
		c.At(c.began, c.spread)
	}
}

// appear makes the i-th machine a member of a later life. Its process knows of nobody, or of those that the one before knew.
func (c *Cluster) appear(i int, remembers bool) {
	m := c.machines[i]
	m.own = known{m.own.life + 1 + m.own.life%2, m.incarnation}
	if !remembers {
		clear(m.known)
	}
	m.known[i] = m.own
}

// vanish ends the i-th process, and tells those that hear it that it is no member any more.
func (c *Cluster) vanish(now weir.Instant, i int) {
	var hear []int
	for k := range c.machines {
		if c.Gossip && k != i && c.reaches(now, i, k) && c.reaches(now, k, k) {
			hear = append(hear, k)
		}
	}
	m := c.machines[i]
	m.process = process{}
	m.own.life++
	for _, k := range hear {
		c.machines[k].known[i] = m.own
		c.tell(now, k)
	}
}

// spread brings news from each process to those that hear it.
func (c *Cluster) spread(now weir.Instant) {
	c.At(now+second/10, c.spread)
	for i, to := range c.machines {
		changed := false
		for k, from := range c.machines {
			if i == k || !from.met || !c.reaches(now, k, i) || !c.reaches(now, i, i) { // two that are new are no cluster
				continue
			}
			for j, of := range from.known {
				if j != i && of.life > to.known[j].life {
					to.known[j], to.heard[j], to.lost[j], changed = of, now, false, true
				}
				if from.lost[j] && !to.lost[j] && j != i && of.life == to.known[j].life && now > to.heard[j]+5*second {
					to.lost[j], changed = true, true
				}
			}
		}
		if changed {
			c.tell(now, i)
		}
	}
}

// members are those that the i-th process knows of, but for those that it has given up.
func (c *Cluster) members(i int) (members []member.Member) {
	by := c.machines[i]
	for j, m := range c.machines {
		is, incarnation := m.member || m.going, m.incarnation
		if c.Gossip {
			is, incarnation = by.known[j].life%2 == 1, by.known[j].incarnation
		}
		if is && !by.lost[j] {
			members = append(members, member.Member{Name: m.name, Incarnation: incarnation})
		}
	}
	return members
}

// chains is who reaches whom, and is reached, by others in between: news that one lives take that way.
func (c *Cluster) chains(now weir.Instant) [][]bool {
	n := len(c.machines)
	way := make([][]bool, n)
	for from := range n {
		way[from] = make([]bool, n)
		for to := range n {
			way[from][to] = from == to || c.reaches(now, from, to) && c.reaches(now, to, to)
		}
	}
	for by := range n {
		for from := range n {
			for to := range n {
				way[from][to] = way[from][to] || way[from][by] && way[by][to]
			}
		}
	}
	return way
}
