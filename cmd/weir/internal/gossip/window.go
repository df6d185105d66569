package gossip

// windowSize is how far a packet may come behind the newest of its sender. A later one counts as
// replayed.
const windowSize = 2048

// window tells packets that come for the first time from those that came before,
// as in RFC 6479: a ring of bits, of which the newest windowSize are told apart.
// The zero value has seen none. Sequences begin with 1.
type window struct {
	newest uint64
	bits   [windowSize/64 + 1]uint64
}

// fresh is whether sequence may come now. It changes nothing: only a packet that
// was opened is taken.
func (w *window) fresh(sequence uint64) bool {
	if sequence > w.newest {
		return true
	}
	return w.newest-sequence < windowSize && w.bits[sequence/64%uint64(len(w.bits))]&(1<<(sequence%64)) == 0
}

// take marks sequence as seen, and tells whether it is the newest.
func (w *window) take(sequence uint64) (newest bool) {
	word := sequence / 64
	if sequence > w.newest {
		first := w.newest/64 + 1
		if word-w.newest/64 > uint64(len(w.bits)) {
			first = word - uint64(len(w.bits)) + 1
		}
		for i := first; i <= word; i++ {
			w.bits[i%uint64(len(w.bits))] = 0
		}
		w.newest, newest = sequence, true
	}
	w.bits[word%uint64(len(w.bits))] |= 1 << (sequence % 64)
	return newest
}
