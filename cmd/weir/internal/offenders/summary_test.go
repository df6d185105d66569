package offenders

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestSummary: the sum of what nodes tell holds each name between its bounds, and names none that another had more of.
func TestSummary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room, n := rapid.IntRange(2, 8).Draw(t, "room"), rapid.IntRange(1, 6).Draw(t, "n")
		real, most := map[string]int64{}, int64(0)
		var all []Summary
		for range rapid.IntRange(1, 4).Draw(t, "nodes") {
			s := NewSketch(room)
			for range rapid.IntRange(0, 40).Draw(t, "events") {
				name := fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "name"))
				s.Add([]byte(name), 1)
				real[name]++
			}
			all = append(all, s.Summary(n))
			most += all[len(all)-1].Least
		}
		top := Sum(all, n)
		named := map[string]bool{}
		for _, c := range top {
			named[c.Name] = true
			if c.N < real[c.Name] || c.N-c.Error > real[c.Name] || c.Error < 0 {
				t.Fatalf("%+v of %d", c, real[c.Name])
			}
		}
		for name, had := range real {
			if !named[name] && len(top) < n && had > most {
				t.Fatalf("%s had %d, and is not named; %d at most", name, had, most)
			}
		}
	})
}
