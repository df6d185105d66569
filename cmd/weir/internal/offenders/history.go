package offenders

import (
	"math"
	"time"
)

// The bounds of the history of a rule.
const (
	// Step is how much time a point of the history has, if Tick is called in time.
	Step = 10 * time.Second
	// Steps is how many points are kept: an hour.
	Steps = 360
	ring  = Steps + 1 // ticks: the oldest point begins at one, too
)

// Point is what a rule passed and denied from the Point before it until To.
type Point struct {
	To     time.Time `json:"to"`
	Passed int64     `json:"passed"`
	Denied int64     `json:"denied"`
}

// row is the history of one rule, by the ticks of its Book.
type row struct {
	counts [ring]struct{ passed, denied uint32 }
	active int // the last tick that had something
}

// put sets what was counted until a tick. More than 2^32 − 1 in a Step is more
// than any machine decides.
func (r *row) put(tick int, passed, denied int64) {
	c := &r.counts[tick%ring]
	c.passed, c.denied = uint32(min(passed, math.MaxUint32)), uint32(min(denied, math.MaxUint32))
	if passed > 0 || denied > 0 {
		r.active = tick
	}
}
