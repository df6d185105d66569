package memstore

import (
	"github.com/weir-limit/weir"
)

// What a segment grows by and to. All keys of a segment wait while it is laid
// out anew, so it must stay small: 4,096 slots take some 100 µs.
const (
	splitSlots = 4096
	splitWords = 1 << 15
	// While a table has few segments they are split early, so that takes of
	// different keys seldom wait for each other.
	earlySegments = 1 << 6
	earlySlots    = 256
	smallSlots    = 1024
)

// grow leaves behind what is as never used and makes room, as far as the
// segment may have it. Try is how often it was asked to already.
func (sg *segment) grow(now weir.Instant, try int) bool {
	most := sg.table.bound.slots / int(sg.cells.each)
	have := int(sg.cells.buckets)
	if sg.depth == sg.table.bound.depth && have >= most {
		return false
	}
	live := 0
	for i := range sg.cells.all {
		if !sg.limit.Fresh(sg.state(i), now) {
			live++
		}
	}
	want := have
	if try > 0 || live*5 > sg.cells.capacity()*3 {
		// By about a quarter, and not all segments at the same time. Small ones
		// cost little memory, but each step costs time.
		step := have / 6
		if sg.cells.capacity() < smallSlots {
			step = have / 3
		}
		want += max(step+jitter(sg.start+uint64(have), step+1), 1)
	}
	if sg.depth == sg.table.bound.depth {
		want = min(want, most)
	}
	old := sg.cells
	for !sg.move(&old, want, now) {
		want += want/8 + 1 // beyond most for once, rather than lose a key
	}
	return true
}

// move lays the states out anew in so many buckets, and says whether all found
// a slot.
func (sg *segment) move(old *cells, buckets int, now weir.Instant) bool {
	sg.cells = newCells(sg.limit, buckets)
	for i := range old.all {
		if sg.limit.Fresh(sg.stateIn(old, i), now) {
			continue
		}
		slot := sg.cells.empty(old.words[i])
		if slot < 0 {
			return false
		}
		copy(sg.cells.words[slot:slot+int(old.slot)], old.words[i:i+int(old.slot)])
	}
	if old.slot == 2 {
		sg.free(old, now)
	}
	return true
}

func (sg *segment) stateIn(c *cells, i int) weir.State {
	if c.slot == 2 {
		return sg.table.slabs.state(c.words[i+1])
	}
	return c.words[i+1 : i+int(c.slot)]
}

// free gives back the memory of growing states that were left behind.
func (sg *segment) free(old *cells, now weir.Instant) {
	for i := range old.all {
		if h := old.words[i+1]; sg.limit.Fresh(sg.table.slabs.state(h), now) {
			sg.table.slabs.drop(h)
		}
	}
}

// large is whether the segment is better split.
func (sg *segment) large() bool {
	if sg.gone || sg.depth >= sg.table.bound.depth || sg.cells.capacity() <= sg.table.bound.early {
		return false
	}
	return 1<<sg.depth < earlySegments || sg.cells.capacity() > splitSlots || len(sg.cells.words) > splitWords
}

// split makes two segments of one. Its lock is held, and those who wait for it
// look again.
func (sg *segment) split() {
	var keys [2]int
	for i := range sg.cells.all {
		keys[half(sg.cells.words[i], sg.depth)]++
	}
	var parts [2]*segment
	for side := range parts {
		p := &segment{table: sg.table, limit: sg.limit, depth: sg.depth + 1, start: sg.start | uint64(side)<<(63-sg.depth)}
		p.cells = cells{each: sg.cells.each}
		n := keys[side]
		buckets := (n + n/5 + jitter(p.start+uint64(n), n/5+1)) / int(sg.cells.each)
		for buckets = max(buckets, 1); !p.take(&sg.cells, side, sg.depth, buckets); buckets += buckets/8 + 1 {
		}
		parts[side] = p
	}
	parts[0].evicted, parts[0].overflowed = sg.evicted, sg.overflowed
	sg.gone = true
	sg.table.replace(sg, parts)
	sg.cells.words = nil
}

// take lays out one half of the slots of a segment that is split.
func (sg *segment) take(from *cells, side int, depth uint8, buckets int) bool {
	sg.cells = newCells(sg.limit, buckets)
	for i := range from.all {
		if half(from.words[i], depth) != side {
			continue
		}
		slot := sg.cells.empty(from.words[i])
		if slot < 0 {
			return false
		}
		copy(sg.cells.words[slot:slot+int(from.slot)], from.words[i:i+int(from.slot)])
	}
	return true
}
