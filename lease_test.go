package weir_test

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
)

// TestPrepaid: a charge of a bucket melts at its pace, and one of a window lasts until that ends.
func TestPrepaid(t *testing.T) {
	noon := weir.InstantOf(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		limit string
		late  time.Duration // after noon, when it is charged
		after time.Duration
		left  int64 // of 10
	}{
		{"10/s", 0, 0, 10},
		{"10/s", 0, time.Microsecond, 9},
		{"10/s", 0, 500 * time.Millisecond, 5},
		{"10/s", 0, 500*time.Millisecond + 1, 4},
		{"10/s", 0, time.Hour, 0},
		{"10/s", 0, -time.Hour, 10},
		{"10/s strict burst 10", 0, time.Second, 9},
		{"7/s burst 20", 0, time.Second, 3},
		{"0/s", 0, 0, 0},
		{"100/min fixed-window", time.Second, 59*time.Second - 1000, 10},
		{"100/min fixed-window", time.Second, 59 * time.Second, 0},
		{"100/day fixed-window zone Europe/Berlin", 0, 11*time.Hour - 1000, 10}, // 13 o'clock there
		{"100/day fixed-window zone Europe/Berlin", 0, 11 * time.Hour, 0},
		{"100/min sliding-window 6", time.Second, 9*time.Second - 1000, 10},
		{"100/min sliding-window 6", time.Second, 9 * time.Second, 0},
		{"100/min sliding-log", 0, 0, 0},
		{"100 concurrent", 0, 0, 0},
	} {
		l, at := weir.MustParseLimit(c.limit), noon+weir.Instant(c.late/time.Microsecond)
		a := weir.Ask{Limit: l, Cost: 10, Receipt: 1}
		d := l.Decide(nil, at, &a)
		d.Charged = d.Outcome == weir.Allowed
		l.Commit(nil, at, &a, &d)
		r := d.Receipt
		if r == nil {
			r = &weir.Receipt{Limit: l, Cost: 10, Taken: at}
		}
		if got := l.Prepaid(r, c.after); got != c.left {
			t.Errorf("%s, %v after noon: %d left %v later, want %d", l, c.late, got, c.after, c.left)
		}
	}
	for limit, want := range map[string]int64{"10/s": 15, "7/s burst 20": 11, "10/s fixed-window": 0, "0/s": 0} {
		if got := weir.MustParseLimit(limit).Melts(1500 * time.Millisecond); got != want {
			t.Errorf("%s: %d melt, want %d", limit, got, want)
		}
	}
}
