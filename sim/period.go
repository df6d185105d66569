package sim

import (
	"github.com/weir-limit/weir"
)

// MaxRemembered is how many requests the exact logs of a run remember, each 16
// bytes: as many may come in one period.
const MaxRemembered = 1 << 23

// period is an exact log of the last period of every key, in one queue.
type period struct {
	length weir.Instant
	sums   []int64 // by key
	queue  []stamp
}

// stamp is events of a key at an instant.
type stamp struct {
	at   weir.Instant
	key  int32
	cost int32
}

func newPeriod(us int64, keys int) *period {
	return &period{length: weir.Instant(us), sums: make([]int64, keys)}
}

// to moves on to now: what lies in (now − length, now] counts.
func (p *period) to(now weir.Instant) {
	for len(p.queue) > 0 && p.queue[0].at <= now-p.length {
		p.sums[p.queue[0].key] -= int64(p.queue[0].cost)
		p.queue = p.queue[1:]
	}
}

// add counts events at now, to which p was moved.
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
