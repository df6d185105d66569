package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weir-limit/weir/bench/internal/table"
	"github.com/weir-limit/weir/rules"
)

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
	b.table.Rows = append(b.table.Rows, table.Row{
		What: "match in 10,000 rules of a domain, the slowest kind", Weir: fmt.Sprintf("%.0f ns", slowest), Target: "≤ 1 µs", Verdict: table.AtMost(1000).Verdict(slowest),
	})
	return nil
}
