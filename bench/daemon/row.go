package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limit/weir/rules"
)

// target is what a ratio must be.
type target struct {
	bound float64
	most  bool // else it is the least
}

func atMost(bound float64) *target  { return &target{bound, true} }
func atLeast(bound float64) *target { return &target{bound, false} }

func (t *target) String() string {
	if t.most {
		return fmt.Sprintf("≤ %.2f×", t.bound)
	}
	return fmt.Sprintf("≥ %.2f×", t.bound)
}

func (t *target) verdict(measured float64) string {
	if t.most == (measured <= t.bound) || measured == t.bound {
		return "pass"
	}
	return "MISS"
}

// row adds a line about two sides, measured in the same rounds. The ratio is the
// median of the ratios of the rounds.
func (b *bench) row(what, unit string, ours, theirs []float64, t *target) {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / theirs[i]
	}
	ratio := median(ratios)
	r := row{What: what, Weir: spread(ours, unit), Beside: spread(theirs, unit), Measured: fmt.Sprintf("%.2f×", ratio)}
	if t != nil {
		r.Target, r.Verdict = t.String(), t.verdict(ratio)
	}
	b.rows = append(b.rows, r)
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// spread is the median with the least and the most.
func spread(of []float64, unit string) string {
	form := "%.1f (%.1f…%.1f) %s"
	if median(of) >= 1000 {
		form = "%.0f (%.0f…%.0f) %s"
	}
	return strings.TrimSpace(fmt.Sprintf(form, median(of), slices.Min(of), slices.Max(of), unit))
}

// match measures how long it takes to find the rules of a descriptor in a domain
// of 10,000; the slowest kind counts.
func (b *bench) match() error {
	var file strings.Builder
	file.WriteString("domain: bench\ndescriptors:\n")
	for i := range 2500 {
		fmt.Fprintf(&file, "- {key: user, value: user-%d, limits: [10/s]}\n", i)
		fmt.Fprintf(&file, "- {key: path, value: /api/v1/%d/*, limits: [10/s]}\n", i)
		fmt.Fprintf(&file, "- {key: key-%d, limits: [10/s]}\n", i)
		fmt.Fprintf(&file, "- {key: team, value: team-%d, descriptors: [{key: user, limits: [10/s]}]}\n", i)
	}
	set, err := rules.Parse("bench.yaml", []byte(file.String()))
	if err != nil {
		return err
	}
	var took []float64
	for _, entries := range [][]rules.Entry{
		{{Key: "user", Value: "user-2000"}},
		{{Key: "path", Value: "/api/v1/2000/things"}},
		{{Key: "key-2000", Value: "x"}},
		{{Key: "team", Value: "team-2000"}, {Key: "user", Value: "ann"}},
		{{Key: "nothing", Value: "x"}},
	} {
		d := rules.Descriptor{Entries: entries, Cost: 1}
		result := testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				set.Match("bench", &d)
			}
		})
		took = append(took, float64(result.NsPerOp()))
	}
	slowest := slices.Max(took)
	b.rows = append(b.rows, row{
		What: "10,000 rules in a domain: match", Weir: spread(took, "ns"),
		Measured: fmt.Sprintf("%.0f ns", slowest), Target: "≤ 1 µs", Verdict: atMost(1000).verdict(slowest),
	})
	return nil
}
