package xds

import (
	"sync"
	"time"
)

// Status is how it stands with a control plane.
type Status struct {
	// Connected is whether there is a stream, and Since when it was opened, or when the last one ended. Since is zero before the first.
	Connected bool
	Since     time.Time
	// Version is that of the last answer that was taken, as the control plane calls it; empty: there is none yet.
	Version string
	// Answered is when it was taken, and Changed when rules last changed by one; zero: never yet.
	Answered, Changed time.Time
	// Held is how many domains stay for a while though the control plane does not name them any more.
	Held int
	// Accepted and Refused are how many answers were taken and refused, Superseded how many came so soon behind each other that only
	// the last was read. Streams is how many were opened, Failed how many could not be. Bytes is the size of all answers.
	Accepted, Refused, Superseded, Streams, Failed, Bytes uint64
}

// tally keeps a Status.
type tally struct {
	mu  sync.Mutex
	now Status
}

// Status is how it stands now.
func (s *Source) Status() Status {
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	return s.status.now
}

func (t *tally) change(f func(*Status)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.now)
}
