package memstore

import (
	"math/bits"
	"slices"

	"github.com/weir-limit/weir"
)

// cells are the slots of a segment, in buckets that begin on a line of the
// processor's cache. A key lives in one of two buckets, in the first if that had
// room. A slot is the fingerprint of its key and then its state, or where
// states grow, their handle. Fingerprint 0 is an empty slot.
//
// The two places of a key follow from its fingerprint and the number of buckets alone, so
// a key can be moved, and all laid out anew, without its text.
//
// A bucket of states of two words is two lines, of five slots and a word that is unused:
//
//	word     0      3      6      9      12     15
//	         f s s  f s s  f s s  f s s  f s s  –
//
// A slot goes by the index of its fingerprint in words, and a bucket by that of its first word.
// The state of a slot begins one word after the slot.
//
// Slots of a bucket are taken from the first to the last, and never given up. A key lies in
// its second bucket only if the first was full when it came, and so the first still is. That
// lets find stop after one bucket in most cases: a first bucket that is not full shows that the
// key is nowhere. Only sweep breaks this, and lay makes it true again under the same lock.
type cells struct {
	// words are buckets × stride, and may be some more that no bucket uses. They hold no
	// pointers, so that the garbage collector never reads a table.
	words   []uint64
	buckets uint32
	stride  uint32 // words of a bucket: whole cache lines, so the last ones may be unused
	slot    uint32 // words of a slot: the fingerprint and the state, or 2 with a handle
	each    uint32 // slots of a bucket: 5 of pairSlot, else 4
}

const line = 8 // words of a cache line

// pairSlot is the length of a slot of the states of two words that most limits
// have: five fill two lines, which processors fetch together.
const (
	pairSlot   = 3
	pairStride = 16
)

// pair is a copy of such a state.
type pair = [pairSlot - 1]uint64

// newCells makes so many buckets, or more where the memory for them is had anyway: Go rounds an
// allocation up to a size class, and a bucket that fits into the rest is free. So the number of
// buckets is not what was asked for; a segment may pass its bound by that.
func newCells(limit *weir.Limit, buckets int) cells {
	c := cells{slot: uint32(1 + max(limit.Words(), 1)), each: 4}
	if c.slot == pairSlot {
		c.each = 5
	}
	c.stride = (c.slot*c.each + line - 1) / line * line
	words := slices.Grow([]uint64(nil), buckets*int(c.stride))
	c.words = words[:cap(words)]
	c.buckets = uint32(len(c.words)) / c.stride
	return c
}

// capacity is how many slots there are.
func (c *cells) capacity() int { return int(c.buckets * c.each) }

// first is where the first bucket of f begins. The lower half of f, as a fraction of 2^32, is
// taken of the buckets: a product and a shift in place of a division. The upper bits are no use
// here, as they are alike for all keys of a segment.
func (c *cells) first(f uint64) uint32 {
	return uint32(uint64(uint32(f))*uint64(c.buckets)>>32) * c.stride
}

// second is where the second bucket of f begins, which may be the first: such a key has but one.
// The product brings the lower bits of f up, so that keys of one first bucket have many second
// ones.
func (c *cells) second(f uint64) uint32 {
	f *= 0x9e3779b97f4a7c15
	return uint32(f>>32*uint64(c.buckets)>>32) * c.stride
}

// other is the bucket of f that is not the given one; where both are one, that one. A key
// that moves from its first to its second bucket is found there, for the first stays full:
// the newcomer takes the slot at once. A key in its second bucket never moves back, since its
// first one is full.
func (c *cells) other(f uint64, bucket uint32) uint32 {
	if first := c.first(f); first != bucket {
		return first
	}
	return c.second(f)
}

// find is the slot of f, or −1. It reads fingerprints of two buckets at most, and no state.
func (c *cells) find(f uint64) int {
	if c.buckets == 0 {
		return -1
	}
	b := c.first(f)
	if c.slot == pairSlot { // what most takes find
		if i := c.pair(b, f); i >= 0 {
			return i
		}
	} else if i := c.within(b, f); i >= 0 {
		return i
	}
	if c.full(b) {
		return c.within(c.second(f), f)
	}
	return -1
}

