package record

import (
	"hash/fnv"

	"github.com/weir-limit/weir"
)

// Score is the hash of a node and a count. The node with the highest score of all has the count
// (rendezvous hashing, Thaler and Ravishankar 1998): all agree on it, in whichever order they name
// the nodes, and a node that goes moves only what it had.
func Score(node string, k weir.StateKey) uint64 {
	h := fnv.New64a()
	for _, part := range [...]string{node, "\x00", k.Placement(), "\x00", k.Key} {
		_, _ = h.Write([]byte(part)) // it never fails
	}
	return Mix(h.Sum64())
}

// Mix spreads every bit of h over all: FNV leaves the upper ones much alike for names
// that are alike but for a digit. It is the finalizer of MurmurHash3.
func Mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
