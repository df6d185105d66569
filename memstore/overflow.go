package memstore

import "github.com/weir-limit/weir"

// overflows is whether the overflow state decides about f, which has no slot:
// there is none for it, or it may be one of those who found none before.
func (sh *shard) overflows(f fingerprint, now weir.Instant) bool {
	if sh.spills(f) {
		if !sh.limit.Fresh(sh.overflow, now) {
			return true
		}
		sh.overflow, sh.spilled = nil, nil
	}
	if n := len(sh.prints); n < sh.max {
		return sh.newcomers > 0 && sh.newcomers >= (sh.max-n)/2
	}
	return sh.vacancies(f, now) <= sh.newcomers
}

// vacancies is how many slots f may have.
func (sh *shard) vacancies(f fingerprint, now weir.Instant) int {
	n, i, free := len(sh.prints), sh.home(f), 0
	for range min(reach, n) {
		if sh.prints[i] == (fingerprint{}) {
			free++
		} else if remaining, _ := sh.limit.Standing(sh.state(i), now); remaining > 0 {
			free++ // as never used, or to be forgotten
		}
		if i++; i == n {
			i = 0
		}
		if free > sh.newcomers {
			break
		}
	}
	return free
}

// 2^spillBits ranges of homes are told apart: enough that a newcomer seldom
// shares one with somebody who found no slot.
const spillBits = 12

func (sh *shard) spills(f fingerprint) bool {
	i := f.low >> (64 - spillBits)
	return sh.spilled != nil && sh.spilled[i/64]>>(i%64)&1 != 0
}

func (sh *shard) spill(f fingerprint) {
	if sh.spilled == nil {
		sh.spilled = make([]uint64, 1<<spillBits/64)
	}
	i := f.low >> (64 - spillBits)
	sh.spilled[i/64] |= 1 << (i % 64)
}
