package main

import "testing"

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		target   *target
		measured float64
		want     string
	}{
		{atMost(1.25), 1.25, "pass"},
		{atMost(1.25), 1.26, "MISS"},
		{atMost(1.25), 0.9, "pass"},
		{atLeast(0.8), 0.8, "pass"},
		{atLeast(0.8), 0.79, "MISS"},
		{atLeast(0.8), 1.1, "pass"},
	} {
		if got := c.target.verdict(c.measured); got != c.want {
			t.Errorf("%v of %s: %s, want %s", c.measured, c.target, got, c.want)
		}
	}
	if got := median([]float64{3, 1, 2, 10}); got != 2.5 {
		t.Errorf("median: %v", got)
	}
}
