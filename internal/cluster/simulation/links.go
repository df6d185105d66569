package simulation

import (
	"time"

	"github.com/weir-limit/weir"
)

// Each direction of each link goes on and off by itself, for tenths of seconds, for seconds, or for long. How many are up
// changes, too: where all go by one rule, either all is well or nobody reaches anybody, and a swarm finds little.

// links are which directions of links are down, and how that goes on.
type links struct {
	down  [][]bool     // [from][to]
	up    float64      // how long a link is up, in the mean, as a part of how long it is down
	on    weir.Instant // 0: as up says; else about how long links are up
	off   weir.Instant // and down
	pairs bool         // both directions of a link go on and off together
}

// link has links go on and off, if that is simulated.
func (c *Cluster) link() {
	for range c.machines {
		c.links.down = append(c.links.down, make([]bool, len(c.machines)))
	}
	if !c.Links {
		return
	}
	if c.links.pairs = c.random.IntN(3) == 0; c.random.IntN(3) > 0 {
		c.links.on, c.links.off = second/8<<c.random.IntN(5), second/8<<c.random.IntN(5)
	} else {
		c.mood(c.began + 2*second)
	}
	for from := range c.machines {
		for to := range c.machines {
			if from != to && (from < to || !c.links.pairs) && c.random.IntN(4) > 0 {
				slow := []weir.Instant{1, 1, 2, 4, 16}[c.random.IntN(5)]
				c.At(c.began+second+weir.Instant(c.random.Int64N(int64(4*second))), func(now weir.Instant) { c.flip(now, from, to, slow) })
			}
		}
	}
}

// second is one in the simulation's time.
const second = weir.Instant(time.Second / time.Microsecond)

// mood changes how many links are up, and now and then all of some nodes.
func (c *Cluster) mood(now weir.Instant) {
	c.links.up = []float64{0.3, 1, 3, 10, 30}[c.random.IntN(5)]
	switch side := c.sides(); c.random.IntN(6) {
	case 0: // all is well for a moment
		for from := range c.links.down {
			clear(c.links.down[from])
		}
	case 1: // two sides, or one direction between them
		both := c.random.IntN(2) == 0
		for from := range c.links.down {
			for to := range c.links.down[from] {
				c.links.down[from][to] = side[from] != side[to] && (both || side[from])
			}
		}
	}
	c.At(now+second/2+weir.Instant(c.random.Int64N(int64(12*second))), c.mood)
}

// sides puts each machine on one of two sides.
func (c *Cluster) sides() []bool {
	side := make([]bool, len(c.machines))
	for i := range side {
		side[i] = c.random.IntN(2) == 0
	}
	return side
}

// flip turns a direction of a link on or off, and again later.
func (c *Cluster) flip(now weir.Instant, from, to int, slow weir.Instant) {
	down := !c.links.down[from][to]
	c.links.down[from][to] = down
	if c.links.pairs {
		c.links.down[to][from] = down
	}
	long := weir.Instant(0)
	switch {
	case c.links.on > 0 && down:
		long = second/20 + weir.Instant(c.random.Int64N(int64(c.links.off*slow)))
	case c.links.on > 0:
		long = second/50 + weir.Instant(c.random.Int64N(int64(c.links.on)))
	default:
		mean := []weir.Instant{second / 20, second / 3, second, 3 * second, 20 * second}[[]int{0, 1, 1, 1, 2, 2, 2, 3, 3, 4}[c.random.IntN(10)]]
		if !down {
			mean = min(weir.Instant(float64(mean)*c.links.up), 20*second)
		}
		long = second/50 + weir.Instant(c.random.Float64()*2*float64(mean))
	}
	c.At(now+long, func(now weir.Instant) { c.flip(now, from, to, slow) })
}
