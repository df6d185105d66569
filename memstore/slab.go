package memstore

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/weir-limit/weir"
)

// slabs hold the states of one table that grow with use, without a pointer for
// each: a slot holds the handle of its state. The state that a handle leads to belongs to the
// goroutine with the lock of its slot's segment. Memory once used is kept for states to come.
//
// A handle that is not 0 is in one slot, and its place is in no list of free ones. A split or a
// new layout copies the handle and leaves the slot it came from to the garbage collector, so
// that stays true, and a state never moves for it. All segments of a table share the slabs.
type slabs struct {
	// mu is held to hand out a place and to take one back, not to read or write a
	// state: that is safe under the lock of its segment, as no two handles lead to one
	// place.
	mu      sync.Mutex
	classes [slabClasses]slab
}

// slab holds states of up to one length.
type slab struct {
	// chunks have room for 2^i states, at most 2^chunkBits. A chunk never moves, so a
	// state stays where it is while other segments grow; only the list of them is
	// replaced, and readers load it without mu.
	chunks atomic.Pointer[[][]uint64]
	made   uint64 // places handed out so far, those in free too: the next new one
	// free is the first place that was given back, +1; its first word tells the next.
	free uint64
}

const (
	// A slab of class c is for states of up to 4 × 2^c + 1 words: logs of that
	// many stamps. The largest state there is, of weir.MaxHolders permits, has
	// 196,609 words. The largest class has room for 262,145.
	slabClasses = 17
	chunkWords  = 1 << 13
	lengthBits  = 20
	placeBits   = 39
)

// handle is class, length and place + 1 of a state; 0 is none. From the top: 5 bits, 20
// bits (lengthBits) and 39 bits (placeBits). It fits into the word of a slot where a state
// of fixed length would be. The length is that of the state; the place has the room of its class.
// No place is cleared: the words after the length are of states from before, and nobody reads
// them.
type handle = uint64

func slabWords(class int) int { return 4<<class + 1 }

func classOf(words int) int { return bits.Len(uint(max(words-2, 0)) >> 2) }

// chunkBits is how many places the largest chunks of a class have: 2^chunkBits
// of them have fewer than chunkWords words, unless one has more.
func chunkBits(class int) int { return max(10-class, 0) }

// chunk is where a place is. The first chunks have 1, 2, 4 places and so on, up to the largest
// size, so that a table of one key does not pay for many.
func chunk(class int, place uint64) (chunk int, at uint64) {
	k := chunkBits(class)
	if small := uint64(1)<<k - 1; place >= small {
		place -= small
		return k + int(place>>k), place & small
	}
	k = bits.Len64(place+1) - 1
	return k, place + 1 - 1<<k
}

// state is what h leads to. It has room to grow up to the length of its class.
func (s *slabs) state(h handle) weir.State {
	if h == 0 {
		return nil
	}
	class, n := int(h>>(lengthBits+placeBits)), h>>placeBits&(1<<lengthBits-1)
	return s.words(class, h&(1<<placeBits-1)-1)[:n]
}

// words are all words of a place. It reads the list of chunks without mu: whoever has a handle
// got it after its chunk was stored.
func (s *slabs) words(class int, place uint64) weir.State {
	i, at := chunk(class, place)
	w := uint64(slabWords(class))
	return (*s.classes[class].chunks.Load())[i][at*w : (at+1)*w : (at+1)*w]
}

// keep makes state what h leads to, and returns the handle that now does. A state moves when it
// outgrows its class, which is twice as large as the one before: so a log is copied once for each
// doubling. It moves back only to a class two below or less. A log that grows and shrinks
// around the end of a class so stays where it is.
func (s *slabs) keep(h handle, state weir.State) handle {
	n := len(state)
	if n == 0 {
		s.drop(h)
		return 0
	}
	class := classOf(n)
	if h != 0 {
		old := int(h >> (lengthBits + placeBits))
		if old == class || old == class+1 { // a state that shrinks a little stays
			place := h & (1<<placeBits - 1)
			copy(s.words(old, place-1), state) // onto itself, for most
			return uint64(old)<<(lengthBits+placeBits) | uint64(n)<<placeBits | place
		}
	}
	place := s.place(class)
	copy(s.words(class, place), state)
	s.drop(h)
	return uint64(class)<<(lengthBits+placeBits) | uint64(n)<<placeBits | (place + 1)
}

// empty makes h lead to no words, but keeps a place of the smallest class for what
// is about to come. A larger one goes back: most keys never need it.
func (s *slabs) empty(h handle) handle {
	if h>>(lengthBits+placeBits) > 0 {
		s.drop(h)
		return 0
	}
	return h & (1<<placeBits - 1)
}

// place hands out a place of a class: the one that came back last, else a new one. A new chunk is
// stored in the list before the lock is released, so a handle never comes before its chunk.
func (s *slabs) place(class int) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.classes[class]
	if c.free != 0 {
		place := c.free - 1
		c.free = s.words(class, place)[0]
		return place
	}
	place := c.made
	c.made++
	i, _ := chunk(class, place)
	var chunks [][]uint64
	if old := c.chunks.Load(); old != nil {
		chunks = *old
	}
	if i == len(chunks) {
		size := 1 << min(i, chunkBits(class))
		// Readers of the old slice see no more of it than its length.
		chunks = append(chunks, make([]uint64, size*slabWords(class)))
		c.chunks.Store(&chunks)
	}
	return place
}

// drop gives a place back. Its first word becomes the link to the place given back before,
// so the list of free places needs no memory of its own.
func (s *slabs) drop(h handle) {
	if h == 0 {
		return
	}
	class, place := int(h>>(lengthBits+placeBits)), h&(1<<placeBits-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.words(class, place-1)[0] = s.classes[class].free
	s.classes[class].free = place
}
