package weir_test

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
)

// changing is zones whose clocks are set, each in a way of its own, and years in
// which they were or will be.
var changing = []struct {
	zone    string
	years   []int
	changes int // in these years
}{
	{"Europe/Berlin", []int{2026, 2027}, 4},
	{"America/New_York", []int{2026, 2027}, 4},
	{"Australia/Lord_Howe", []int{2026, 2027}, 4},    // by 30 minutes
	{"America/St_Johns", []int{2010, 2026, 2027}, 6}, // in 2010 one minute after midnight, and back over it
	{"Asia/Beirut", []int{2026, 2027}, 4},            // at midnight, which is skipped, and back over it
	{"America/Havana", []int{2026, 2027}, 4},         // at midnight, which is skipped, and back to it
	{"Africa/Cairo", []int{2026, 2027}, 4},           // at midnight, which is skipped, and back over it
	{"America/Santiago", []int{2026, 2027}, 4},       // the same, in the south
	{"Africa/Casablanca", []int{2026, 2027}, 4},      // for Ramadan
	{"Pacific/Apia", []int{2011}, 3},                 // where 30 December never was
	{"Asia/Kathmandu", []int{1985, 2026, 2027}, 1},   // never since New Year of 1986, then by 15 minutes
	{"Pacific/Kwajalein", []int{1993}, 1},            // where 21 August never was
}

// TestCivilWindowsAcrossChanges lives through the two weeks on both sides of
// each change of the clocks, and counts by the calendar on the wall.
func TestCivilWindowsAcrossChanges(t *testing.T) {
	for _, c := range changing {
		t.Run(c.zone, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(c.zone)
			if err != nil {
				t.Fatal(err)
			}
			seen := 0
			for _, year := range c.years {
				for _, at := range changesOf(zone, year) {
					seen++
					w := wall{zone: zone, from: at.AddDate(0, 0, -14), to: at.AddDate(0, 0, 14)}
					for _, limit := range []string{"17/day", "100/week", "300/month"} {
						w.live(t, weir.MustParseLimit(limit+" fixed-window zone "+c.zone))
					}
				}
			}
			if seen != c.changes {
				t.Errorf("%d changes in %v, want %d", seen, c.years, c.changes)
			}
		})
	}
}

// changesOf is when the clocks of zone are set in a year.
func changesOf(zone *time.Location, year int) []time.Time {
	var all []time.Time
	at := time.Date(year, time.January, 1, 12, 0, 0, 0, time.UTC)
	for end := at.AddDate(1, 0, 0); ; {
		_, next := at.In(zone).ZoneBounds()
		if next.IsZero() || !next.Before(end) {
			return all
		}
		_, before := at.In(zone).Zone()
		if _, after := next.In(zone).Zone(); before != after {
			all = append(all, next)
		}
		at = next
	}
}

// wall is a calendar on the wall of a zone, for some weeks.
type wall struct {
	zone     *time.Location
	from, to time.Time
}

// live asks a limit every few minutes, and holds its answers to what somebody
// counts who looks at the calendar: the day that it shows is torn off when a
// new one has come, and none is put back.
func (w wall) live(t *testing.T, l *weir.Limit) {
	t.Helper()
	count := l.Spec().Count
	var s weir.State
	var d weir.Decision
	at, used := w.from.Truncate(time.Minute), int64(0)
	page := w.page(at, l)
	end := w.next(at, page, l)
	for ; at.Before(w.to); at = at.Add(11 * time.Minute) {
		for !at.Before(end) {
			page, used = w.page(end, l), 0
			end = w.next(end, page, l)
		}
		passes := used < count
		if passes {
			used++
		}
		s, d = take(l, s, weir.InstantOf(at), weir.Ask{Cost: 1})
		if (d.Outcome == weir.Allowed) != passes || d.Remaining != count-used || d.ResetAfter != end.Sub(at) || !passes && d.RetryAfter != end.Sub(at) {
			t.Fatalf("%s at %v: %+v; on the wall is %s with %d used, until %v", l, at.In(w.zone), d, page, used, end.In(w.zone))
		}
	}
}

// page is what the calendar shows: the first day of the window, sorted as text.
func (w wall) page(at time.Time, l *weir.Limit) string {
	at = at.In(w.zone)
	y, m, d := at.Date()
	switch l.Spec().Calendar {
	case weir.Week:
		d -= (int(at.Weekday()) + 6) % 7
	case weir.Month:
		d = 1
	default:
	}
	return time.Date(y, m, d, 12, 0, 0, 0, time.UTC).Format(time.DateOnly)
}

// next is the first minute that shows a later page.
func (w wall) next(at time.Time, page string, l *weir.Limit) time.Time {
	if l.Spec().Calendar != weir.Day { // clocks are set by two hours at most, dates by a day
		for later := at.Add(25 * time.Hour); w.page(later, l) <= page; later = later.Add(time.Hour) {
			at = later.Add(-25 * time.Hour)
		}
	}
	for ; w.page(at, l) <= page; at = at.Add(time.Minute) {
	}
	return at
}
