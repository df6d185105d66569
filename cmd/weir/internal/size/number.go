package size

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// ParseCount reads a number of things, such as 1500, 10M, 2.5k or 1G.
func ParseCount(text string) (int64, error) {
	unit := int64(1)
	digits := text
	if n := len(text); n > 0 {
		switch text[n-1] {
		case 'k', 'K':
			unit, digits = 1_000, text[:n-1]
		case 'm', 'M':
			unit, digits = 1_000_000, text[:n-1]
		case 'g', 'G':
			unit, digits = 1_000_000_000, text[:n-1]
		}
	}
	whole, fraction, point := strings.Cut(digits, ".")
	wrong := fmt.Errorf("%q is no number such as 1500, 10M or 2.5k", text)
	v, err := strconv.ParseUint(whole, 10, 63)
	if err != nil {
		return 0, wrong
	}
	n := times(int64(v), unit)
	if !point {
		return n, nil
	}
	if fraction == "" {
		return 0, wrong
	}
	for _, c := range fraction {
		if unit /= 10; c < '0' || c > '9' || unit == 0 {
			return 0, wrong
		}
		if n += unit * int64(c-'0'); n < 0 {
			return math.MaxInt64, nil
		}
	}
	return n, nil
}

// Count is a number with its thousands apart.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Bytes is a size in words, rounded up to three digits.
func Bytes(n int64) string {
	unit, name := int64(1), "B"
	for _, next := range [...]string{"kB", "MB", "GB", "TB", "PB"} {
		if n/unit < 1000 {
			break
		}
		unit, name = unit*1000, next
	}
	switch {
	case unit == 1 || n/unit >= 100:
		return fmt.Sprintf("%d %s", up(n, unit), name)
	case n/unit >= 10:
		tenths := up(n, unit/10)
		return fmt.Sprintf("%d.%d %s", tenths/10, tenths%10, name)
	}
	hundredths := up(n, unit/100)
	return fmt.Sprintf("%d.%02d %s", hundredths/100, hundredths%100, name)
}

// percent is ns of a second in percent of one processor, rounded up.
func percent(ns int64) int64 { return up(ns, 10_000_000) }

// up is a/b, rounded up.
func up(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// times is a × b, at most the largest int64: beyond, all is absurd alike.
func times(a, b int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}
