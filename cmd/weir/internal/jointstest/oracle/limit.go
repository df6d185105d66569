// Package oracle says what limits must let pass and must deny, from the history of
// what passed and what was given back. It shares no code with what it judges: it
// keeps no state of an algorithm, but adds up a history and compares the sum with
// what docs/algorithms.md promises of an interval.
package oracle

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Limit is a limit as a story writes it.
type Limit struct {
	Name string // empty: it has none
	Text string // as in a rule file

	Algorithm string
	Mode      string // strict, relaxed, conservative, or empty
	Unit      string
	Count     int64
	Period    int64 // microseconds
	Burst     int64
	Debt      int64
	Subs      int64 // sub-windows
	TTL       int64 // microseconds
	Anchored  bool
	// CountDenied is whether denials count, too.
	CountDenied bool
}

const (
	bucket = "gcra"
	fixed  = "fixed-window"
	logged = "sliding-log"
	slide  = "sliding-window"
	queue  = "leaky-queue"
	permit = "concurrent"
)

var units = map[string]time.Duration{
	"s": time.Second, "min": time.Minute, "h": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour,
	"month": 30 * 24 * time.Hour, "year": 365 * 24 * time.Hour,
}

// Parse reads a limit, as 10/min sliding-log count-denied or m=10/min.
func Parse(text string) (Limit, error) {
	l := Limit{Algorithm: bucket, Subs: 1}
	name, rest, named := strings.Cut(text, "=")
	if named {
		l.Name, text = name, rest
	}
	l.Text = strings.TrimSpace(text)
	words := strings.Fields(l.Text)
	if len(words) == 0 {
		return l, fmt.Errorf("no limit")
	}
	count, per, rate := strings.Cut(words[0], "/")
	var err error
	if l.Count, err = strconv.ParseInt(count, 10, 64); err != nil {
		return l, fmt.Errorf("limit %q: %w", text, err)
	}
	if rate {
		l.Unit = strings.TrimLeft(per, "0123456789")
		n := int64(1)
		if digits := strings.TrimSuffix(per, l.Unit); digits != "" {
			n, _ = strconv.ParseInt(digits, 10, 64)
		}
		unit, ok := units[l.Unit]
		if !ok {
			return l, fmt.Errorf("limit %q: no unit %q", text, l.Unit)
		}
		l.Period = n * unit.Microseconds()
	}
	return l, l.words(words[1:])
}

func (l *Limit) words(words []string) error {
	number := func(i int) (n int64) {
		if i < len(words) {
			n, _ = strconv.ParseInt(words[i], 10, 64)
		}
		return n
	}
	l.Burst = l.Count
	for i := 0; i < len(words); i++ {
		switch w := words[i]; w {
		case fixed, logged, queue:
			l.Algorithm = w
		case slide:
			l.Algorithm = w
			if n := number(i + 1); n > 0 {
				l.Subs, i = n, i+1
			}
		case permit:
			l.Algorithm, l.TTL = w, time.Minute.Microseconds()
		case "strict", "relaxed", "conservative":
			l.Mode = w
		case "anchored":
			l.Anchored = true
		case "count-denied":
			l.CountDenied = true
		case "burst":
			l.Burst, i = number(i+1), i+1
		case "queue":
			l.Burst, i = number(i+1), i+1
		case "debt":
			l.Debt, i = number(i+1), i+1
		case "ttl":
			d, err := time.ParseDuration(strings.Replace(words[i+1], "min", "m", 1))
			if err != nil {
				return err
			}
			l.TTL, i = d.Microseconds(), i+1
		default:
			return fmt.Errorf("limit %q: no word %q", l.Text, w)
		}
	}
	if l.Algorithm == queue {
		l.Burst++ // one goes at once
	}
	return nil
}

// String is the limit as Parse reads it.
func (l Limit) String() string {
	if l.Name == "" {
		return l.Text
	}
	return l.Name + "=" + l.Text
}

// civil is whether windows go by the calendar.
func (l *Limit) civil() bool {
	return l.Algorithm == fixed && !l.Anchored && (l.Unit == "day" || l.Unit == "week" || l.Unit == "month" || l.Unit == "year")
}

