package rlqs

import (
	"math/bits"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

func paceOf(l *weir.Limit) int64 { return rules.Pace(l) }

// mulDiv is a × b / c, rounded down, for a and b that are not negative and b no more than c.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}

// level is how much each may have at most, so that all together have no more than room and nobody could have more
// without somebody having less: max–min shares. Whoever wants less has what it wants. wants is sorted by it.
func level(wants []int64, room int64) int64 {
	slices.Sort(wants)
	for i, w := range wants {
		left := int64(len(wants) - i)
		if w > room/left {
			return room / left
		}
		room -= w
	}
	return unbounded
}

// unbounded is the level where there is room for all.
const unbounded = int64(1) << 50

// smoothed is a demand after a report of some events, where so many were expected by what was known: the mean of the
// last two, or at once what is told where that is no accident: it is off by more than three times the root of what was
// expected.
func smoothed(before, told, expected, events int64) (demand int64, moved bool) {
	if off := events - expected; off*off > 9*max(expected, events) {
		return told, true
	}
	return (before + told) / 2, false
}

// filled is a bucket that fills at up to a pace, in events a minute: so many events each so many whole
// seconds. Envoy reads whole seconds alone, and fills evenly in between. The pace that comes of it is at most a hundredth less,
// where that can be told.
func filled(pace int64) (events, seconds, is int64) {
	for _, seconds = range []int64{1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60} {
		events = pace * seconds / 60
		if is = events * (60 / seconds); is >= pace-pace/100 {
			break
		}
	}
	return events, seconds, is
}
