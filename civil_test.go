package weir_test

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
)

// TestCivilWindowsTile: in every zone and as long as there are instants, a civil
// window ends where the next one begins, and where the date changes.
func TestCivilWindowsTile(t *testing.T) {
	for _, zone := range []string{
		"UTC", "Europe/Berlin", "America/St_Johns", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Beirut", "Pacific/Apia",
		"Pacific/Kiritimati", "Pacific/Kwajalein", "Antarctica/Troll", "Australia/Lord_Howe", "Africa/Casablanca", "America/Havana",
	} {
		for unit, longest := range map[string]time.Duration{
			"day": 26 * time.Hour, "week": 170 * time.Hour, "month": 746 * time.Hour, "year": 8786 * time.Hour,
		} {
			l := weir.MustParseLimit("1/" + unit + " fixed-window zone " + zone)
			loc := l.Spec().Zone
			var s weir.State
			var d weir.Decision
			var before [3]int
			const end = weir.Instant(1) << 52
			for now := weir.Instant(0); now < end; now += weir.Instant(d.ResetAfter / time.Microsecond) {
				if s, d = take(l, s, now, weir.Ask{Cost: 1}); d.Outcome != weir.Allowed || d.ResetAfter <= 0 || d.ResetAfter > longest {
					t.Fatalf("%s at %v: the window that begins there is %+v", l, now.Time(), d)
				}
				y, m, day := now.Time().In(loc).Date()
				date := [3]int{y, int(m), day}
				if date == before {
					t.Fatalf("%s at %v: a window ends though the date is the same", l, now.Time())
				}
				if now > 0 && unit == "month" && day != 1 || now > 0 && unit == "year" && (day != 1 || m != 1) ||
					now > 0 && unit == "week" && now.Time().In(loc).Weekday() != time.Monday {
					t.Fatalf("%s: a window begins on %v", l, now.Time().In(loc))
				}
				before = date
			}
		}
	}
}

// TestBoundOfCivilWindows: no interval meets more windows than the bound reckons with,
// in zones whose days were the shortest, too: 17 hours at Vostok in 1994, 21 elsewhere. And some
// period meets as many: at Galapagos clocks were set back before they were set forward, so that
// no day is short but the offsets are apart; at Kwajalein and Kosrae days were left out or added.
func TestBoundOfCivilWindows(t *testing.T) {
	for _, zone := range []string{
		"UTC", "Europe/Berlin", "Antarctica/Vostok", "Antarctica/Casey", "America/Danmarkshavn", "Asia/Ust-Nera", "Pacific/Apia",
		"Pacific/Kwajalein", "Africa/Casablanca", "Antarctica/Troll", "Asia/Tokyo", "Pacific/Galapagos", "Pacific/Kosrae", "Africa/Monrovia",
	} {
		for _, unit := range []string{"day", "week", "month", "year"} {
			l := weir.MustParseLimit("1/" + unit + " fixed-window zone " + zone)
			var begins []weir.Instant
			var d weir.Decision
			for now, s := weir.Instant(0), weir.State(nil); now.Time().Year() < 2040; now += weir.Instant(d.ResetAfter / time.Microsecond) {
				s, d = take(l, s, now, weir.Ask{Cost: 1})
				begins = append(begins, now)
			}
			most := int64(2) // around the edge between two windows
			for i := 1; i+1 < len(begins); i++ {
				if (begins[i+1] - begins[i] + 2).Duration() <= l.Spec().Period {
					most = 3
				}
			}
			if b := l.Bound(l.Spec().Period, 1); b != most {
				t.Errorf("%s: the bound of a period is %d, and %d windows meet in one", l, b, most)
			}
			bounds := map[time.Duration]int64{}
			for _, whole := range []int{1, 2, 3, 7, 40} {
				for i := 1; i+whole < len(begins); i++ {
					width := (begins[i+whole] - begins[i] + 2).Duration() // a microsecond of the windows on either side
					if _, ok := bounds[width]; !ok {
						bounds[width] = l.Bound(width, 1)
					}
					if bounds[width] < int64(whole+2) {
						t.Fatalf("%s: %d pass in %v from %v on, the bound is %d", l, whole+2, width, begins[i].Time(), bounds[width])
					}
				}
			}
		}
	}
	for text, want := range map[string]int64{ // no looser than need be
		"1/day fixed-window": 11, "1/day fixed-window zone Europe/Berlin": 12, "1/week fixed-window zone Europe/Berlin": 3,
		"1/day fixed-window zone Antarctica/Vostok": 12,
	} {
		if b := weir.MustParseLimit(text).Bound(10*24*time.Hour, 1); b != want {
			t.Errorf("%s: the bound of 10 days is %d, want %d", text, b, want)
		}
	}
}
