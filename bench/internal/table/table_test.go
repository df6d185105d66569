package table

import "testing"

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		target   *Target
		measured float64
		want     string
	}{
		{AtMost(1.25), 1.25, "pass"},
		{AtMost(1.25), 1.26, "MISS"},
		{AtMost(1.25), 0.9, "pass"},
		{AtLeast(0.8), 0.8, "pass"},
		{AtLeast(0.8), 0.79, "MISS"},
		{AtLeast(0.8), 1.1, "pass"},
	} {
		if got := c.target.Verdict(c.measured); got != c.want {
			t.Errorf("%v of %s: %s, want %s", c.measured, c.target, got, c.want)
		}
	}
	if got := Median([]float64{3, 1, 2, 10}); got != 2.5 {
		t.Errorf("median: %v", got)
	}
}
