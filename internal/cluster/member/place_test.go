package member

import (
	"maps"
	"slices"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/rank"
)

// TestFollowed: while members don't reach each other, each side follows the first of the rank that it reaches.
func TestFollowed(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	key := weir.StateKey{Rule: rank.Mark(0) + "api"}
	rank := ranked(key, names)
	at := func(i int) int { return slices.Index(names, rank[i]) }
	side := func(i int) bool { return i == 1 || i == 4 }
	sides := func(i, j int) bool { return side(i) != side(j) }
	type votes = map[string]int64
	for _, c := range []struct {
		what  string
		self  int
		cut   func(from, to int) bool
		want  votes
		first string
	}{
		{"all reach each other", 2, func(int, int) bool { return false }, votes{rank[0]: 5}, rank[0]},
		{"two are cut off", 2, sides, votes{rank[0]: 3, "": 2}, rank[0]},
		{"the same, of these", 4, sides, votes{"": 3, rank[1]: 2}, ""},
		{"the first is alone", 0, func(i, j int) bool { return i == 0 != (j == 0) }, votes{rank[0]: 1, "": 4}, rank[0]},
		{"the first is with most", 4, func(i, j int) bool { return i >= 3 != (j >= 3) }, votes{"": 3, rank[3]: 2}, ""},
		{"one does not reach the first", 2, func(i, j int) bool { return i == 0 && j == 3 || i == 3 && j == 0 }, votes{rank[0]: 4, rank[1]: 1}, rank[0]},
	} {
		v := Together(rank[c.self], named(names...))
		for i := range rank {
			stands := make([]Other, len(names))
			for j := range rank {
				if c.cut(i, j) {
					stands[at(j)].Stand = Out
				}
			}
			v.members[at(i)].stands = stands
		}
		if got, first, all := v.Followed(key); !maps.Equal(got, c.want) || first != c.first || all != 5 {
			t.Errorf("%s: %v of %d, the first %q; want %v, %q", c.what, got, all, first, c.want, c.first)
		}
	}
}
