package accesslog

import (
	"bytes"
	"strings"
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
		return parseCivil("02/Jan/2006:15:04:05", b)
	case len(b) > 10 && isOne(b[4], "-/") && isOne(b[7], "-/") && isOne(b[10], "Tt "):
		return parseCivil("2006"+string(b[4])+"01"+string(b[7])+"02"+string(b[10])+"15:04:05", b)
	}
	return parseEpoch(b)
}

func isOne(c byte, of string) bool { return strings.IndexByte(of, c) >= 0 }

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

// parseCivil reads a time by its layout, and the fraction of a second and the zone
// that may follow it. The second 60 is a leap second.
func parseCivil(layout string, b []byte) (weir.Instant, bool) {
	n := len(layout)
	if len(b) < n {
		return 0, false
	}
	clock, zone := string(b), []byte(nil)
	if at := bytes.IndexAny(b[n:], " Zz+-"); at >= 0 {
		clock, zone = clock[:n+at], b[n+at:]
	}
	leap := time.Duration(0)
	if clock[n-2:n] == "60" {
		clock, leap = clock[:n-2]+"59"+clock[n:], time.Second
	}
	t, err := time.Parse(layout, clock)
	ahead, ok := parseZone(zone)
	return weir.Instant(t.Add(leap - ahead).UnixMicro()), err == nil && ok
}

// parseZone is how far a zone is ahead of UTC, which it is without a word.
func parseZone(b []byte) (ahead time.Duration, ok bool) {
	b = bytes.TrimPrefix(b, []byte(" "))
	if len(b) == 0 || len(b) == 1 && isOne(b[0], "Zz") {
		return 0, true
	}
	layout := "15:04"
	if len(b) == len("+0000") {
		layout = "1504"
	}
	t, err := time.Parse(layout, string(b[1:]))
	ahead = time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	if b[0] == '-' {
		ahead = -ahead
	}
	return ahead, err == nil && isOne(b[0], "+-")
}
