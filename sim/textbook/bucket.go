package textbook

import (
	"math/big"
	"time"

	"github.com/weir-limit/weir"
)

// TokenBucket is the token bucket as every book has it: a bucket of Burst
// tokens, refilled in proportion to the time that passed; an event takes a
// token along or does not pass. Tokens are exact fractions.
//
// It is right. It needs two numbers where GCRA needs one, and a store that
// keeps tokens as a float or cuts elapsed time loses some of them at each ask.
type TokenBucket struct {
	Rate  Rate
	Burst int64 // tokens of a full bucket
	// Debt is how far below nothing one take may go, while it finds a whole
	// token left: the price of work whose cost nobody knows before.
	Debt int64

	tokens *big.Rat // at last; nil for a bucket never used, which is full
	last   weir.Instant
}

// Tokens is how many tokens there are now.
func (b *TokenBucket) Tokens(now weir.Instant) *big.Rat {
	full := whole(b.Burst)
	if b.tokens == nil {
		return full
	}
	return smaller(sum(b.tokens, b.Rate.during(int64(now-b.last))), full)
}

// Fits is whether cost events may pass now.
func (b *TokenBucket) Fits(now weir.Instant, cost int64) bool {
	tokens := b.Tokens(now)
	left := difference(tokens, whole(cost))
	return left.Sign() >= 0 ||
		b.Debt > 0 && tokens.Cmp(whole(1)) >= 0 && left.Cmp(whole(-b.Debt)) >= 0
}

// Take is whether cost events may pass now, and takes their tokens if so.
func (b *TokenBucket) Take(now weir.Instant, cost int64) bool {
	fits := b.Fits(now, cost)
	b.tokens, b.last = b.Tokens(now), now
	if fits {
		b.tokens = difference(b.tokens, whole(cost))
	}
	return fits
}

// LeakyMeter is the leaky bucket as a meter, which is told beside the token
// bucket as if it were another rule: each event pours one unit into a bucket
// of Capacity that leaks at an even pace, and does not pass where it would
// overflow. Here a unit is Rate.Period parts, and Rate.Events parts leak each
// microsecond, so that all is whole numbers.
//
// It is right, and it is the token bucket upside down: what is missing in the
// one stands in the other.
type LeakyMeter struct {
	Rate     Rate
	Capacity int64

	level big.Int // in parts, at last
	last  weir.Instant
}

func (m *LeakyMeter) parts(units int64) *big.Int {
	n := big.NewInt(units)
	return n.Mul(n, big.NewInt(micros(m.Rate.Period)))
}

// leaked is the level after what has leaked out since the last take.
func (m *LeakyMeter) leaked(now weir.Instant) *big.Int {
	out := big.NewInt(int64(now - m.last))
	out.Mul(out, big.NewInt(m.Rate.Events))
	if out.Cmp(&m.level) > 0 {
		return new(big.Int)
	}
	return out.Sub(&m.level, out)
}

// Fits is whether the bucket holds cost events more.
func (m *LeakyMeter) Fits(now weir.Instant, cost int64) bool {
	level := m.leaked(now)
	return level.Add(level, m.parts(cost)).Cmp(m.parts(m.Capacity)) <= 0
}

// Take is whether the bucket holds cost events more, and pours them in if so.
func (m *LeakyMeter) Take(now weir.Instant, cost int64) bool {
	fits := m.Fits(now, cost)
	m.level.Set(m.leaked(now))
	m.last = now
	if fits {
		m.level.Add(&m.level, m.parts(cost))
	}
	return fits
}

// RefillWhole is the "token bucket" of many short articles: tokens count down,
// and when the window has elapsed the bucket is full again.
//
// It is a fixed window that opens with the first event after the last one
// closed, and like every fixed window it passes twice its count around an edge.
// Nothing trickles in: a client that empties it waits for the rest of the window.
type RefillWhole struct {
	Count  int64
	Period time.Duration

	used   bool
	tokens int64
	filled weir.Instant
}

// Take is whether cost tokens are left, and takes them if so.
func (b *RefillWhole) Take(now weir.Instant, cost int64) bool {
	if !b.used || int64(now-b.filled) >= micros(b.Period) {
		b.used, b.tokens, b.filled = true, b.Count, now
	}
	if cost > b.tokens {
		return false
	}
	b.tokens -= cost
	return true
}

// ExpiringBucket is a token bucket in a cache: it is dropped when nobody has
// asked for Idle, to save memory, and found full by the next who asks.
//
// It is right only where Idle is at least the time in which an empty bucket
// fills up. A minute of idleness on a limit of 100 a day gives 100 a minute to a client that pauses
// for it.
type ExpiringBucket struct {
	Bucket TokenBucket
	Idle   time.Duration
}

// Take is whether cost events may pass now, and takes their tokens if so.
func (b *ExpiringBucket) Take(now weir.Instant, cost int64) bool {
	if int64(now-b.Bucket.last) >= micros(b.Idle) {
		b.Bucket.tokens = nil
	}
	return b.Bucket.Take(now, cost)
}

// TruncatingBucket is a token bucket that measures elapsed time in whole
// seconds and takes the time of each ask for the time up to which it has
// refilled, as clocks in seconds invite one to.
//
// It loses the part of a second at every ask. Asked more often than once a
// second, it never refills.
type TruncatingBucket struct {
	PerSecond int64
	Burst     int64

	used   bool
	tokens int64
	last   weir.Instant
}

// Take is whether cost tokens are left, and takes them if so.
func (b *TruncatingBucket) Take(now weir.Instant, cost int64) bool {
	if !b.used {
		b.used, b.tokens, b.last = true, b.Burst, now
	}
	seconds := int64(now-b.last) / 1_000_000
	b.tokens = min(b.tokens+seconds*b.PerSecond, b.Burst)
	b.last = now
	if cost > b.tokens {
		return false
	}
	b.tokens -= cost
	return true
}
