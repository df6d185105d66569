package weir_test

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
)

// TestUnsynced: what a process may be ahead of its store, and what that adds to the
// bound for three of them.
func TestUnsynced(t *testing.T) {
	for _, c := range []struct {
		limit string
		sync  time.Duration
		each  int64
		bound int64 // of one period and three nodes
	}{
		{"1000/s", 100 * time.Millisecond, 100, 1999 + 300},
		{"1000/s burst 20", 100 * time.Millisecond, 20, 1019 + 60},
		{"1000/s burst 20 debt 5", 100 * time.Millisecond, 20, 1024 + 60},
		{"10/s", 250 * time.Millisecond, 3, 19 + 9},
		{"10/day", 100 * time.Millisecond, 1, 19 + 3},
		{"10/s token-bucket", time.Microsecond, 1, 19 + 3},
		{"1000/s", 24 * time.Hour, 1000, 1999 + 3000},
		{"6000/min", 24 * time.Hour, 1000, 11999 + 3000}, // MaxSync
		{"1000/s fixed-window", 100 * time.Millisecond, 100, 2 * 1300},
		{"1000/day fixed-window", time.Second, 1, 2 * 1003},
		{"1000/month fixed-window", time.Second, 1, 2*1003 + 1003}, // February is shorter
		{"100/s sliding-window 10", 100 * time.Millisecond, 10, 2*130 - 1},
		{"100/s sliding-window 10 conservative", 100 * time.Millisecond, 10, 130},
		{"4294967295/us fixed-window", time.Second, 4294967295, 0},
		{"0/s", time.Second, 0, 0},
		{"10/s", 0, 0, 19},
		{"10/s sliding-log", time.Second, 0, 10},
		{"10/h fixed-window anchored", time.Second, 0, 19},
		{"10/s leaky-queue", time.Second, 0, 10},
	} {
		l := weir.MustParseLimit(c.limit)
		if got := l.Unsynced(c.sync); got != c.each {
			t.Errorf("%s, sync %v: %d untold, want %d", l, c.sync, got, c.each)
		}
		if got := l.BoundSynced(l.Spec().Period, c.sync, 3, 1); c.bound > 0 && got != c.bound {
			t.Errorf("%s, sync %v: at most %d, want %d", l, c.sync, got, c.bound)
		}
	}
}
