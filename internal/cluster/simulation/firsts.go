package simulation

import (
	"fmt"

	"github.com/weir-limit/weir"
)

// lookEvery is how often the simulation looks who is the first of a key.
const lookEvery = second / 100

// lookFirsts counts the moments in which two processes may be the first of one key. One that stands still may go on at any moment.
func (c *Cluster) lookFirsts(now weir.Instant) {
	c.At(now+1+weir.Instant(c.random.Int64N(int64(2*lookEvery))), c.lookFirsts)
	for k := range min(c.Keys, 2) {
		key, firsts := c.key(k), []string(nil)
		for _, m := range c.machines {
			if m.runs() && m.node(key).First(m.clock(now), key) {
				firsts = append(firsts, m.name)
			}
		}
		c.Looks++
		c.Led += count(len(firsts) > 0)
		if len(firsts) > 1 {
			if c.Firsts == 0 {
				c.FirstFirsts = fmt.Sprintf("%v of key %d at %v", firsts, k, (now - c.began).Duration())
			}
			c.Firsts++
		}
	}
}
