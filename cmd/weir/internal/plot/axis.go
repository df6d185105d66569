package plot

import (
	"math/bits"
	"strconv"
	"strings"
)

// Unit is what the integers of an axis count.
type Unit uint8

// The units.
const (
	Events     Unit = iota // whole things
	Micros                 // microseconds, shown in the largest unit that fits
	Millionths             // parts of one, shown in percent
	Fractions              // millionths of whole things, shown as numbers of these
)

// Axis is one side of a drawing. Its zero value counts things from 0 up to the
// largest that is drawn.
type Axis struct {
	Name     string
	Unit     Unit
	Min, Max int64 // what it shows at least; of time it shows no more
	Base     int64 // not 0: a scale of powers of this, with a place for 0 if that is drawn
	Ago      bool  // of time: 0 is now, and what is less was before it
}

// scale is where the values of an axis lie.
type scale struct {
	axis     Axis
	min, max int64
	from, to px
	zero     px      // where 0 is on a scale of powers; the powers begin at from
	step     int64   // between ticks
	marks    []int64 // the ticks of a scale of powers, but for 0
}

// newScale fits an axis to a side of a drawing and to the values there, with
// ticks that take so much room each.
func newScale(a Axis, from, to, room px, values []int64) scale {
	s := scale{axis: a, min: a.Min, max: max(a.Max, a.Min), from: from, to: to, zero: from}
	if a.Base > 1 {
		return s.powers(room, values)
	}
	if a.Unit != Micros || a.Max <= a.Min {
		for _, v := range values {
			s.min, s.max = min(s.min, v), max(s.max, v)
		}
	}
	s.max = max(s.max, s.min+1)
	s.step = niceStep(a.Unit, s.max-s.min, s.most(room))
	for _, whole := range []int64{hour, day} { // 6 h ago is read more easily than 360 min ago
		if a.Ago && s.max-s.min >= 2*whole {
			s.step = max(s.step, whole)
		}
	}
	if a.Unit == Fractions { // ticks at whole ones
		s.step = max(s.step, 1_000_000)
	}
	if a.Unit != Micros { // whole steps; time ends when it ends
		s.min = floorTo(s.min, s.step)
		s.max = -floorTo(-s.max, s.step)
	}
	return s
}

// most is how many ticks have room.
func (s scale) most(room px) int64 {
	return max(int64(max(s.to-s.from, s.from-s.to)/room), 1)
}

// powers makes a scale from the power at or below the least value to that at or above the
// largest. On a scale of powers of ten it also takes 2 and 5 times one, to end nearer to the values.
func (s scale) powers(room px, values []int64) scale {
	const largest = 1 << 50
	base := min(s.axis.Base, 1000)
	least, zero := int64(largest), false
	for _, v := range values {
		s.max = min(max(s.max, v), largest)
		zero = zero || v <= 0
		if v > 0 {
			least = min(least, v)
		}
	}
	digits := []int64{1}
	if base == 10 {
		digits = []int64{1, 2, 5}
	}
	var steps, whole []int64 // from end to end, and the powers among them
	for power := int64(1); power <= largest && len(steps) < 2 || last(steps) < s.max; power *= base {
		for _, digit := range digits {
			switch v := power * digit; {
			case v <= min(least, s.max):
				steps = []int64{v}
				whole = whole[:0]
			case len(steps) < 2 || last(steps) < s.max:
				steps = append(steps, v)
			default:
				continue
			}
			if digit == 1 {
				whole = append(whole, power)
			}
		}
	}
	s.min, s.max = steps[0], last(steps)
	if zero {
		s.from += (s.to - s.from) / 8
	}
	s.marks = steps
	for every := int64(1); int64(len(s.marks)) > s.most(room)+1; every++ {
		s.marks = nil
		for i := int64(0); i < int64(len(whole)); i += every {
			s.marks = append(s.marks, whole[i])
		}
	}
	return s
}

func floorTo(v, step int64) int64 {
	r := v % step
	if r < 0 {
		r += step
	}
	return v - r
}

// at is the place of a value; what is beyond an end is there.
func (s scale) at(v int64) px {
	if s.axis.Base > 1 && v <= 0 {
		return s.zero
	}
	v = min(max(v, s.min), s.max)
	if s.axis.Base > 1 {
		return s.place(uint64(doublings(v)-doublings(s.min)), uint64(doublings(s.max)-doublings(s.min)))
	}
	return s.place(uint64(v-s.min), uint64(s.max-s.min))
}

