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
