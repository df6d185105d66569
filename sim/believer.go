package sim

import (
	"fmt"

	"github.com/weir-limit/weir"
)

// believer is what a limit believes of the last period, when it counts all that is
// asked and denies nobody.
//
// The question is how good the count is, not what the limit does with it. A limit that denies
// counts less than was asked, each algorithm other requests; then there would be no true count to
// compare them with. So the believer's limit has the largest count that its algorithm can have,
// and all that is asked is charged to it.
type believer struct {
	limit *weir.Limit // with the largest count that there is
	// They grow from nil, so keys that nobody asks for take no room.
	states []weir.State
	most   int64 // that it can believe
}

// newBeliever is nil for contenders that keep no count of the last period.
func newBeliever(c *Contender, keys int) *believer {
	s := c.Limit.Spec()
	// A bucket knows how full it is, and a queue when the next event may go. Neither says how many
	// events were in the last period.
	switch s.Algorithm {
	case weir.FixedWindow:
		s.Count = weir.MaxWindowCount
	case weir.SlidingWindow:
		s.Count = weir.MaxCount
	case weir.SlidingLog:
		s.Count = weir.MaxLogCount
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket, weir.LeakyQueue, weir.WarmUp, weir.Concurrent:
		return nil
	}
	if c.Naive != "" {
		return nil
	}
	if s.Calendar != weir.NoCalendar {
		s.Period = 0
	}
	s.CountDenied = false
	if s.Mode == weir.Relaxed {
		s.Mode = weir.Strict // believes the same, and says so in Remaining
	}
	l, err := s.Limit()
	if err != nil {
		panic(fmt.Sprintf("sim: %s with a larger count: %v", c.Limit, err)) // every count is fine with every other word
	}
	return &believer{limit: l, states: make([]weir.State, keys), most: s.Count}
}

// believes is the events of key in the last period.
func (b *believer) believes(now weir.Instant, key int32) int64 {
	if b.states[key] == nil {
		return 0
	}
	return b.limit.Used(b.states[key], now)
}

// count counts what is asked, and says what was believed before.
//
// The decision tells what remains after the charge: with the largest count, what was believed
// before is all but that and the cost. Beyond the largest count nothing is allowed any more. Then
// it is charged as work that is done, and Used tells the belief.
func (b *believer) count(now weir.Instant, key int32, cost int64) int64 {
	if b.states[key] == nil {
		b.states[key] = make(weir.State, b.limit.Words())
	}
	var d weir.Decision
	s := b.limit.Take(b.states[key], now, cost, &d)
	b.states[key] = s
	if d.Charged {
		return b.most - d.Remaining - cost
	}
	before := b.limit.Used(s, now)
	b.states[key] = b.limit.Charge(s, now, cost) // beyond the largest count
	return before
}