// place is part/whole of the way.
func (s scale) place(part, whole uint64) px {
	way, back := uint64(s.to-s.from), s.to < s.from
	if back {
		way = uint64(s.from - s.to)
	}
	hi, lo := bits.Mul64(part, way)
	lo, carry := bits.Add64(lo, whole/2, 0)
	n, _ := bits.Div64(hi+carry, lo, whole)
	if back {
		return s.from - px(n)
	}
	return s.from + px(n)
}

// doublings is the logarithm of v to the base of 2 in 1/65536, for v ≥ 1. Each
// squaring of what is left tells one binary digit more.
func doublings(v int64) int64 {
	whole := bits.Len64(uint64(v)) - 1
	m := uint64(v) << (63 - whole) // 1 ≤ m / 2^63 < 2
	log := int64(whole)
	for range 16 {
		hi, lo := bits.Mul64(m, m)
		log <<= 1
		if hi>>63 == 1 { // the square is 2 or more
			log |= 1
			m = hi
		} else {
			m = hi<<1 | lo>>63
		}
	}
	return log
}

// ticks are the values to mark.
func (s scale) ticks() []int64 {
	var out []int64
	if s.axis.Base > 1 {
		if s.zero != s.from {
			out = append(out, 0)
		}
		return append(out, s.marks...)
	}
	for v := -floorTo(-s.min, s.step); v <= s.max; v += s.step {
		out = append(out, v)
	}
	return out
}

// niceStep is the least step of 1, 2 or 5 times a power of ten, or of a usual
// length of time, with at most so many of them in a range.
func niceStep(u Unit, length, most int64) int64 {
	if u == Micros {
		for _, step := range times {
			if length/step <= most {
				return step
			}
		}
	}
	for power := int64(1); ; power *= 10 {
		for _, digit := range []int64{1, 2, 5} {
			if step := power * digit; length/step <= most || power > 1<<58 {
				return step
			}
		}
	}
}

const (
	millisecond = 1000
	second      = 1000 * millisecond
	minute      = 60 * second
	hour        = 60 * minute
	day         = 24 * hour
)

var times = [...]int64{
	1, 2, 5, 10, 20, 50, 100, 200, 500,
	1 * millisecond, 2 * millisecond, 5 * millisecond, 10 * millisecond, 20 * millisecond, 50 * millisecond, 100 * millisecond, 200 * millisecond, 500 * millisecond,
	1 * second, 2 * second, 5 * second, 10 * second, 15 * second, 30 * second,
	1 * minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute,
	1 * hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour,
	1 * day, 2 * day, 5 * day, 10 * day, 20 * day, 50 * day, 100 * day, 200 * day,
}

// label is a tick's value as text.
func (s scale) label(v int64) string {
	switch s.axis.Unit {
	case Micros:
		switch {
		case s.axis.Ago && v == 0:
			return "now"
		case s.axis.Ago && v < 0:
			return inUnit(-v, s.step) + " ago"
		}
		return inUnit(v, s.step)
	case Millionths:
		return decimal(v, 10_000) + " %"
	case Fractions:
		return decimal(v, 1_000_000)
	case Events:
	}
	return count(v)
}

// inUnit is a time in the largest unit that divides step.
func inUnit(v, step int64) string {
	if v == 0 {
		return "0"
	}
	for _, u := range []struct {
		name string
		us   int64
	}{{"d", day}, {"h", hour}, {"min", minute}, {"s", second}, {"ms", millisecond}} {
		if step%u.us == 0 {
			return count(v/u.us) + " " + u.name
		}
	}
	return count(v) + " µs"
}

// count is v with commas for thousands, or short where that is exact: 20k, 1.5M.
func count(v int64) string {
	const thousand, million, billion = 1e3, 1e6, 1e9
	switch size := max(v, -v); {
	case size >= billion && v%(billion/10) == 0:
		return decimal(v, billion) + "G"
	case size >= million && v%(million/10) == 0:
		return decimal(v, million) + "M"
	case size >= 10*thousand && v%thousand == 0:
		return strconv.FormatInt(v/thousand, 10) + "k"
	}
	return Grouped(v, ",")
}

// Grouped is v with a mark between its thousands.
func Grouped(v int64, mark string) string {
	text := strconv.FormatInt(v, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + mark + text[i:]
	}
	return text
}

// decimal is v/scale, where scale is a power of ten.
func decimal(v, scale int64) string {
	whole, part := v/scale, v%scale
	if part == 0 {
		return count(whole)
	}
	sign := ""
	if v < 0 {
		sign, whole, part = "-", -whole, -part
	}
	digits := strconv.FormatInt(scale+part, 10)[1:]
	return sign + count(whole) + "." + strings.TrimRight(digits, "0")
}
