// Package textbook holds the rate limiters of the literature, written as
// plainly as they are told. Some are right and slow: they count in fractions of
// any size and keep all that they are told, so that quicker forms can be held
// against them. Other limiters are told often and are wrong, or right only for some uses: here they
// can be tried, and their tests show the numbers.
//
//	right   TokenBucket  LeakyMeter  GCRA       three words for one rule
//	        LeakyQueue  FixedWindow  SlidingLog  SubWindows
//	less    RefillWhole  ExpiringBucket  TruncatingBucket  LiteralGCRA
//	        MillisecondPacer  SlidingCounter  OneByOne
//
// A model counts for one key. Its exported fields say what is allowed and must
// not change after the first take; the rest is its state, and the zero state is
// that of a key never seen. Periods are whole microseconds, costs are not
// negative, and time does not run backwards. A model is not for use by several
// goroutines.
package textbook

import (
	"math/big"
	"time"

	"github.com/weir-limit/weir"
)

// Model is a limiter of one key.
type Model interface {
	// Take is whether cost events may pass now, and counts them if so.
	Take(now weir.Instant, cost int64) bool
}

// Rate is a pace: Events every Period.
type Rate struct {
	Events int64
	Period time.Duration
}

// during is the exact number of events that the pace brings in us microseconds.
func (r Rate) during(us int64) *big.Rat {
	n := big.NewRat(r.Events, micros(r.Period))
	return n.Mul(n, whole(us))
}

// lasting is the exact time that n events take, in microseconds.
func (r Rate) lasting(n int64) *big.Rat {
	t := big.NewRat(micros(r.Period), r.Events)
	return t.Mul(t, whole(n))
}

func micros(d time.Duration) int64 { return int64(d / time.Microsecond) }

func whole(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func sum(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) }

func difference(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }

func larger(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

func smaller(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}
