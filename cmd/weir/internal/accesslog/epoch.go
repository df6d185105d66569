package accesslog

import "github.com/weir-limit/weir"

// decimal is a number as its digits, so that no time passes through a float.
type decimal struct {
	digits []byte // with the point among them, from the first that is not 0
	point  int    // how many digits are before the decimal point
}

// parseEpoch reads a number of seconds, milliseconds, microseconds or
// nanoseconds since 1970.
func parseEpoch(b []byte) (weir.Instant, bool) {
	d, ok := parseDecimal(b)
	if !ok {
		return 0, false
	}
	var scale int // power of ten from the number's unit to microseconds
	switch {
	case d.point <= 11:
		scale = 6
	case d.point <= 14:
		scale = 3
	case d.point <= 17:
		scale = 0
	case d.point <= 20:
		scale = -3
	default:
		return 0, false
	}
	return weir.Instant(d.whole(d.point + scale)), true
}

// whole is the number that the first n digits make, n at most 17.
func (d decimal) whole(n int) int64 {
	v := int64(0)
	for _, c := range d.digits {
		if n <= 0 {
			return v
		}
		if c != '.' {
			v = v*10 + int64(c-'0')
			n--
		}
	}
	for ; n > 0; n-- {
		v *= 10
	}
	return v
}

// parseDecimal reads digits, which may have a point and an exponent.
func parseDecimal(b []byte) (decimal, bool) {
	number, exponent, ok := cutExponent(b)
	if !ok || len(number) == 0 || !isDigit(number[0]) || !isDigit(number[len(number)-1]) {
		return decimal{}, false
	}
	for len(number) > 1 && number[0] == '0' && number[1] != '.' {
		number = number[1:]
	}
	d := decimal{digits: number, point: -1}
	for i, c := range number {
		switch {
		case c == '.' && d.point < 0:
			d.point = i
		case !isDigit(c):
			return decimal{}, false
		}
	}
	if d.point < 0 {
		d.point = len(number)
	}
	// A number below 1 has one 0 before the point, which is no digit of it.
	d.point += exponent
	for len(d.digits) > 1 && (d.digits[0] == '0' || d.digits[0] == '.') {
		if d.digits[0] == '0' {
			d.point--
		}
		d.digits = d.digits[1:]
	}
	return d, true
}

// cutExponent takes the exponent, of at most two digits, off a number.
func cutExponent(b []byte) (number []byte, exponent int, ok bool) {
	for i, c := range b {
		if c|0x20 != 'e' {
			continue
		}
		s := stamp{rest: b[i+1:]}
		sign := byte('+')
		if s.at('+', '-') {
			sign = s.skip('+', '-')
		}
		n := len(s.rest)
		exponent = s.number(n)
		if s.bad || n < 1 || n > 2 {
			return nil, 0, false
		}
		if sign == '-' {
			exponent = -exponent
		}
		return b[:i], exponent, true
	}
	return b, 0, true
}
