package table

import (
	"strings"
	"testing"
)

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
	table := New("a", "b", "c")
	table.Compare("both", "µs", []float64{2}, []float64{10}, AtMost(0.25).And(2.2))
	table.Compare("too much of its own", "µs", []float64{2.3}, []float64{10}, AtMost(0.25).And(2.2))
	table.Compare("too much beside", "µs", []float64{2}, []float64{7}, AtMost(0.25).And(2.2))
	for i, want := range []string{"pass", "MISS", "MISS"} {
		if got := table.Rows[i]; got.Verdict != want || got.Target != "≤ 2.2 µs, ≤ 0.25" {
			t.Errorf("%s: %s of %s, want %s", got.What, got.Verdict, got.Target, want)
		}
	}
	if got := Median([]float64{3, 1, 2, 10}); got != 2.5 {
		t.Errorf("median: %v", got)
	}
}

// TestPrint: misses come first, and what no row has has no column.
func TestPrint(t *testing.T) {
	all := New("Weir", "no-op", "ratio")
	all.Compare("calls", "µs", []float64{2, 2}, []float64{1, 1}, AtMost(3))
	all.Compare("more calls", "µs", []float64{4, 4}, []float64{1, 1}, AtMost(3))
	var out strings.Builder
	if err := all.Print(&out, false); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(out.String(), "\n")
	if want := `
| | Weir | no-op | ratio | target |
|---|---|---|---|---|
| more calls | 4.0 (4.0…4.0) µs | 1.0 (1.0…1.0) µs | 4.00 | ≤ 3.00: missed |
| calls | 2.0 (2.0…2.0) µs | 1.0 (1.0…1.0) µs | 2.00 | ≤ 3.00 |
`; got != want {
		t.Errorf("%s\nwant%s", got, want)
	}
	all.Rows[0].Target, all.Rows[1].Target, all.Rows[1].Verdict = "", "", ""
	out.Reset()
	if err := all.Print(&out, false); err != nil || strings.Contains(out.String(), "target") {
		t.Errorf("no row has a target, error %v:\n%s", err, &out)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want string
	}{
		{[]float64{1.26, 999.5, 2}, "2.0 (1.3…999.5) ns"},
		{[]float64{900, 12345.6, 1_234_567}, "12,346 (900…1,234,567) ns"},
	} {
		if got := Spread(c.of, "ns"); got != c.want {
			t.Errorf("%v: %s, want %s", c.of, got, c.want)
		}
	}
}
