package overload

import "time"

const (
	// interval is how often the limit changes. What waits too long half of that
	// time waits for more than chance.
	interval = 100 * time.Millisecond
	// patience is how many intervals in a row it takes until there is a limit: a
	// process that is held up, as by a quota of processor time, is not overloaded.
	patience = 3
	// lateMost is which part of calls may be late without being too many.
	lateMost = 1.0 / 16
	// least is the lowest limit: few enough not to wait for long, enough to keep
	// processors busy.
	least = 64
	// unlimited is from where on there is no limit.
	unlimited = 1 << 14
)

// controller finds how many calls in flight wait for target: by Little's law
// those that are decided in that time. The zero controller has no limit.
type controller struct {
	limit float64
	over  int // intervals in a row in which there was too much
}

// tick takes what happened in an interval: how long work waited, how many calls
// were decided in a second, and which part of the calls was late. It returns
// the limit, or 0.
func (c *controller) tick(wait time.Duration, rate, late float64) int {
	if late > lateMost {
		wait = max(wait, most+1) // it waited where nobody measures
	}
	if wait > most {
		c.over++
	} else {
		c.over = 0
	}
	switch {
	case c.limit == 0 && c.over >= patience:
		c.limit = max(rate*target.Seconds(), least)
	case c.limit > 0 && wait > target:
		c.limit = max(c.limit*max(0.5, float64(target)/float64(wait)), least)
	case c.limit > 0 && wait < target/2:
		c.limit += c.limit / 8
	}
	if c.limit > unlimited {
		c.limit = 0
	}
	return int(c.limit)
}
