package weir

import (
	"fmt"
	"strings"
	"time"
)

// Describe says in plain words what l lets pass, as "at most 10 at once after
// rest, then 5 a second". It is for people; programs read String, which is a contract,
// and these words are none.
func (l *Limit) Describe() string {
	s := &l.spec
	if s.Count == 0 {
		return "nothing passes"
	}
	var b strings.Builder
	switch s.Algorithm {
	case GCRA, TokenBucket, LeakyBucket:
		s.describeBucket(&b)
	case LeakyQueue:
		fmt.Fprintf(&b, "%d %s, in order and evenly spaced; %s", s.Count, every(s.Period), s.waiting())
	case FixedWindow:
		fmt.Fprintf(&b, "at most %d in %s", s.Count, s.window())
	case SlidingLog:
		fmt.Fprintf(&b, "at most %d in any %s", s.Count, stretch(s.Period))
	case SlidingWindow:
		s.describeSliding(&b)
	case WarmUp:
		fmt.Fprintf(&b, "%d %s, evenly spaced; after rest up to %d times slower, until it has warmed up for %s",
			s.Count, every(s.Period), s.Cold, spell(s.WarmUp))
	case Concurrent:
		fmt.Fprintf(&b, "at most %d at a time; a permit that is not returned or renewed frees itself after %s", s.Count, spell(s.TTL))
	}
	if s.CountDenied {
		b.WriteString("; what is denied counts too")
	}
	return b.String()
}

func (s *Spec) describeBucket(b *strings.Builder) {
	if s.Mode == Strict {
		fmt.Fprintf(b, "never more than %d in any %s; at most %d at once after rest, then one every %s",
			s.Count, stretch(s.Period), s.Burst, spell(duration(int64(s.pace().num))))
		return
	}
	fmt.Fprintf(b, "at most %d at once after rest, then %d %s", s.Burst, s.Count, every(s.Period))
	if *s.Initial != s.Burst {
		fmt.Fprintf(b, "; a key never seen starts with %d", *s.Initial)
	}
	if s.Debt > 0 {
		fmt.Fprintf(b, "; while one is left a request may cost more, down to %d below nothing", s.Debt)
	}
}

func (s *Spec) describeSliding(b *strings.Builder) {
	sub := spell(s.Period / time.Duration(s.SubWindows))
	if s.Mode == Conservative {
		fmt.Fprintf(b, "at most %d in any %s, counted in whole sub-windows of %s", s.Count, stretch(s.Period), sub)
		return
	}
	fmt.Fprintf(b, "at most %d in the last %s by an estimate, from sub-windows of %s", s.Count, stretch(s.Period), sub)
	if s.Mode == Relaxed {
		b.WriteString(", tested before the event is added")
	}
}

func (s *Spec) waiting() string {
	if *s.Queue == 0 {
		return "none may wait"
	}
	return fmt.Sprintf("at most %d wait, more are denied", *s.Queue)
}

// DescribeBound says what passes in one period at most, by single events, as "at most 29 in any
// second", and in a clause why that is more than the count: "the burst passes at once, and the pace
// goes on beside it". why is empty where no period holds more. As with Describe, the words are
// for people.
func (l *Limit) DescribeBound() (most, why string) {
	s := &l.spec
	if s.Algorithm == Concurrent {
		return fmt.Sprintf("at most %d at a time", s.Count), ""
	}
	n := l.Bound(s.Period, 1)
	most = fmt.Sprintf("at most %d in any %s", n, stretch(s.Period))
	if n <= s.Count {
		return most, ""
	}
	switch s.Algorithm {
	case GCRA, TokenBucket, LeakyBucket:
		if s.Debt > 0 {
			return most, "burst and debt pass at once, and the pace goes on beside them"
		}
		return most, "the burst passes at once, and the pace goes on beside it"
	case FixedWindow:
		return most, s.windowsMeet(n)
	case SlidingWindow:
		return most, "events of the oldest sub-window count as if they were spread evenly, and may all have come at its end"
	case LeakyQueue, SlidingLog, WarmUp, Concurrent: // no more than the count passes
	}
	return most, ""
}

// windowsMeet says why windows that pass their count let n pass in one period.
func (s *Spec) windowsMeet(n int64) string {
	switch {
	case n <= 2*s.Count:
		return "one window may pass its count at its end, and the next at its beginning"
	case s.Calendar == Month:
		return "a February fits in whole between the end of a month and the beginning of another"
	}
	return fmt.Sprintf("where clocks go forward a %s is shorter, and fits in whole between the end of one and the beginning of another", s.Calendar)
}

// window says which windows a fixed window has.
func (s *Spec) window() string {
	switch {
	case s.Anchored:
		return "the " + stretch(s.Period) + " that a key's first event begins"
	case s.Calendar != NoCalendar:
		return fmt.Sprintf("each %s of the calendar, in the zone %s", s.Calendar, s.Zone)
	}
	return "each " + stretch(s.Period) + " by the clock"
}

// spelled is what units are called in a sentence.
func spelled(unit string) string {
	switch unit {
	case "h":
		return "hour"
	case "min":
		return "minute"
	case "s":
		return "second"
	case "ms":
		return "millisecond"
	case "us":
		return "microsecond"
	}
	return unit
}

// inUnits is d as so many of its largest exact unit; below a minute with decimals,
// where that reads better: 1.5 seconds, and not 1500 milliseconds.
func inUnits(d time.Duration) (n, unit string) {
	switch {
	case d > time.Second && d < time.Minute && d%time.Second != 0:
		return strings.TrimRight(fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second), "0"), "second"
	case d > time.Millisecond && d < time.Second && d%time.Millisecond != 0:
		return strings.TrimRight(fmt.Sprintf("%d.%06d", d/time.Millisecond, d%time.Millisecond), "0"), "millisecond"
	}
	text := printPeriod(d, 7*24*time.Hour)
	unit = strings.TrimLeft(text, "0123456789")
	n = strings.TrimSuffix(text, unit)
	if n == "" {
		n = "1"
	}
	return n, spelled(unit)
}

// spell is d as "10 seconds".
func spell(d time.Duration) string {
	n, unit := inUnits(d)
	if n == "1" {
		return "1 " + unit
	}
	return n + " " + unit + "s"
}

// stretch is d as what follows "any": "second", or "15 minutes".
func stretch(d time.Duration) string {
	n, unit := inUnits(d)
	if n == "1" {
		return unit
	}
	return n + " " + unit + "s"
}

// every is d as what follows a count: "a second", or "every 15 minutes".
func every(d time.Duration) string {
	switch n, unit := inUnits(d); {
	case n != "1":
		return "every " + spell(d)
	case unit == "hour":
		return "an hour"
	default:
		return "a " + unit
	}
}
