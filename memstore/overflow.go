package memstore

import "github.com/weir-limit/weir"

// overflows is whether the overflow state decides about f, which has no slot:
// there is none for it, or it may be one of the keys that found none before. Such a key
// stays with the overflow state until that has recovered: in a slot of its own it would
// begin anew. Once it has recovered nothing in it is in use, and it is dropped.
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
		return sg.newcomers > 0 && sg.newcomers >= (most-n)/2
	}
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
// newcomer seldom shares one with somebody who found no slot.
type spills [1 << spillBits / 64]uint64

const spillBits = 12

func (sg *segment) spills(f uint64) bool {
	i := uint32(f) >> (32 - spillBits)
	return sg.spilled != nil && sg.spilled[i/64]>>(i%64)&1 != 0
}

func (sg *segment) spill(f uint64) {
	if sg.spilled == nil {
		sg.spilled = new(spills)
	}
	i := uint32(f) >> (32 - spillBits)
	sg.spilled[i/64] |= 1 << (i % 64)
}
