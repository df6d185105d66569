package record

import "github.com/weir-limit/weir"

// Score is the hash of a node and a count. The node with the highest score of all has the count
// (rendezvous hashing, Thaler and Ravishankar 1998): all agree on it, in whichever order they name
// the nodes, and a node that goes moves only what it had.
func Score(node string, k weir.StateKey) uint64 {
	h := Hash(Hash(Basis, node), "\x00")
	return Mix(Hash(Hash(Hash(h, k.Placement()), "\x00"), k.Key))
}

// Basis is what a Hash begins with.
const Basis = 14695981039346656037

// Hash goes on with a hash, FNV-1a: all nodes have to agree on it.
func Hash(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// Mix spreads every bit of h over all: FNV leaves the upper ones much alike for names
// that are alike but for a digit. It is the finalizer of MurmurHash3.
func Mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
