package main

import (
	"slices"
	"strings"
	"testing"
)

// TestSubjects: what is measured does what the plan says: all passes, or after
// the first event of a key nothing.
func TestSubjects(t *testing.T) {
	for _, deny := range []bool{false, true} {
		for _, s := range slices.Concat([]subject{ours, front, frontOfTwo, file, fileOfTwo}, peers, twice()) {
			p := plan{keys: 2, deny: deny}
			worker := s.takes(p)
			if worker == nil {
				continue
			}
			f := worker()
			fill(f, p.keys)
			var b [16]byte
			for range 3 {
				for n := range uint64(p.keys) {
					if passed := f(keyOf(&b, n)); passed == deny {
						t.Errorf("%s, deny %v: key %d passes: %v", s.name, deny, n, passed)
					}
				}
			}
		}
	}
}

// TestPrint: the tables are those of the page, misses come first, and what was not measured
// has no column.
func TestPrint(t *testing.T) {
	r := report{
		Tables: []table{
			{"1 key", []costs{{Name: ours.name, Median: 50}, {Name: floor.name, Median: 40}, {Name: front.name, Median: 60}, {Name: "throttled", Median: 100}}},
			{"2 keys", []costs{{Name: ours.name, Median: 70}, {Name: floor.name, Median: 40}, {Name: front.name, Median: 80}, {Name: "throttled", Median: 110}}},
		},
		Twos:  []table{{"1 key", []costs{{Name: front.name, Median: 60}, {Name: frontOfTwo.name, Median: 150}}}},
		Facts: []fact{{"size", "39", "≤ 40", true}, {"time", "2", "≤ 1", false}},
	}
	var out strings.Builder
	r.print(&out)
	for _, want := range []string{`
| a take, ns of a processor | ` + "`Limiter.Take`" + ` | memstore | floor | goal of memstore | throttled |
|---|---|---|---|---|---|
| 2 keys | 80 | 70 | 40 | 60: missed | 110 |
| 1 key | 60 | 50 | 40 | 60 | 100 |
`, `
| 1 key | 60 | 150 | 2.5, goal ≤ 2: missed |
` + "`Limiter.Take` of two takes 2.5 to 2.5 times as long as `Limiter.Take`." + `
`, `
| | measured | goal |
|---|---|---|
| time | 2 | ≤ 1: missed |
| size | 39 | ≤ 40 |
`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no\n%s in\n%s", want, &out)
		}
	}
}
