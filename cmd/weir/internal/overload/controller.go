package overload

import "time"

const (
	// interval is how often the limit changes.
	interval = 50 * time.Millisecond
	// least is the lowest limit that stands: few enough not to wait for long,
	// enough to keep processors busy.
	least = 64
	// perProcessor is how many calls in flight wait for about target when one
	// takes 10 to 20 µs.
	perProcessor = 256
	// perConnection is how many calls a connection may have where there is time
	// for all of them.
	perConnection = 8
	// unlimited is from where on there is no limit.
	unlimited = 1 << 14
	// unused is after how many intervals a limit goes that nobody comes up to:
	// after 2 s, as clients that were refused are told to come back after one.
	unused = 40
)

// controller finds how many calls in flight wait for target.
type controller struct {
	limit float64
	// first is the limit that a listener begins with, or, unless it stands, gets when
	// there is too much.
	first    float64
	standing bool // there is always a limit
	idle     int  // intervals in which nobody came up to it
}

// tick takes what happened in an interval: how long work waited, how many
// connections were in use, and how many calls are being decided. It returns the
// limit, or 0.
func (c *controller) tick(wait time.Duration, connections, deciding int64) int {
	binds := c.standing || connections >= int64(c.limit)
	c.idle++
	if binds {
		c.idle = 0
	}
	switch {
	case c.limit == 0 && wait > most:
		c.limit = c.first
	case wait > most:
		c.limit *= max(0.25, float64(target)/float64(wait))
	case wait < target/2 && binds:
		c.limit += c.limit / 8
	}
	floor := c.first // who is over the limit is refused
	if c.standing {
		floor = least // only held back
	}
	if c.limit > 0 {
		c.limit = max(c.limit, floor)
	}
	// Calls that are being decided and wait for no processor wait for a store.
	ceiling := max(c.first, float64(perConnection*connections), float64(2*deciding))
	switch {
	case c.standing:
		c.limit = min(c.limit, ceiling)
	case c.limit > unlimited || c.idle >= unused:
		c.limit = 0
	}
	return int(c.limit)
}
