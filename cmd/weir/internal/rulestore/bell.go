package rulestore

import (
	"context"
	"database/sql"
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
func (s *Store) Revision(ctx context.Context) (int64, error) {
	revision, err := revisionOf(ctx, s.read)
	return revision, s.failed(err)
}

func revisionOf(ctx context.Context, q queryer) (revision int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT revision FROM counters`).Scan(&revision)
	return revision, err
}

// Wait waits until the revision is another than the one that was seen, and gives
// it: at once when this process made a change or PostgreSQL tells, else within a
// second. A lower one is of a backup that was restored. It ends with ctx.
func (s *Store) Wait(ctx context.Context, seen int64) (now int64, err error) {
	if s.listen == nil {
		now, err = s.await(ctx, seen)
	} else {
		err = s.listen(ctx, s.read, s.told.ring, func(ctx context.Context, c *sql.Conn) (done bool, err error) {
			now, err = revisionOf(ctx, c)
			return now != seen, err
		})
	}
	return now, s.failed(err)
}

func (s *Store) await(ctx context.Context, seen int64) (int64, error) {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		rung := s.told.rung() // before the look, so that no change falls between
		now, err := revisionOf(ctx, s.read)
		if err != nil || now != seen {
			return now, err
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-rung:
		case <-poll.C:
		}
	}
}
