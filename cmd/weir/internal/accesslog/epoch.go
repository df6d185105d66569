package accesslog

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/weir-limit/weir"
)

// parseEpoch reads a number of seconds, milliseconds, microseconds or
// nanoseconds since 1970, by its digits, so that no time passes through a float.
func parseEpoch(b []byte) (weir.Instant, bool) {
	number, power, ok := cutExponent(b)
	whole, part, point := strings.Cut(number, ".")
	if !ok || !allDigits(whole) || point && !allDigits(part) {
		return 0, false
	}
	digits := strings.TrimLeft(whole+part, "0")
	before := len(digits) - len(part) + power // digits before the point
	var scale int                             // power of ten from the number's unit to microseconds
	switch {
	case before <= 11:
		scale = 6
	case before <= 14:
		scale = 3
	case before <= 17:
		scale = 0
	case before <= 20:
		scale = -3
	default:
		return 0, false
	}
	const zeros = "00000000000000000" // as many as an instant has digits
	us, err := strconv.ParseInt("0"+(digits + zeros)[:max(before+scale, 0)], 10, 64)
	return weir.Instant(us), err == nil
}

// cutExponent takes the exponent, of at most two digits, off a number.
func cutExponent(b []byte) (number string, exponent int, ok bool) {
	at := bytes.IndexAny(b, "eE")
	if at < 0 {
		return string(b), 0, true
	}
	exponent, err := strconv.Atoi(string(b[at+1:]))
	return string(b[:at]), exponent, err == nil && -100 < exponent && exponent < 100
}

// allDigits is whether text is a number of digits only.
func allDigits(text string) bool {
	return text != "" && strings.TrimLeft(text, "0123456789") == ""
}
