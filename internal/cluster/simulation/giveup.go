package simulation

import (
	"time"

	"github.com/weir-limit/weir"
)

// watchEvery is how often processes look whom they hear.
const watchEvery = weir.Instant(100 * time.Millisecond / time.Microsecond)

// watch makes processes do what they do by cmd/weir/internal/gossip, if that is simulated: each by itself takes
// members for gone that it has not reached for long, while it reaches most of those that it knows.
func (c *Cluster) watch() {
	for i := range c.machines {
		if c.GiveUp > 0 {
			confirm := weir.Instant((c.GiveUp + time.Duration(c.random.Int64N(int64(2*time.Second)))) / time.Microsecond)
			c.At(c.began+weir.Instant(c.random.Int64N(int64(watchEvery))), func(now weir.Instant) { c.look(now, i, confirm) })
		}
	}
}

// look sees whom the i-th process reaches.
func (c *Cluster) look(now weir.Instant, i int, confirm weir.Instant) {
	c.At(now+watchEvery, func(now weir.Instant) { c.look(now, i, confirm) })
	by := c.machines[i]
	if !by.runs() || by.away > now {
		return
	}
	heard, all, first, with, changed, way := 0, 0, -1, false, false, [][]bool(nil)
	if c.Gossip {
		way = c.chains(now)
	}
	for j := range c.machines {
		reaches := i == j || c.reaches(now, i, j) && c.reaches(now, j, i)
		lives := reaches
		if c.Gossip { // news of it take any way
			lives = way[i][j] && way[j][i]
			lives = lives && (!by.lost[j] || c.whole(way)) // one that was given up is a member again when all can know
		}
		if lives {
			changed = changed || by.lost[j]
			by.heard[j], by.lost[j] = now, false
		}
		if c.isMember(i, j) && !by.lost[j] {
			all++
			heard += int(count(reaches))
			if first < 0 {
				first, with = j, reaches // names are in the order of their numbers
			}
		}
	}
	most := 2*heard > all || 2*heard == all && with
	for j := range c.machines {
		if most && c.isMember(i, j) && !by.lost[j] && now >= by.heard[j]+confirm && c.agree(now, i, j, confirm) {
			by.lost[j], changed = true, true
		}
	}
	if changed {
		c.tell(now, i)
	}
}

// reaches is whether what one process sends could reach another now.
func (c *Cluster) reaches(now weir.Instant, from, to int) bool {
	m := c.machines[from]
	return m.runs() && m.away <= now && c.cut[from][to] <= now && !c.parted(now, from, to)
}

// isMember is whether the j-th machine is a member, as the i-th process knows.
func (c *Cluster) isMember(i, j int) bool {
	if c.Gossip {
		return c.machines[i].known[j].life%2 == 1
	}
	return c.machines[j].member
}

// agree is whether most of the members that the i-th process knows have not reached the j-th machine either.
func (c *Cluster) agree(now weir.Instant, i, j int, confirm weir.Instant) bool {
	if !c.Gossip {
		return true
	}
	say, all, first := 0, 0, false
	for k, m := range c.machines {
		if !c.isMember(i, k) || c.machines[i].lost[k] {
			continue
		}
		says := k == i || c.reaches(now, i, k) && c.reaches(now, k, i) && now >= m.heard[j]+confirm
		if all++; all == 1 {
			first = says
		}
		say += int(count(says))
	}
	return 2*say > all || 2*say == all && first
}

// whole is whether all processes that run can hear of each other.
func (c *Cluster) whole(way [][]bool) bool {
	for i, m := range c.machines {
		for j, of := range c.machines {
			if m.runs() && of.runs() && !m.usurped && !of.usurped && !(way[i][j] && way[j][i]) {
				return false
			}
		}
	}
	return true
}
