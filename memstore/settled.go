package memstore

import (
	"sync"

	"github.com/weir-limit/weir"
)

// settled remembers which receipts were settled, until none of their take works
// any more.
type settled struct {
	mu    sync.Mutex
	ids   map[uint64]struct{}
	ends  map[weir.Instant][]uint64 // by the minute in which they may be forgotten
	swept weir.Instant              // the minutes before are forgotten
}

const minute weir.Instant = 60_000_000

// claim marks the receipts of a take as settled, until then. A renewal only
// looks whether they were.
func (s *settled) claim(id uint64, until, now weir.Instant, renew bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now / minute)
	if _, ok := s.ids[id]; ok {
		return weir.ErrSettled
	}
	if renew {
		return nil
	}
	if len(s.ids) >= maxSettled {
		return weir.ErrFull
	}
	if s.ids == nil {
		s.ids, s.ends = map[uint64]struct{}{}, map[weir.Instant][]uint64{}
	}
	end := max(until, now)/minute + 1
	s.ids[id] = struct{}{}
	s.ends[end] = append(s.ends[end], id)
	return nil
}

// sweep forgets what ended before this minute.
func (s *settled) sweep(this weir.Instant) {
	if this <= s.swept {
		return
	}
	s.swept = this
	for end, ids := range s.ends { // one entry a minute of a receipt's life
		if end <= this {
			for _, id := range ids {
				delete(s.ids, id)
			}
			delete(s.ends, end)
		}
	}
}

func (s *settled) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ids)
}
