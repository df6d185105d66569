package weir

import "time"

// fixedWindow counts the events of one window at a time: windows of equal
// length from 1970 on, civil days, weeks, months and years, or windows that
// each open with the key's first event.
//
//	word 0   when the window began, whole microseconds since 1970
//	word 1   events counted in it
//
// A clock that steps back behind the window counts in the window: else a client could
// spend the window before it again.
//
// The state has no end. It follows from the beginning and the limit, so a limit whose
// count has changed goes on with the states that there are. A state of 0 events is as
// never used, whatever its first word says.
type fixedWindow struct {
	count int64 // events a window, 0…MaxWindowCount
	// period is the length of a window in microseconds. A civil window has its length
	// from the calendar, and period is only nominal.
	period int64
	// calendar and zone are unset for anchored windows, which last a fixed time even
	// when the text says day or week.
	calendar Calendar
	zone     *time.Location
	// anchored windows begin at the first event after the last one is over; the others
	// at multiples of period since 1970, or at midnight of zone.
	anchored bool
	// countDenied charges what is denied, as far as maxUsed.
	countDenied bool
}

// maxUsed is where counts of work beyond the limit stop growing: 2^53 events, which no
// count of a limit comes near. It is exact in Redis's Lua, too.
const maxUsed = 1 << 53

func newFixedWindow(s *Spec) algorithm {
	w := &fixedWindow{count: s.Count, period: micros(s.Period), anchored: s.Anchored, countDenied: s.CountDenied}
	if !s.Anchored {
		w.calendar, w.zone = s.Calendar, s.Zone
	}
	return w
}

func (w *fixedWindow) words() int  { return 2 }
func (w *fixedWindow) most() int64 { return w.count }

// window is the window that counts at now, and what is used of it. Only the end is
// compared with now, so that a window which begins later than now still counts.
func (w *fixedWindow) window(s State, now Instant) (begin, end Instant, used int64) {
	if len(s) >= 2 && s[1] > 0 {
		begin, used = Instant(s[0]), int64(s[1])
		if end = w.end(begin); now < end {
			return begin, end, used
		}
	}
	switch {
	case w.anchored:
		begin = now
	case w.calendar != NoCalendar:
		return civilWindow(now, w.calendar, w.zone)
	default:
		begin = now - now%Instant(w.period)
	}
	return begin, begin + Instant(w.period), 0
}

// end is the end of the window that began at begin.
func (w *fixedWindow) end(begin Instant) Instant {
	if w.calendar != NoCalendar {
		_, end, _ := civilWindow(begin, w.calendar, w.zone)
		return end
	}
	return begin + Instant(w.period)
}

func (w *fixedWindow) room(s State, now Instant, _ int64) int64 {
	_, _, used := w.window(s, now)
	return max(w.count-used, -1)
}

// wait: whatever does not fit now fits in the next window, as its cost is at most count.
func (w *fixedWindow) wait(s State, now Instant, _, _ int64) int64 {
	_, end, _ := w.window(s, now)
	return int64(end - now)
}

func (w *fixedWindow) hold(State, Instant, int64) int64 { return 0 }

func (w *fixedWindow) charge(s State, now Instant, cost int64, _ bool, _ uint64) (State, mark) {
	begin, _, used := w.window(s, now)
	s = s.words(2)
	s[0], s[1] = uint64(begin), uint64(min(used+cost, maxUsed))
	return s, mark{s[0]}
}

func (w *fixedWindow) owe(s State, now Instant, cost int64) (State, int64) {
	_, _, used := w.window(s, now)
	cost = min(cost, max(maxUsed-used, 0))
	s, _ = w.charge(s, now, cost, true, 0)
	return s, cost
}

func (w *fixedWindow) refuse(s State, now Instant, cost int64) State {
	if w.countDenied {
		s, _ = w.charge(s, now, cost, true, 0)
	}
	return s
}

func (w *fixedWindow) standing(s State, now Instant) (remaining, reset int64) {
	_, end, used := w.window(s, now)
	if used == 0 {
		return w.count, 0
	}
	return max(w.count-used, 0), int64(end - now)
}

func (w *fixedWindow) newest(s State, now Instant) mark {
	begin, _, _ := w.window(s, now)
	return mark{uint64(begin)}
}

// giveBack returns events to the window they were charged to, and to no other: once it is
// over, nothing of the charge is in use.
func (w *fixedWindow) giveBack(s State, now Instant, r *Receipt, events int64) (State, int64) {
	begin, _, used := w.window(s, now)
	if used == 0 || uint64(begin) != r.Mark[0] {
		return s, 0
	}
	back := min(used, events)
	s[1] = uint64(used - back)
	return s, back
}

func (w *fixedWindow) used(s State, now Instant) int64 {
	_, _, used := w.window(s, now)
	return used
}

func (w *fixedWindow) alike(o algorithm) bool {
	old, ok := o.(*fixedWindow)
	return ok && old.tiles(w)
}

// adopt counts what is used in the window of now, even where it was used before that
// began: it may deny for longer than need be, and lets nothing pass twice.
func (w *fixedWindow) adopt(s State, from algorithm, now Instant) State {
	used := min(from.used(s, now), w.count)
	if used == 0 {
		return nil
	}
	begin, _, _ := w.window(nil, now)
	return State{uint64(begin), uint64(used)}
}

func (w *fixedWindow) hear(s State, now Instant, p passed) State {
	s, _ = w.charge(s, now, p.events, true, 0)
	return s
}

// tiles is whether both cut time into the same windows.
func (w *fixedWindow) tiles(o *fixedWindow) bool {
	return w.period == o.period && w.anchored == o.anchored && w.calendar == o.calendar &&
		(w.zone == o.zone || w.zone != nil && o.zone != nil && w.zone.String() == o.zone.String())
}

// bound: every window that the interval touches may be spent in full. An
// anchored window that was opened before the interval began has spent at least
// one event outside it. An interval of width instants touches at most
// ⌈(width − 1)/period⌉ + 1 windows.
func (w *fixedWindow) bound(width, _ int64) int64 {
	if w.calendar != NoCalendar {
		return times(w.count, touches(width, w.calendar, w.zone))
	}
	touched := plus(ceilDiv(width-1, w.period), 1)
	if w.anchored {
		return max(times(w.count, ceilDiv(width, w.period)), times(w.count, touched)-1)
	}
	return times(w.count, touched)
}
