package offenders

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// stream is names as they come: a few often, many once.
func stream(t *rapid.T, label string) []string {
	return rapid.SliceOfN(rapid.OneOf(
		rapid.SampledFrom([]string{"ann", "bob", "cyd"}),
		rapid.StringMatching("[a-h]"),
		rapid.StringN(0, 3, 3),
	), 0, 200).Draw(t, label)
}

func count(s *Sketch, exact map[string]int64, names []string, weight func() int64) {
	for _, name := range names {
		w := weight()
		s.Add([]byte(name), w)
		exact[name] += w
	}
}

// promised holds a sketch to what it promises, against exact counts.
func promised(t *rapid.T, s *Sketch, exact map[string]int64, room int64) {
	total := int64(0)
	for _, n := range exact {
		total += n
	}
	if s.Total() != total {
		t.Fatalf("total is %d, want %d", s.Total(), total)
	}
	if s.Least() > total/room {
		t.Fatalf("least is %d, of %d in room for %d", s.Least(), total, room)
	}
	kept := map[string]bool{}
	all := s.Top(int(room) + 1)
	if int64(len(all)) > room || int64(len(all)) < min(room, int64(len(exact))) {
		t.Fatalf("%d names are kept of %d, in room for %d", len(all), len(exact), room)
	}
	for i, c := range all {
		kept[c.Name] = true
		if got := exact[c.Name]; got > c.N || got < c.N-c.Error || c.Error > total/room || c.Error < 0 {
			t.Fatalf("%q: %d ± %d, but there were %d; n/k is %d/%d", c.Name, c.N, c.Error, got, total, room)
		}
		if i > 0 && all[i-1].N < c.N {
			t.Fatalf("not in order: %v", all)
		}
	}
	for name, n := range exact {
		if !kept[name] && n > s.Least() {
			t.Fatalf("%q came %d times and is not kept; least is %d", name, n, s.Least())
		}
	}
}

func TestSketch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(1, 12).Draw(t, "room")
		weight := func() int64 { return rapid.Int64Range(1, 5).Draw(t, "weight") }
		s, exact := NewSketch(room), map[string]int64{}
		count(s, exact, stream(t, "names"), weight)
		promised(t, s, exact, int64(room))
	})
}

// TestMerge: sketches of several nodes, merged in any order and recorded to
// between, promise for all of them together what each does for itself.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(1, 12).Draw(t, "room")
		one := func() int64 { return 1 }
		merged, exact := NewSketch(room), map[string]int64{}
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			s := NewSketch(room)
			count(s, exact, stream(t, fmt.Sprint("node ", i)), one)
			if rapid.Bool().Draw(t, "turned") {
				merged = merged.Merge(s)
			} else {
				merged = s.Merge(merged)
			}
			promised(t, merged, exact, int64(room))
			count(merged, exact, stream(t, fmt.Sprint("more ", i)), one)
			promised(t, merged, exact, int64(room))
		}
	})
}

// TestHeavyStays: whoever has more than n/k is told, however many others come.
func TestHeavyStays(t *testing.T) {
	s := NewSketch(10)
	for i := range 100_000 {
		s.Add(fmt.Appendf(nil, "once-%d", i), 1)
		if i%8 == 0 {
			s.Add([]byte("heavy"), 1)
		}
	}
	top := s.Top(1)
	if want := int64(12_500); top[0].Name != "heavy" || top[0].N < want || top[0].N-top[0].Error > want {
		t.Error(top)
	}
}

func TestTopIsSorted(t *testing.T) {
	s := NewSketch(2)
	for _, name := range []string{"b", "a", "a", "c", "c"} { // may have come as often as b when it comes again
		s.Add([]byte(name), 1)
	}
	if d := cmp.Diff([]Count{{"a", 2, 0}, {"c", 2, 1}}, s.Top(9)); d != "" {
		t.Error(d)
	}
	if got := NewSketch(3).Top(3); len(got) != 0 {
		t.Error(got)
	}
}

// BenchmarkAdd is one client that is denied all the time, and a flood of them.
func BenchmarkAdd(b *testing.B) {
	for _, names := range []int{1, 50, 100_000} {
		all := make([][]byte, names)
		for i := range all {
			all[i] = fmt.Appendf(nil, "somebody-%d", i)
		}
		b.Run(fmt.Sprint(names), func(b *testing.B) {
			s := NewSketch(100)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Add(all[i%names], 1)
			}
		})
	}
}
