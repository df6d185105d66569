package offenders

import (
	"cmp"
	"slices"
)

// Summary is the names of a Sketch that came most often, for other nodes: a name that is not among them had Least events at most.
type Summary struct {
	Counts []Count `json:"counts,omitempty"`
	Least  int64   `json:"least,omitempty"`
}

// Summary is the first n names of s.
func (s *Sketch) Summary(n int) Summary {
	return Summary{Counts: s.Top(n + 1), Least: s.Least()}.First(n)
}

// First is the first n names of s.
func (s Summary) First(n int) Summary {
	if len(s.Counts) > n {
		return Summary{s.Counts[:n], max(s.Least, s.Counts[n].N)}
	}
	return s
}

// Sum is the first n names of several summaries, by the sums of their counts, with the promise that a Sketch gives: a name that one of
// them does not have had there at most its Least.
func Sum(all []Summary, n int) []Count {
	least, sums := int64(0), map[string]Count{}
	for _, s := range all {
		least += s.Least
		for _, c := range s.Counts {
			was := sums[c.Name]
			sums[c.Name] = Count{c.Name, was.N + c.N - s.Least, was.Error + c.Error - s.Least}
		}
	}
	top := make([]Count, 0, len(sums))
	for _, c := range sums {
		top = append(top, Count{c.Name, c.N + least, c.Error + least})
	}
	slices.SortFunc(top, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Error, b.Error), cmp.Compare(a.Name, b.Name))
	})
	return top[:min(n, len(top))]
}