// full is whether every slot of a bucket is taken. Slots are taken in order and
// never given up, so the last one tells; and a key that is not in its first
// bucket, though that is not full, is nowhere.
func (c *cells) full(bucket uint32) bool { return c.words[bucket+(c.each-1)*c.slot] != 0 }

// within is the slot of a bucket that holds f, or −1; the first empty one for f = 0, so that a
// bucket fills from its beginning.
func (c *cells) within(bucket uint32, f uint64) int {
	if c.slot == pairSlot {
		return c.pair(bucket, f)
	}
	for i := range c.each {
		if at := bucket + i*c.slot; c.words[at] == f {
			return int(at)
		}
	}
	return -1
}

// pair is within for states of two words. Which slot it is can't be foreseen by a
// processor, so there is no branch on it.
func (c *cells) pair(bucket uint32, f uint64) int {
	p := (*[pairStride]uint64)(c.words[bucket:])
	i := -1
	if p[4*pairSlot] == f {
		i = int(bucket) + 4*pairSlot
	}
	if p[3*pairSlot] == f {
		i = int(bucket) + 3*pairSlot
	}
	if p[2*pairSlot] == f {
		i = int(bucket) + 2*pairSlot
	}
	if p[pairSlot] == f {
		i = int(bucket) + pairSlot
	}
	if p[0] == f {
		i = int(bucket)
	}
	return i
}

// empty finds an empty slot that f may have, if need be by moving another key
// to its other bucket; −1 when there is none. It must be taken: a move leaves a gap in a full
// bucket, and a gap in its last slot would hide keys that are in their second one.
//
// The moved key takes its state along: a slot is copied as a whole, with the handle of a state
// that grows. Its copy in denied goes by the fingerprint and stays good.
func (c *cells) empty(f uint64) int {
	first := c.first(f)
	if at := c.within(first, 0); at >= 0 {
		return at
	}
	second := c.second(f)
	if at := c.within(second, 0); at >= 0 {
		return at
	}
	for _, b := range [...]uint32{first, second} {
		if from, to := c.movable(b); from >= 0 {
			copy(c.words[to:to+int(c.slot)], c.words[from:from+int(c.slot)])
			clear(c.words[from : from+int(c.slot)])
			return from
		}
	}
	return -1
}

// movable is a slot of a full bucket whose key has an empty slot to go to, or −1. One
// move is all that is tried (a cuckoo table of one step, Pagh and Rodler, 2001): longer
// chains would make the take of a newcomer slow.
func (c *cells) movable(bucket uint32) (from, to int) {
	for i := range c.each {
		at := bucket + i*c.slot
		if other := c.other(c.words[at], bucket); other != bucket && !c.full(other) {
			return int(at), c.within(other, 0)
		}
	}
	return -1, -1
}

// room is whether f has an empty slot, or another key can make it one. It moves none: a take that
// only asks may not take the slot afterwards, and that would leave a gap.
func (c *cells) room(f uint64) bool {
	first, second := c.first(f), c.second(f)
	if !c.full(first) || !c.full(second) {
		return true
	}
	a, _ := c.movable(first)
	b, _ := c.movable(second)
	return a >= 0 || b >= 0
}

// all yields the slots that hold a fingerprint. Those of states that are as never used are
// among them. The caller must not lay out anew or move slots while it goes over them.
func (c *cells) all(yield func(slot int) bool) {
	for b := uint32(0); b < c.buckets*c.stride; b += c.stride {
		for i := range c.each {
			if at := b + i*c.slot; c.words[at] != 0 && !yield(int(at)) {
				return
			}
		}
	}
}

// half is on which side of a split a fingerprint lies: its bit after depth.
func half(f uint64, depth uint8) int { return int(f >> (63 - depth) & 1) }

// jitter is a number below n that follows from f, to keep segments from all
// growing at the same time. It needs no source of chance: the same table grows the same way
// each time, also in tests.
func jitter(f uint64, n int) int {
	hi, _ := bits.Mul64(f*0xd6e8feb86659fd93, uint64(n))
	return int(hi)
}
