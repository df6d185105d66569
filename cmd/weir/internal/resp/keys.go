package resp

import (
	"hash/maphash"
	"sync/atomic"
)

const (
	// keptKeys is how many keys of CL.THROTTLE are remembered as text, so that a key that comes again needs no
	// memory. One that has the place of another takes it.
	keptKeys = 16 << 10
	// longestKept is how long such a key may be.
	longestKept = 128
)

// keys remembers keys as text. It is made by newKeys.
type keys struct {
	seed  maphash.Seed
	known []atomic.Pointer[string]
}

func newKeys() *keys {
	return &keys{seed: maphash.MakeSeed(), known: make([]atomic.Pointer[string], keptKeys)}
}

// text is a key as text.
func (k *keys) text(word []byte) string {
	if len(word) > longestKept {
		return string(word)
	}
	at := &k.known[maphash.Bytes(k.seed, word)%keptKeys]
	if known := at.Load(); known != nil && *known == string(word) {
		return *known
	}
	made := string(word)
	at.Store(&made)
	return made
}
