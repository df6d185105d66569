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
	queue  []stamp // a ring; its length is a power of two
	head   int
	n      int
}

// stamp is events of a key at an instant.
type stamp struct {
	at   weir.Instant
	key  int32
	cost int32
}

func newPeriod(us int64, keys int) *period {
	return &period{length: weir.Instant(us), sums: make([]int64, keys), queue: make([]stamp, 1024)}
}

// to moves on to now: what lies in (now − length, now] counts.
func (p *period) to(now weir.Instant) {
	for p.n > 0 {
		s := &p.queue[p.head]
		if s.at > now-p.length {
			return
		}
		p.sums[s.key] -= int64(s.cost)
		p.head = (p.head + 1) & (len(p.queue) - 1)
		p.n--
	}
}

// add counts events at now, to which p was moved.
func (p *period) add(now weir.Instant, key int32, cost int64) error {
	if cost == 0 {
		return nil
	}
	if p.n == len(p.queue) {
		if p.n == MaxRemembered {
			return inputf("more than %d requests come in one period of the limit; take a shorter period, or a lower rate", MaxRemembered)
		}
		larger := make([]stamp, 2*p.n)
		copy(larger[copy(larger, p.queue[p.head:]):], p.queue[:p.head])
		p.queue, p.head = larger, 0
	}
	p.queue[(p.head+p.n)&(len(p.queue)-1)] = stamp{now, key, int32(cost)}
	p.n++
	p.sums[key] += cost
	return nil
}
