// Package rank orders the members of a cluster for a key, by a rendezvous hash: the first is its owner while all are heard. So a
// member that comes or goes moves only the keys that it owns. All nodes have to agree on the order, so it is part of the protocol.
//
// seat.go ranks the members for a whole rule in place of each key.
package rank

import (
	"cmp"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// Score ranks a member for a key: the highest of all comes first, and of two alike the first by name.
func Score(member string, key weir.StateKey) uint64 {
	if mark, _ := CutMark(key.Rule); mark != "" {
		key.Key = ""
	}
	return record.Score(member, key)
}

// Of is n members in the order of the key, by their numbers. They are numbered by their names.
func Of(key weir.StateKey, n int, name func(i int) string) []int {
	scores, order := make([]uint64, n), make([]int, n)
	for i := range n {
		order[i], scores[i] = i, Score(name(i), key)
	}
	slices.SortFunc(order, func(a, b int) int {
		if scores[a] != scores[b] {
			return -cmp.Compare(scores[a], scores[b])
		}
		return a - b
	})
	return order
}

// First is the first member for the key, of members in any order; "" of none.
func First(key weir.StateKey, members []string) (first string) {
	var highest uint64
	for _, m := range members {
		if s := Score(m, key); first == "" || s > highest || s == highest && m < first {
			first, highest = m, s
		}
	}
	return first
}
