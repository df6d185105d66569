package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// units are the units of time as limits write them, longest first.
var units = []struct {
	name   string
	length time.Duration
}{
	{"day", 24 * time.Hour},
	{"h", time.Hour},
	{"min", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
	{"us", time.Microsecond},
}

// ParseTime reads a time as limits write it, such as 10min or 1day, or as Go
// does, such as 1h30m: 1us…407day in whole microseconds.
//
// A time has to be a whole number of microseconds, since instants are: half of one would be lost
// without a word.
func ParseTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = parseUnits(text)
	}
	switch {
	case err != nil:
		return 0, err
	case d < time.Microsecond || d%time.Microsecond != 0 || d > MaxDuration:
		return 0, fmt.Errorf("%s must be 1us…407day in whole microseconds", text)
	}
	return d, nil
}

func parseUnits(text string) (time.Duration, error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	n, err := strconv.ParseInt(text[:digits], 10, 64)
	for _, u := range units {
		switch {
		case err != nil || u.name != text[digits:]:
		case n > int64(MaxDuration/u.length):
			return 0, errors.New("it may be at most 407day")
		default:
			return time.Duration(n) * u.length, nil
		}
	}
	return 0, fmt.Errorf("%q is no time; write one such as 500ms, 30s, 10min or 24h", text)
}

// Units is d in the largest unit of which it is a whole number: so many, and the
// unit as limits write it.
func Units(d time.Duration) (n int64, unit string) {
	for _, u := range units {
		if d%u.length == 0 {
			return int64(d / u.length), u.name
		}
	}
	return d.Nanoseconds(), "ns"
}

// timeText is d as limits write it.
func timeText(d time.Duration) string {
	n, unit := Units(d)
	return strconv.FormatInt(n, 10) + unit
}
