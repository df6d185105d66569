package memstore

import "github.com/weir-limit/weir"

// overflows is whether the overflow state decides about f, which has no slot:
// there is none for it, or it may be one of the keys that found none before. Such a key
// stays with the overflow state until that has recovered: in a slot of its own it would
// begin anew. Once it has recovered nothing in it is in use, and it is dropped.
//
// The answer is a forecast: it is given before the take is decided, and the slot is claimed
// afterwards. The newcomers before f in the same take may need the same slots, so it is careful.
// Where it was wrong all the same, admit decides a plain take anew, by the overflow state, and
// owe charges that with any other take, even beyond the limit.
func (sg *segment) overflows(f uint64, now weir.Instant) bool {
	if sg.spills(f) {
		if !sg.limit.Fresh(sg.overflow, now) {
			return true
		}
		sg.overflow, sg.spilled = nil, nil
	}
	most := sg.most()
	switch n := sg.cells.capacity(); {
	case most == unbounded:
		return false
	case n+int(sg.cells.each) <= most:
		// It may grow by a bucket or more, which is nearly always enough for one. Several
		// newcomers get half of the slots to come, for a key can have those of two buckets only.
		return sg.newcomers > 0 && sg.newcomers >= (most-n)/2
	}
	// It may not grow. As if each newcomer before had taken one of f's own slots.
	return sg.vacancies(f, now) <= sg.newcomers
}

// vacancies is how many slots f may have; more than one where a key can move. Since
// claim takes the place of a key that is not denied, such a place counts, too.
func (sg *segment) vacancies(f uint64, now weir.Instant) int {
	free := 0
	for _, b := range [...]uint32{sg.cells.first(f), sg.cells.second(f)} {
		for i := range sg.cells.each {
			at := int(b + i*sg.cells.slot)
			if sg.cells.words[at] == 0 {
				free++
			} else if remaining, _ := sg.limit.Standing(sg.state(at), now); remaining > 0 {
				free++ // as never used, or to be forgotten
			}
		}
	}
	if free == 0 && sg.cells.room(f) {
		free++
	}
	return free
}

// spills has a bit for each range of fingerprints: of 2^spillBits, enough that a
// newcomer seldom shares one with somebody who found no slot. It takes 512 bytes, and most
// segments never have one. The bits are the upper ones of those that choose the first bucket, so
// a range is keys of few buckets: those that are full anyway.
type spills [1 << spillBits / 64]uint64

const spillBits = 12

// spills is whether f may have used the overflow state since it was as never used.
func (sg *segment) spills(f uint64) bool {
	i := uint32(f) >> (32 - spillBits)
	return sg.spilled != nil && sg.spilled[i/64]>>(i%64)&1 != 0
}

// spill notes that f is about to use the overflow state. That comes before the state is charged,
// and nothing takes a single bit back.
func (sg *segment) spill(f uint64) {
	if sg.spilled == nil {
		sg.spilled = new(spills)
	}
	i := uint32(f) >> (32 - spillBits)
	sg.spilled[i/64] |= 1 << (i % 64)
}
