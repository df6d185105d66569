package gossip

import "time"

// The packet budget.
const (
	// maxPackets is how many packets a second go to one member. Above, more
	// messages share a packet. Twice as many are taken from one.
	maxPackets = 20_000

	packetBurst = 256
)

// budget is a right to some packets a second. The zero value has a burst.
type budget struct {
	used  int64 // packets of the burst, at since
	since time.Duration
}

// take is whether one more packet may go at now, at pace a second and bursts of burst.
func (b *budget) take(now time.Duration, pace, burst int64) bool {
	each := int64(time.Second) / pace
	if fresh := int64(now-b.since) / each; fresh > 0 {
		b.used = max(b.used-fresh, 0)
		b.since += time.Duration(fresh * each)
	}
	if b.used >= burst {
		return false
	}
	b.used++
	return true
}
