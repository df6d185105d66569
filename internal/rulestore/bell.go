package rulestore

import (
	"context"
	"sync"
	"time"
)

// pollEvery is how often a store is asked for its revision by those who wait for
// a change that nobody of this process made.
const pollEvery = time.Second

// bell wakes those who wait for a change.
type bell struct {
	mu   sync.Mutex
	next chan struct{} // closed by the next ring
}

func newBell() *bell { return &bell{next: make(chan struct{})} }

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.next)
	b.next = make(chan struct{})
}

// rung is closed when it rings next.
func (b *bell) rung() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

// Revision is the revision of the last change; 0 before the first.
func (s *Store) Revision(ctx context.Context) (revision int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT revision FROM counters`).Scan(&revision)
	return revision, s.failed(err)
}

// Wait waits for a change behind a revision, and gives the newest: at once when
// this process made it, else within a second. It ends with ctx.
func (s *Store) Wait(ctx context.Context, behind int64) (int64, error) {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		rung := s.told.rung() // before the look, so that no change falls between
		now, err := s.Revision(ctx)
		if err != nil || now > behind {
			return now, err
		}
		select {
		case <-ctx.Done():
			return now, unavailable(ctx.Err(), "waiting for a change ended")
		case <-rung:
		case <-poll.C:
		}
	}
}
