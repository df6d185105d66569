package weir

import (
	"math"
	"math/bits"
	"time"
)

// Backoff says how long to wait before trying again what was denied or failed.
// The zero Backoff begins with 100 ms and ends with 10 s.
type Backoff struct {
	First time.Duration // the longest wait before the first retry; 0 or less: 100 ms
	Most  time.Duration // the longest of all; 0 or less: 10 s
}

const (
	defaultFirst = 100 * time.Millisecond
	defaultMost  = 10 * time.Second
)

// Delay is how long to wait before retry number try, counted from 0. It is after
// and, on top, a part of a span that random, 64 random bits, picks evenly. The
// span is First, doubled with each try, at least a tenth of after, and at most
// Most.
//
// after is what the other side asked for, as Decision.RetryAfter or a Retry-After
// field, or 0: then this is exponential backoff with full jitter (Brooker,
// "Exponential Backoff and Jitter", 2015). Delay is never less than after, and
// those who were denied together and told the same time don't come back together.
func (b Backoff) Delay(try int, after time.Duration, random uint64) time.Duration {
	after = max(after, 0)
	part, _ := bits.Mul64(random, uint64(b.span(try, after))+1)
	return after + min(time.Duration(part), math.MaxInt64-after)
}

// span is how wide the random part is: First doubled try times, without overflow, and at
// least a tenth of after, so that clients that were told the same long time spread out.
func (b Backoff) span(try int, after time.Duration) time.Duration {
	first, most := b.First, b.Most
	if first <= 0 {
		first = defaultFirst
	}
	if most <= 0 {
		most = defaultMost
	}
	for ; try > 0 && first < most; try-- {
		if first > most/2 {
			first = most
		} else {
			first *= 2
		}
	}
	return min(max(first, after/10), most)
}
