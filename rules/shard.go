package rules

import (
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// kept is what is there of a denial.
type kept uint8

const (
	nothing    kept = iota // the place is free; so the zero head is
	whole                  // all of it
	tooLarge               // its id; it was larger than MaxDenial
	expired                // its id; its time is over
	noEvidence             // its id; the store did not tell what it stood on
)

// head is what places are chosen by. Heads lie together, apart from the bodies,
// because all of a shard are looked at.
type head struct {
	id uint64 // of the answer
	// at is when the store decided, on its clock; without evidence, when this process
	// heard of it.
	at   weir.Instant
	rule uint32 // a hash of its name: an override's rule is made for each request
	// version is the number of the rules that denied: a denial is explained by these,
	// even when other rules are active by then.
	version uint32
	kept    kept
	same    uint8 // how many of the shard have this rule, this one too: 1…shardSize
}

// over is whether its time is over. now may be before at, where the store's clock is ahead.
func (h *head) over(now weir.Instant) bool {
	return now-h.at > weir.Instant(DenialLife/time.Microsecond) || h.kept == expired
}

// shard is a part of Denials. It begins without memory, and keeps what it once needed.
type shard struct {
	// mu is only tried by a request, never waited for. Explanations and sweeps wait.
	mu sync.Mutex
	// heads are at most shardSize, in no order. bodies are by head; of one that is not whole the
	// body is empty.
	heads  []head
	bodies []body
	// The counts since the process began: see DenialStats.
	overwritten, large, noEvidence int64
}

// place puts h where there is room: a new place, one whose time is over, or that
// of the oldest denial of the rule that has the most. It says where, and the caller writes the body.
func (s *shard) place(h head) int {
	i := len(s.heads)
	if i < shardSize {
		s.heads, s.bodies = append(s.heads, head{}), append(s.bodies, body{})
	} else if i = s.victim(h.at); s.heads[i].kept == whole && !s.heads[i].over(h.at) {
		s.overwritten++
	}
	if gone := &s.heads[i]; gone.kept != nothing && gone.rule == h.rule {
		h.same = gone.same
	} else {
		h.same = s.count(i, h.rule)
	}
	s.heads[i] = h
	return i
}

// count keeps the counts right when the i-th place goes to rule, and gives those
// of rule. Each head knows how many of the shard have its rule, so that victim finds the largest
// group in one pass.
func (s *shard) count(i int, rule uint32) uint8 {
	gone, same := s.heads[i], uint8(1)
	for j := range s.heads {
		switch o := &s.heads[j]; {
		case j == i:
		case o.rule == rule:
			o.same++
			same = o.same
		case gone.kept != nothing && o.rule == gone.rule:
			o.same--
		}
	}
	return same
}

// victim is the denial that is overwritten in a full shard: one whose time is over, else the
// oldest of the rule that has the most. If one rule denies a million keys a second, it soon has
// most places of each shard, and from then on overwrites its own.
func (s *shard) victim(now weir.Instant) int {
	best, b := 0, &s.heads[0]
	for i := range s.heads {
		h := &s.heads[i]
		if h.over(now) {
			return i
		}
		if h.same > b.same || h.same == b.same && h.at < b.at {
			best, b = i, h
		}
	}
	return best
}

// find copies what is kept by an id. The body is used again by later denials, so the caller gets
// memory of its own.
func (s *shard) find(id uint64) (head, body, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.heads {
		if s.heads[i].id == id {
			return s.heads[i], s.bodies[i].clone(), true
		}
	}
	return head{}, body{}, false
}

// sweep erases what is kept of the denials whose time is over, but their ids: so Recall can still
// say that one is too old, and not that it never was.
func (s *shard) sweep(now weir.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.heads {
		if s.heads[i].over(now) {
			s.heads[i].kept = expired
			s.bodies[i].erase()
		}
	}
}

// need marks the versions by which denials that are kept are explained. A number may
// stand for an older one, too, whose place it has.
func (s *shard) need(versions *[MaxVersions]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.heads {
		if s.heads[i].kept == whole {
			versions[s.heads[i].version%MaxVersions] = true
		}
	}
}

// stats adds the counts of the shard to all.
func (s *shard) stats(all *DenialStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.heads {
		if s.heads[i].kept == whole {
			all.Kept++
		}
	}
	all.Overwritten += s.overwritten
	all.Large += s.large
	all.NoEvidence += s.noEvidence
}
