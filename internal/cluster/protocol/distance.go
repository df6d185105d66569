package protocol

import (
	"time"

	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
)

// Distance is how long it takes another node to answer: a round trip, smoothed. 0: not
// known, so near.
type Distance time.Duration

// MaxDistance is the longest round trip that is believed.
const MaxDistance = time.Second

// Measure takes a round trip into account: one that is longer by an eighth, as in RFC
// 6298, and one that is shorter by half. A longer trip may have waited somewhere.
func (d Distance) Measure(trip time.Duration) Distance {
	trip = min(max(trip, 1), MaxDistance)
	if d == 0 {
		return Distance(trip)
	}
	if more := Distance(trip) - d; more > 0 {
		return d + more/8
	}
	return (d + Distance(trip)) / 2
}

// Retry is when an ask without an answer is sent again.
func (d Distance) Retry() time.Duration { return min(max(Retry, 3*time.Duration(d)), member.Life/2) }

// Patience is how long a request waits for the owner.
func (d Distance) Patience() time.Duration {
	return min(max(Patience, 2*time.Duration(d)), maxPatience)
}

// maxPatience is how long a request waits for an owner that is far away.
const maxPatience = 500 * time.Millisecond

// Asks is how long one ask goes on, before the node begins anew: what comes later than
// that has little of its Life left.
func (d Distance) Asks() time.Duration {
	return min(max(member.Life/2, 2*time.Duration(d)), member.Life*3/4)
}

// Far is whether a node that is so far away can't be asked again as soon as others.
func (d Distance) Far() bool { return d.Retry() > Retry }

// During is how many events are wanted until an owner that is far away answers, of so many
// in a Horizon.
func (d Distance) During(demand int64) int64 {
	if !d.Far() {
		return 0
	}
	return bounds.Part(demand, int64(d), int64(Horizon))
}
