package weir

import "time"

// civilWindow is the civil day, week (from Monday), month or year of zone that
// holds now. It begins with the first instant whose date there is the
// window's first day, so that windows tile time without gap or overlap, also
// where midnight is skipped or comes twice.
func civilWindow(now Instant, c Calendar, zone *time.Location) (begin, end Instant, used int64) {
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

// dayBegins is the first instant at which zone shows the date or a later one.
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

// shortest is the least that a civil period of zone can last, in microseconds.
// Outside UTC, clocks are set by up to two hours, and when a zone moves across
// the date line by a day.
func shortest(c Calendar, zone *time.Location) int64 {
	const day = 24 * int64(time.Hour/time.Microsecond)
	if zone == time.UTC {
		return [...]int64{Day: day, Week: 7 * day, Month: 28 * day, Year: 365 * day}[c]
	}
	return [...]int64{Day: 22 * day / 24, Week: 6 * day, Month: 27 * day, Year: 364 * day}[c]
}