// window is the number of the window of an instant, and when it ends.
func (l *Limit) window(at int64) (number, end int64) {
	if !l.civil() {
		return at / l.Period, (at/l.Period + 1) * l.Period
	}
	t := time.UnixMicro(at).UTC()
	y, m, d := t.Date()
	switch l.Unit {
	case "month":
		return int64(y)*12 + int64(m), time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	case "year":
		return int64(y), time.Date(y+1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	}
	day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400
	if l.Unit == "day" {
		return day, (day + 1) * 86400e6
	}
	week := (day + 3) / 7 // the first of January 1970 was a Thursday
	return week, (week*7 + 4) * 86400e6
}

// most is the largest cost that can ever pass.
func (l *Limit) most() int64 {
	if l.Count == 0 {
		return 0
	}
	if l.Algorithm == bucket || l.Algorithm == queue {
		return l.Burst + l.Debt
	}
	return l.Count
}

// refill is how many events come back in a time, rounded down.
func (l *Limit) refill(over int64) int64 {
	if l.Count == 0 {
		return 0
	}
	per, period := l.Count, l.Period
	if l.Mode == "strict" && l.Algorithm == bucket {
		per, period = 1, ceil(l.Period, l.Count-l.Burst+1)
	}
	if over < 0 {
		return -(scaled(-over, per, period) + 1)
	}
	return scaled(over, per, period)
}

// lets is the most that passes in [from, to], both instants included, by requests of
// at most largest. first is whether the key was never used before.
func (l *Limit) lets(from, to, largest int64, first bool) int64 {
	over := max(to-from, 0)
	switch l.Algorithm {
	case bucket, queue:
		return l.most() + l.refill(over)
	case fixed:
		windows := int64(0)
		switch {
		case l.Anchored && first:
			windows = over/l.Period + 1
		case l.Anchored:
			windows = over/l.Period + 2
		case !l.civil():
			windows = to/l.Period - from/l.Period + 1
		default:
			a, _ := l.window(from)
			b, _ := l.window(max(to, from))
			windows = b - a + 1
		}
		return scaled(l.Count, windows, 1)
	case logged:
		return scaled(l.Count, over/l.Period+1, 1)
	case slide:
		return l.slides(from, max(to, from), largest)
	}
	return math.MaxInt64
}

func (l *Limit) slides(from, to, largest int64) int64 {
	most := l.Count
	if l.Mode == "relaxed" && l.Count > 0 {
		most += max(largest, 1) - 1
	}
	sub := l.Period / l.Subs
	touched := to/sub - from/sub + 1
	if l.Mode == "conservative" {
		touched--
	}
	if touched <= l.Subs {
		return most
	}
	return scaled(most, (to-from)/l.Period+2, 1)
}

// ordered is whether either of two limits, by turns, lets no more pass than the one that
// lets more: of windows and logs of the same times, and of buckets of which the faster has
// the burst that is not smaller.
func (l *Limit) ordered(o *Limit) bool {
	switch {
	case l.Algorithm != o.Algorithm:
		return false
	case l.Algorithm == queue:
		return true
	case l.Algorithm == bucket:
		const long = 1 << 42
		faster, bigger := l.refill(long)-o.refill(long), l.most()-o.most()
		return faster >= 0 && bigger >= 0 || faster <= 0 && bigger <= 0
	}
	return l.Period == o.Period && l.civil() == o.civil() && l.Anchored == o.Anchored && l.Subs == o.Subs && l.Mode == o.Mode
}

// holds is whether one count of the limit surely has both instants in it, so that what
// passes at the second is held to what passed at the first.
func (l *Limit) holds(from, to int64) bool {
	switch l.Algorithm {
	case fixed:
		if l.Anchored {
			return false
		}
		a, _ := l.window(from)
		b, _ := l.window(to)
		return a == b
	case logged:
		return to-from < l.Period
	case slide:
		sub := l.Period / l.Subs
		return to/sub-from/sub < l.Subs
	}
	return true
}

// recovers is whether events at from may be as never used at to.
func (l *Limit) recovers(from, to, events int64) bool {
	switch {
	case to <= from || l.Algorithm == permit:
		return false
	case l.Algorithm == bucket || l.Algorithm == queue:
		return l.refill(to-from) >= events
	}
	return !l.holds(from, to)
}

// scaled is n·by/per, rounded down, or the largest number.
func scaled(n, by, per int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(by))
	if hi >= uint64(per) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(per))
	if q > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(q)
}

func ceil(n, by int64) int64 { return (n + by - 1) / by }
