package weir

import (
	"iter"
	"time"
)

// civilWindow is the civil day, week (from Monday), month or year of zone that
// holds now. It begins with the first instant whose date there is the
// window's first day, so that windows tile time without gap or overlap, also
// where midnight is skipped or comes twice.
func civilWindow(now Instant, c Calendar, zone *time.Location) (begin, end Instant, used int64) {
	if begin, end, ok := utcWindow(now, c, zone); ok {
		return begin, end, 0
	}
	y, m, d := now.Time().In(zone).Date()
	y, m, d = firstDay(y, m, d, c)
	begin, end = dayBegins(y, m, d, zone), nextWindow(y, m, d, c, zone)
	for now >= end {
		// A clock set back over midnight shows yesterday's date for a while;
		// the window that had begun goes on.
		y, m, d = nextFirst(y, m, d, c)
		begin, end = end, nextWindow(y, m, d, c, zone)
	}
	return begin, end, 0
}

// utcWindow is civilWindow for days and weeks of UTC, whose clock is never set: most limits have
// these, and each take needs the end of a window.
func utcWindow(now Instant, c Calendar, zone *time.Location) (begin, end Instant, ok bool) {
	const day = Instant(24 * time.Hour / time.Microsecond)
	length, since := day, Instant(0)
	switch {
	case zone != time.UTC || c != Day && c != Week:
		return 0, 0, false
	case c == Week:
		length, since = 7*day, 4*day // 5 January 1970 was a Monday
	}
	into := (now - since) % length
	if into < 0 {
		into += length
	}
	return now - into, now - into + length, true
}

// firstDay is the first day of the civil window that holds the date.
func firstDay(y int, m time.Month, d int, c Calendar) (int, time.Month, int) {
	switch c {
	case Year:
		return y, time.January, 1
	case Month:
		return y, m, 1
	case Week:
		day := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
		return day.AddDate(0, 0, -(int(day.Weekday())+6)%7).Date()
	case Day, NoCalendar:
	}
	return y, m, d
}

// nextFirst is the first day of the window after the one that begins on the date.
func nextFirst(y int, m time.Month, d int, c Calendar) (int, time.Month, int) {
	step := [...][3]int{Day: {0, 0, 1}, Week: {0, 0, 7}, Month: {0, 1, 0}, Year: {1, 0, 0}}[c]
	return time.Date(y+step[0], m+time.Month(step[1]), d+step[2], 0, 0, 0, 0, time.UTC).Date()
}

func nextWindow(y int, m time.Month, d int, c Calendar, zone *time.Location) Instant {
	y, m, d = nextFirst(y, m, d, c)
	return dayBegins(y, m, d, zone)
}

// dayBegins is the first instant at which zone shows the date or a later one. It walks
// from one change of the zone's offset to the next, as midnight by an offset counts only
// while that offset holds. Asking the time package for midnight would not do: where
// that is skipped or comes twice, it may answer with either side.
func dayBegins(y int, m time.Month, d int, zone *time.Location) Instant {
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	// No zone is or was more than 16 hours from UTC.
	at := midnight.Add(-16 * time.Hour)
	for {
		local := at.In(zone)
		_, offset := local.Zone()
		_, change := local.ZoneBounds()
		shows := midnight.Add(-time.Duration(offset) * time.Second)
		if shows.Before(at) {
			shows = at // the change of the clock skipped midnight
		}
		// After the last change that the database lists, ZoneBounds may give an
		// end that is past already (on 31 December of leap years); then no change
		// is near.
		if change.IsZero() || !change.After(at) || shows.Before(change) {
			return InstantOf(shows)
		}
		at = change
	}
}

// touches is the most civil windows that an interval of so many microseconds meets. Between the
// first of them and the last lie whole ones. None of these is shorter than the shortest, and each
// begins at midnight by some offset of the zone, so that they last as long together as their days
// do, less what the offsets are apart.
func touches(width int64, c Calendar, zone *time.Location) int64 {
	regular, apart := shortestOf(c), offsetsApart(zone)
	shortest := regular - apart
	if shortest <= 0 || ceilDiv(width-1, shortest) > ceilDiv(width-1, regular) {
		shortest = shortestWindow(c, zone) // takes longer to find
	}
	most := plus(ceilDiv(width-1, shortest), 1)
	return min(most, 2+max(plus(width, apart)-2, 0)/regular)
}

// shortestOf is how long the shortest windows last while no clock is set, in microseconds.
func shortestOf(c Calendar) int64 {
	const day = 24 * int64(time.Hour/time.Microsecond)
	return [...]int64{Day: day, Week: 7 * day, Month: 28 * day, Year: 365 * day}[c]
}

// shortestWindow is how long the shortest civil window of zone lasts, in microseconds: at Vostok a
// day of 1994 had 17 hours. A window that no change of the clock lies in or beside lasts from one
// midnight to another of the same offset, and a clock that is set back makes its window longer. So
// only windows where a clock is set forward can be shorter.
func shortestWindow(c Calendar, zone *time.Location) int64 {
	shortest := shortestOf(c)
	for change, forward := range clockChanges(zone) {
		if forward < 0 {
			continue
		}
		begin, end, _ := civilWindow(change, c, zone)
		shortest = min(shortest, int64(end-begin))
		if begin == change { // the change skipped the end of the window before
			begin, end, _ = civilWindow(change-1, c, zone)
			shortest = min(shortest, int64(end-begin))
		}
	}
	return shortest
}

// offsetsApart is how far the offsets of zone are from each other at the most, in
// microseconds.
func offsetsApart(zone *time.Location) int64 {
	var offset, least, most int64 // from the first one
	for _, forward := range clockChanges(zone) {
		offset += forward
		least, most = min(least, offset), max(most, offset)
	}
	return most - least
}

// clockChanges are the instants after 1970 at which the zone's clock is set, and by how many
// microseconds forward.
func clockChanges(zone *time.Location) iter.Seq2[Instant, int64] {
	return func(yield func(change Instant, forward int64) bool) {
		at := Instant(0).Time().In(zone)
		_, before := at.Zone()
		for {
			_, change := at.ZoneBounds()
			switch {
			case change.IsZero() || InstantOf(change) > lastInstant:
				return
			case !change.After(at): // see dayBegins
				change = at.Add(24 * time.Hour)
			}
			at = change.In(zone)
			_, offset := at.Zone()
			if offset != before && !yield(InstantOf(at), int64(offset-before)*int64(time.Second/time.Microsecond)) {
				return
			}
			before = offset
		}
	}
}
