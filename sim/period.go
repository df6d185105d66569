package sim

import (
	"github.com/weir-limit/weir"
)

// MaxRemembered is how many requests the exact logs of a run remember, each 16
// bytes: as many may come in one period.
//
// A run has three such logs, so their stamps take 384 MiB at most.
const MaxRemembered = 1 << 23

// period is an exact log of the last period of every key, in one queue.
//
// It is the oracle: nothing is rounded, put into buckets or estimated. One queue serves all keys,
// as time never goes back: what was added first leaves first, whichever key it is of. sums[key] is
// at any time the sum of that key's stamps in the queue.
//
// A run has three of them, and each answers another question: what was asked for (tally.seen),
// what went (gone), and what should have gone (missed).
type period struct {
	length weir.Instant
	sums   []int64 // by key
	queue  []stamp
}

// stamp is events of a key at an instant.
//
// A cost is at most weir.MaxCount, 2^30, so it fits an int32.
type stamp struct {
	at   weir.Instant
	key  int32
	cost int32
}

func newPeriod(us int64, keys int) *period {
	return &period{length: weir.Instant(us), sums: make([]int64, keys)}
}

// to moves on to now: what lies in (now − length, now] counts.
//
// Each stamp enters once and leaves once, so a run costs time in proportion to its requests,
// however long the period is. The queue is cut at its front; append moves what is left to new
// memory when it needs to.
func (p *period) to(now weir.Instant) {
	for len(p.queue) > 0 && p.queue[0].at <= now-p.length {
		p.sums[p.queue[0].key] -= int64(p.queue[0].cost)
		p.queue = p.queue[1:]
	}
}

// add counts events at now, to which p was moved.
//
// The order is the caller's to keep: to(now) comes before add(now), and no now is before the last.
func (p *period) add(now weir.Instant, key int32, cost int64) error {
	if cost == 0 {
		return nil
	}
	if len(p.queue) == MaxRemembered {
		return inputf("more than %d requests come in one period of the limit; take a shorter period, or a lower rate", MaxRemembered)
	}
	p.queue = append(p.queue, stamp{now, key, int32(cost)})
	p.sums[key] += cost
	return nil
}
