package weir

import (
	"math"
	"math/bits"
	"time"
)

// Instant is a moment in whole microseconds since 1970-01-01T00:00:00Z. Limits
// decide on instants from 0 to the year 2112; earlier and later ones count as
// the nearest of these.
type Instant int64

// lastInstant leaves room for the longest state (71 years) below 2^53, the
// last integer that Redis's Lua, which counts in doubles, can hold exactly. That is also
// why instants are microseconds: nanoseconds since 1970 passed 2^53 in April of that year.
const lastInstant Instant = 1 << 52

// InstantOf is t, cut to the microsecond.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMicro()) }

// Time is the instant as a time in UTC.
func (i Instant) Time() time.Time { return time.UnixMicro(int64(i)).UTC() }

// Duration is the time from 1970 to the instant, or for a difference of two,
// the time between them.
func (i Instant) Duration() time.Duration { return duration(int64(i)) }

func (i Instant) clamp() Instant { return min(max(i, 0), lastInstant) }

// duration turns whole microseconds into a Duration. It saturates at 292
// years, beyond every bound of a limit.
func duration(us int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(min(us, most)) * time.Microsecond
}

// micros is d in whole microseconds, rounded up.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

// moment is an exact point or stretch of time: us + f/r microseconds, where r
// is the denominator of the interval it is used with and 0 ≤ f < r.
//
// "100/s" has an interval of 10,000 µs, but "7/s" one of 142,857 1/7 µs. If a state kept
// whole microseconds, each event would lose or win a part of one, and after a million
// events a client could have passed more than the limit says. With the fraction
// beside it, n events move a state by exactly n intervals, however they are cut into
// takes.
type moment struct {
	// us is whole microseconds: of a point in time since 1970, of a stretch its length.
	us int64
	// f counts parts of 1/r µs. As r is the den of an interval, and den divides a count of
	// at most MaxCount, f is below 2^30: gcra keeps it in 30 bits of a word.
	f uint64
}

// ceil is m in whole microseconds, rounded up. Takes happen at whole microseconds, so
// the first take that may pass is at the ceiling of the exact time: rounding up makes
// RetryAfter exact, not merely safe.
func (m moment) ceil() int64 {
	if m.f > 0 {
		return m.us + 1
	}
	return m.us
}

func (m moment) less(o moment) bool {
	return m.us < o.us || m.us == o.us && m.f < o.f
}

// capped is how far ahead a forced charge may move from a to next: up to full,
// but not back. A state that is beyond full already, by work that was settled for more than
// it was charged, stays where it is.
func capped(next, a, full moment) moment {
	switch {
	case !full.less(next):
		return next
	case full.less(a):
		return a
	default:
		return full
	}
}

// interval is the exact time from one event to the next at an even pace:
// num/den microseconds in lowest terms. A zero den stands for a pace of
// nothing at all.
//
// Lowest terms make it unique: 60/min and 1/s have the same interval, and so
// understand each other's states.
type interval struct {
	// num is at most MaxPeriod in microseconds, below 2^45, and den at most MaxCount,
	// 2^30. Only the idle time of warm-up is an interval with larger ones.
	num, den uint64
}

func newInterval(period time.Duration, events int64) interval {
	if events == 0 {
		return interval{}
	}
	p, n := uint64(period/time.Microsecond), uint64(events)
	g := gcd(p, n)
	return interval{num: p / g, den: n / g}
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// span is the exact time that n events take. n × num must stay below den × 2^63,
// which the bounds of a limit see to: it means that n events take less than 2^63 µs.
// The product has 128 bits, and the remainder of the division is the fraction, so
// nothing is rounded.
func (v interval) span(n int64) moment {
	hi, lo := bits.Mul64(uint64(n), v.num)
	q, r := bits.Div64(hi, lo, v.den)
	return moment{int64(q), r}
}

// events is how many whole events fit into the stretch m, which is not
// negative; at most the largest int64.
func (v interval) events(m moment) int64 {
	hi, lo := bits.Mul64(uint64(m.us), v.den)
	lo, carry := bits.Add64(lo, m.f, 0)
	if hi += carry; hi >= v.num {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, v.num)
	return int64(min(q, math.MaxInt64))
}

// eventsUp is events, rounded up. It is for what is in use: a part of an event that is
// not worked off is an event that can't pass yet.
func (v interval) eventsUp(m moment) int64 {
	n := v.events(m)
	if n < math.MaxInt64 && v.span(n).less(m) {
		n++
	}
	return n
}

// add is a + b. Both fractions are below den, so one carry is enough.
func (v interval) add(a, b moment) moment {
	s := moment{a.us + b.us, a.f + b.f}
	if s.f >= v.den {
		s.us, s.f = s.us+1, s.f-v.den
	}
	return s
}

// sub is a − b, with a fraction of 0…den − 1 also where the difference is below zero.
func (v interval) sub(a, b moment) moment {
	if a.f < b.f {
		return moment{a.us - b.us - 1, a.f + v.den - b.f}
	}
	return moment{a.us - b.us, a.f - b.f}
}

// owe is how far ahead cost events move a time from a, at most to lowest, which is
// the span of most events, and how many were counted.
func (v interval) owe(a, lowest moment, cost, most int64) (next moment, counted int64) {
	whole := v.add(a, v.span(min(cost, most)))
	if cost <= most && !lowest.less(whole) {
		return whole, cost
	}
	next = capped(whole, a, lowest)
	return next, v.events(v.sub(next, a))
}

// eventsIn is how many whole events fit into us microseconds.
func (v interval) eventsIn(us int64) int64 { return v.events(moment{us: us}) }

// ceilDiv is a/b rounded up, for a ≥ 0 and b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// times is a × b, at most the largest int64.
func times(a, b int64) int64 {
	if a != 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}

// plus is a + b, at most the largest int64.
func plus(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
