package memstore

import (
	"slices"

	"github.com/weir-limit/weir"
)

// How many keys a segment may have before it is split. All takes of its keys wait
// while it is laid out anew, so it must stay small: 3,072 keys take some 100 µs. Long states are
// bounded by splitWords, the words of all slots together: a slot of more than 21 words has fewer
// than splitKeys of them.
const (
	splitKeys  = 1536
	splitWords = 1 << 15
	// While a table has few segments they are split early, so that takes of
	// different keys seldom wait for each other.
	earlySegments = 1 << 6
	earlyKeys     = 192
)

// ripeAt is how many keys the segment is split at: from half of what it may have
// to all, so that not all segments are split at the same time. Keys spread evenly, so without that
// all segments of a table would reach the same number within a short time, and their memory would
// double at once.
func (sg *segment) ripeAt() int {
	most := splitKeys
	if 1<<sg.depth < earlySegments {
		most = sg.table.bound.early
	}
	most = min(most, splitWords/(1+max(sg.limit.Words(), 1)))
	return most/2 + jitter(sg.start+uint64(sg.depth), most/2+1)
}

// room is how many slots the segment gets when so many keys are laid out in it:
// 3/5 of them are taken then, and about 7/8 when a newcomer finds none. Small
// segments get more, as they cost little memory, and each step costs time. So a
// key is copied about three times while its table grows from nothing.
func (sg *segment) room(keys int) int {
	slots := keys * 5 / 3
	if keys < earlyKeys {
		slots = keys * 5 / 2
	}
	if sg.depth < sg.table.bound.depth {
		slots = min(slots, sg.ripe+sg.ripe/4) // it will not need more
	}
	return slots
}

// grow gives up the slots of what is as never used and makes room, as far as the
// segment may have it. Try is how often it was asked to already.
//
// The first try may leave the size as it is: where enough is as never used, the newcomer then
// finds a slot. Each later one adds an eighth or more. At the bound it fails at once, without a
// look at the states, for vacant has looked at those that the newcomer could replace.
//
// Copies of denied keys stay good: they go by fingerprints, and no state in use changes.
func (sg *segment) grow(now weir.Instant, try int) bool {
	have, most := int(sg.cells.buckets), sg.most()/int(sg.cells.each)
	last := most < unbounded/int(sg.cells.each)
	if last && have >= most {
		return false
	}
	sg.sweep(now)
	want := have
	if try > 0 || sg.used*5 > sg.cells.capacity()*3 {
		want = max(sg.room(sg.used)/int(sg.cells.each), have+have/8) + 1
	}
	if last {
		want = min(want, most)
	}
	old := sg.cells
	for !sg.lay(&old, want, 0) {
		want += want/8 + 1 // beyond most for once, rather than lose a key
	}
	sg.table.sized(old.capacity(), sg.cells.capacity())
	return true
}

// unbounded is more slots than any segment has.
const unbounded = 1 << 40

// most is how many slots the segment may have. One that may be split has no bound: ripe keeps it
// small. Where the tables of limits that came with requests are crowded it may keep what it has.
func (sg *segment) most() int {
	switch {
	case sg.table.crowded():
		return sg.cells.capacity()
	case sg.depth < sg.table.bound.depth:
		return unbounded
	}
	return sg.table.bound.slots
}

// clean lays out anew a segment that is about to be split, when so many of its
// states are as never used that it need not be. A table whose keys come and go so keeps
// the size that the keys in use need, without a sweeper. With more than 3/4 of ripe in use it
// leaves all as it is: it would be full again soon, and the work would be done for little.
func (sg *segment) clean(now weir.Instant) {
	live := 0
	for i := range sg.cells.all {
		if !sg.limit.Fresh(sg.state(i), now) {
			live++
		}
	}
	if live > sg.ripe*3/4 {
		return
	}
	sg.sweep(now)
	old := sg.cells
	for buckets := int(old.buckets); !sg.lay(&old, buckets, 0); buckets += buckets/8 + 1 {
	}
	sg.table.sized(old.capacity(), sg.cells.capacity())
}

// sweep gives up the slots whose state is as never used. It leaves gaps in
// buckets, which full and find rely on not to be there: so what is left must be laid
// out anew before the lock is released.
func (sg *segment) sweep(now weir.Instant) {
	sg.used = 0
	for i := range sg.cells.all {
		if !sg.limit.Fresh(sg.state(i), now) {
			sg.used++
			continue
		}
		sg.put(i, nil)
		sg.cells.words[i] = 0
	}
}

// lay lays out in so many buckets, for sg, the slots of from whose fingerprints
// have the given bit as sg's do; all for 0. It says whether all found room. If not, sg has only
// some of them, and the caller begins again with more buckets. It changes no words of from, and
// sg shares none of them. The handle of a state that grows is copied, and the state stays where
// it is in the slabs.
func (sg *segment) lay(from *cells, buckets int, bit uint64) bool {
	sg.cells, sg.used = newCells(sg.limit, buckets), 0
	to, width := &sg.cells, from.slot
	for b := uint32(0); b < from.buckets*from.stride; b += from.stride {
		for i := range from.each {
			slot := from.words[b+i*width:][:width]
			f := slot[0]
			if f == 0 || (f^sg.start)&bit != 0 {
				continue
			}
			at := to.empty(f)
			if at < 0 {
				return false
			}
			copy(to.words[at:], slot)
			sg.used++
		}
	}
	return true
}

// large is whether the segment is better split. One that is gone was split already. A crowded one
// stays whole, for its parts may have more slots together than it has.
func (sg *segment) large() bool {
	return sg.used > sg.ripe && sg.depth < sg.table.bound.depth && !sg.gone && !sg.table.crowded()
}

// split makes two segments of one, by the first bit that its fingerprints do not share.
// Its lock is held. It puts both into the directory before the caller releases the lock,
// so that takes that wait for it find it gone, look again, and find one of the two.
//
// It comes last in a take: when all is decided and kept, and nobody has the index of a slot. The
// goroutine waits for no segment from then on, so a take that waits for this one never waits in
// a circle. From replace on others may use the parts, so no state is touched after that.
//
// Both parts get a copy of the overflow state, and all of spilled. A key that has used that state
// belongs to one part, and finds there at least what it has used.
func (sg *segment) split() {
	bit := uint64(1) << (63 - sg.depth)
	var keys [2]int
	for i := range sg.cells.all {
		keys[half(sg.cells.words[i], sg.depth)]++
	}
	var parts [2]*segment
	for side := range parts {
		p := &segment{table: sg.table, limit: sg.limit, depth: sg.depth + 1, start: sg.start | uint64(side)*bit}
		p.ripe = p.ripeAt()
		buckets := max(p.room(keys[side])/int(sg.cells.each), 1)
		for !p.lay(&sg.cells, buckets, bit) {
			buckets += buckets/8 + 1
		}
		if sg.spilled != nil { // keys that share the overflow state find it in either part
			spilled := *sg.spilled
			p.spilled, p.overflow = &spilled, slices.Clone(sg.overflow)
		}
		parts[side] = p
	}
	sg.table.sized(sg.cells.capacity(), parts[0].cells.capacity()+parts[1].cells.capacity())
	parts[0].evicted, parts[0].overflowed = sg.evicted, sg.overflowed
	sg.gone = true
	sg.changedAll() // takes that found it before may still read it
	sg.table.replace(sg, parts)
	sg.cells.words = nil
}
