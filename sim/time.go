package sim

import (
	"cmp"
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

// spellings are what else the units are called when they are read; limits read the same.
var spellings = map[string]string{
	"days": "day", "hour": "h", "hours": "h", "minute": "min", "minutes": "min", "mins": "min",
	"sec": "s", "secs": "s", "second": "s", "seconds": "s",
}

// ParseTime reads a time as limits write it, such as 10min, 1day or 2week, or as Go
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
	length := unitLength(text[digits:])
	switch {
	case err != nil && digits == 0 || length == 0:
		return 0, fmt.Errorf("%q is no time; write one such as 500ms, 30s, 10min, 2h or 1day", text)
	case err != nil || n > int64(MaxDuration/length):
		return 0, errors.New("it may be at most 407day")
	}
	return time.Duration(n) * length, nil
}

// unitLength is 0 for what is no unit.
func unitLength(name string) time.Duration {
	if name == "week" || name == "weeks" { // read, and never printed
		return 7 * 24 * time.Hour
	}
	name = cmp.Or(spellings[name], name)
	for _, u := range units {
		if u.name == name {
			return u.length
		}
	}
	return 0
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

// TimeText is d as limits write it, in the largest unit of which it is a whole number: 90min, 7day.
func TimeText(d time.Duration) string {
	n, unit := Units(d)
	return strconv.FormatInt(n, 10) + unit
}
