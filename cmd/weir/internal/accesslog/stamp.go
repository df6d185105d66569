package accesslog

import (
	"time"

	"github.com/weir-limit/weir"
)

// parseTime reads the time of a line, cut to the microsecond:
//
//	17/May/2015:10:05:03 +0000            common log format
//	2015-05-17T10:05:03.123456Z           RFC 3339; a blank for the T, slashes, a comma and no zone (UTC) will do
//	1431857103.123                        since 1970
//
// A number counts seconds when it has up to 11 digits before the point, then
// milliseconds (to 14), microseconds (to 17) and nanoseconds (to 20).
func parseTime(b []byte) (weir.Instant, bool) {
	switch {
	case len(b) > 2 && b[2] == '/':
		s := stamp{rest: b}
		return s.civil(s.clfDate())
	case len(b) > 4 && (b[4] == '-' || b[4] == '/'):
		s := stamp{rest: b}
		return s.civil(s.isoDate())
	}
	return parseEpoch(b)
}

// lastStamp is the time that was read last: in most logs many lines have the
// same.
type lastStamp struct {
	text [maxStamp]byte
	n    int
	at   weir.Instant
}

func (l *lastStamp) parse(b []byte) (weir.Instant, bool) {
	if l.n > 0 && string(b) == string(l.text[:l.n]) {
		return l.at, true
	}
	at, ok := parseTime(b)
	if ok && len(b) <= len(l.text) {
		l.n, l.at = copy(l.text[:], b), at
	}
	return at, ok
}

// stamp is the rest of a time that is being read.
type stamp struct {
	rest []byte
	bad  bool
}

// number takes n digits.
func (s *stamp) number(n int) int {
	if len(s.rest) < n {
		s.bad = true
		return 0
	}
	v := 0
	for _, c := range s.rest[:n] {
		if !isDigit(c) {
			s.bad = true
			return 0
		}
		v = v*10 + int(c-'0')
	}
	s.rest = s.rest[n:]
	return v
}

// skip takes one byte, which has to be one of those wanted.
func (s *stamp) skip(wanted ...byte) byte {
	if len(s.rest) > 0 {
		for _, c := range wanted {
			if s.rest[0] == c {
				s.rest = s.rest[1:]
				return c
			}
		}
	}
	s.bad = true
	return 0
}

// at is whether the next byte is one of those wanted.
func (s *stamp) at(wanted ...byte) bool {
	for _, c := range wanted {
		if len(s.rest) > 0 && s.rest[0] == c {
			return true
		}
	}
	return false
}

func (s *stamp) clfDate() (year int, month time.Month, day int) {
	day = s.number(2)
	s.skip('/')
	if len(s.rest) < 3 {
		s.bad = true
		return 0, 0, 0
	}
	month = monthOf(string(s.rest[:3]))
	s.rest = s.rest[3:]
	s.skip('/')
	year = s.number(4)
	s.skip(':')
	return year, month, day
}

func (s *stamp) isoDate() (year int, month time.Month, day int) {
	year = s.number(4)
	s.skip('-', '/')
	month = time.Month(s.number(2))
	s.skip('-', '/')
	day = s.number(2)
	s.skip('T', 't', ' ')
	return year, month, day
}

// monthOf is the month of that English abbreviation, 0 for none.
func monthOf(name string) time.Month {
	switch name {
	case "Jan":
		return time.January
	case "Feb":
		return time.February
	case "Mar":
		return time.March
	case "Apr":
		return time.April
	case "May":
		return time.May
	case "Jun":
		return time.June
	case "Jul":
		return time.July
	case "Aug":
		return time.August
	case "Sep":
		return time.September
	case "Oct":
		return time.October
	case "Nov":
		return time.November
	case "Dec":
		return time.December
	}
	return 0
}

// civil reads the time of day and the zone that follow a date, to the end.
func (s *stamp) civil(year int, month time.Month, day int) (weir.Instant, bool) {
	hour := s.number(2)
	s.skip(':')
	minute := s.number(2)
	s.skip(':')
	second := s.number(2)
	us := 0
	if s.at('.', ',') {
		s.rest = s.rest[1:]
		us = s.micros()
	}
	zone := s.zone()
	switch {
	case s.bad || len(s.rest) > 0:
		return 0, false
	case month < 1 || month > 12 || day < 1 || day > daysIn(month, year):
		return 0, false
	case hour > 23 || minute > 59 || second > 60: // 60 is a leap second
		return 0, false
	}
	t := time.Date(year, month, day, hour, minute-zone, second, 0, time.UTC)
	return weir.Instant(t.UnixMicro() + int64(us)), true
}

// micros takes the digits of a fraction of a second.
func (s *stamp) micros() int {
	us, n := 0, 0
	for ; len(s.rest) > 0 && isDigit(s.rest[0]); s.rest = s.rest[1:] {
		if n++; n <= 6 {
			us = us*10 + int(s.rest[0]-'0')
		}
	}
	s.bad = s.bad || n == 0
	for ; n < 6; n++ {
		us *= 10
	}
	return us
}

// zone takes a zone and returns the minutes by which it is ahead of UTC.
func (s *stamp) zone() int {
	if s.at(' ') {
		s.rest = s.rest[1:]
	}
	if len(s.rest) == 0 {
		return 0
	}
	sign := s.skip('Z', 'z', '+', '-')
	if sign == 'Z' || sign == 'z' {
		return 0
	}
	minutes := 60 * s.number(2)
	if s.at(':') {
		s.rest = s.rest[1:]
	}
	rest := s.number(2)
	s.bad = s.bad || minutes >= 24*60 || rest > 59
	if sign == '-' {
		return -minutes - rest
	}
	return minutes + rest
}

func daysIn(m time.Month, year int) int {
	switch m {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}
