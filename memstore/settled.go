package memstore

import (
	"sync"

	"github.com/weir-limit/weir"
)

// settled remembers which receipts were settled, until they expire by
// themselves.
type settled struct {
	mu    sync.Mutex
	until map[uint64]weir.Instant
	purge int // size at which the expired are thrown out next
}

// claim marks a receipt as settled. A renewal only looks whether it was.
func (s *settled) claim(r *weir.Receipt, now weir.Instant, renew bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.until[r.ID]; ok {
		return weir.ErrSettled
	}
	if renew {
		return nil
	}
	if len(s.until) >= max(s.purge, 1024) {
		for id, end := range s.until {
			if end <= now {
				delete(s.until, id)
			}
		}
		s.purge = min(2*len(s.until), maxSettled)
	}
	if len(s.until) >= maxSettled {
		return weir.ErrFull
	}
	if s.until == nil {
		s.until = map[uint64]weir.Instant{}
	}
	s.until[r.ID] = r.Expires
	return nil
}

func (s *settled) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.until)
}
