package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir"
)

// settings are what the words of a workload say. Each kind has some of them.
//
// Times are whole microseconds and rates whole numbers of requests in a time: nothing is a
// fraction, so text gives back what set has read.
type settings struct {
	rate, low   pace
	clients     int32
	skew        int64 // hundredths
	least, most int64 // cost
	size        int64
	every, gap  time.Duration
	tries       int64
	retry       time.Duration // 0: when the denial says

	// Among the sources ramp alone looks at it: it is at rate when the run ends.
	duration time.Duration // has no word: it is the command's
}

// pace is so many requests every period.
type pace struct {
	count  int64
	period time.Duration
}

// defaults suit l: one client sends at random as much as l lets pass.
//
// As much comes as passes, so that a limit denies some and lets some pass: traffic far above or
// below a limit shows nothing of it. A limit faster than MaxRate gets MaxRate.
func defaults(l *weir.Limit) settings {
	spec := l.Spec()
	rate := pace{max(spec.Count, 1), spec.Period}
	if rate.tooFast() {
		rate = pace{MaxRate, time.Second}
	}
	return settings{
		rate: rate, low: pace{0, rate.period}, clients: 1, least: 1, most: 1,
		size: min(max(spec.Count, 1), MaxAtOnce), every: spec.Period, gap: max(spec.Period/60, time.Microsecond).Truncate(time.Microsecond),
		tries: 1, duration: min(10*spec.Period, MaxDuration),
	}
}

func (p pace) tooFast() bool { return p.count > p.period.Microseconds()*(MaxRate/1_000_000) }

// set reads the value of a word.
func (s *settings) set(name, value string) (err error) {
	switch name {
	case "rate":
		s.rate, err = parsePace(value)
	case "low":
		s.low, err = parsePace(value)
	case "clients":
		var n int64
		n, err = parseNumber(value, 1, MaxClients)
		s.clients = int32(n)
	case "skew":
		s.skew, err = parseHundredths(value, 1000)
	case "cost":
		least, most, ranges := strings.Cut(value, "-")
		if !ranges {
			most = least
		}
		if s.least, err = parseNumber(least, 0, weir.MaxCount); err == nil {
			s.most, err = parseNumber(most, s.least, weir.MaxCount)
		}
	case "size":
		s.size, err = parseNumber(value, 1, MaxAtOnce)
	case "every":
		s.every, err = ParseTime(value)
	case "gap":
		s.gap, err = ParseTime(value)
	case "tries":
		s.tries, err = parseNumber(value, 1, MaxTries)
	case "retry":
		s.retry = 0
		if value != "told" {
			s.retry, err = ParseTime(value)
		}
	}
	return err
}

// text is the value of a word.
func (s *settings) text(name string) string {
	switch name {
	case "rate":
		return s.rate.String()
	case "low":
		return s.low.String()
	case "clients":
		return strconv.Itoa(int(s.clients))
	case "skew":
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%02d", s.skew/100, s.skew%100), "0"), ".")
	case "cost":
		if s.least == s.most {
			return strconv.FormatInt(s.least, 10)
		}
		return fmt.Sprintf("%d-%d", s.least, s.most)
	case "size":
		return strconv.FormatInt(s.size, 10)
	case "every":
		return TimeText(s.every)
	case "gap":
		return TimeText(s.gap)
	case "tries":
		return strconv.FormatInt(s.tries, 10)
	case "retry":
		if s.retry == 0 {
			return "told"
		}
		return TimeText(s.retry)
	}
	return ""
}

func (p pace) String() string {
	period := TimeText(p.period)
	if period[0] == '1' && (period[1] < '0' || period[1] > '9') {
		period = period[1:]
	}
	return strconv.FormatInt(p.count, 10) + "/" + period
}

// parsePace reads a pace as limits have it, such as 100/min or 5/10s.
func parsePace(text string) (pace, error) {
	count, period, ok := strings.Cut(text, "/")
	if !ok {
		return pace{}, fmt.Errorf("%q has no period; write a number of requests and a time, such as 100/min", text)
	}
	n, err := parseNumber(count, 0, weir.MaxCount)
	if err != nil {
		return pace{}, err
	}
	if period != "" && (period[0] < '0' || period[0] > '9') {
		period = "1" + period
	}
	every, err := ParseTime(period)
	if err != nil {
		return pace{}, err
	}
	p := pace{n, every}
	if p.tooFast() {
		return pace{}, fmt.Errorf("%s is faster than %d a second; take less, and a smaller limit", text, MaxRate)
	}
	return p, nil
}

func parseNumber(text string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q must be a whole number from %d to %d", text, least, most)
	}
	return n, nil
}

// parseHundredths reads a number with at most two decimals.
func parseHundredths(text string, most int64) (int64, error) {
	whole, part, _ := strings.Cut(text, ".")
	n, err := strconv.ParseUint(whole+(part + "00")[:2], 10, 32)
	if err != nil || len(part) > 2 || int64(n) > most {
		return 0, fmt.Errorf("%q must be a number from 0 to %d with at most two decimals, such as 1.1", text, most/100)
	}
	return int64(n), nil
}
