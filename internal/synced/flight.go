package synced

import (
	"context"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
)

const (
	// maxFlights is how many calls are on their way at a time, maxBatch how many
	// keys one tells of; what is due waits. To a store that is not atomic go as many
	// calls as one batch has keys, for each key by itself.
	maxFlights = 4
	maxBatch   = 64
	// retryAfter is when a key is told again at the earliest of which the store has
	// not heard.
	retryAfter = 500 * time.Millisecond
)

// run brings what is due on its way, until the store is closed.
func (s *Store) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case s.flying <- struct{}{}:
		case <-s.done:
			return
		}
		due, room, next := s.queue.take(time.Now(), s.batch)
		if len(due) > 0 {
			s.running.Go(func() {
				s.fly(due, room)
				<-s.flying
			})
			continue
		}
		<-s.flying
		if next.IsZero() {
			next = time.Now().Add(time.Hour)
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-s.queue.wake:
		case <-s.done:
			return
		}
	}
}

// hasten has the store told of e, which is locked, as soon as can be, and returns
// what is closed then.
func (s *Store) hasten(e *entry) <-chan struct{} {
	if e.told == nil {
		e.told = make(chan struct{})
	}
	s.hurry(e)
	return e.told
}

// hurry makes e, which is locked, due. If it is on its way, landed sees to it.
func (s *Store) hurry(e *entry) {
	if !e.hurried {
		e.hurried, e.again = true, !s.queue.hasten(e)
	}
}

// fly tells the store of entries, or drops those that nobody asks for; room drops
// those that were asked for once, too.
func (s *Store) fly(due []*entry, room bool) {
	asks, of := make([]weir.Ask, 0, len(due)), due[:0:0]
	began := time.Now()
	for _, e := range due {
		if a, ok := s.report(e, began, room); ok {
			asks, of = append(asks, a), append(of, e)
		}
	}
	if len(asks) == 0 {
		return
	}
	s.counts.calls.Add(1)
	asks, out := witnessed(asks), make([]weir.Decision, len(asks))
	err := s.guard.Try(context.Background(), asks, out)
	heard := time.Now()
	for i, e := range of {
		e.mu.Lock()
		if err != nil {
			e.ledger.unanswered()
		} else {
			s.hear(e, &asks[i], &out[i], began, heard)
		}
		s.landed(e, heard, err != nil)
		e.mu.Unlock()
	}
}

// report is what the store is told of e. Not when e was dropped instead.
func (s *Store) report(e *entry, now time.Time, room bool) (weir.Ask, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if (e.asked == 0 || room && e.asked == 1) && e.told == nil && e.ledger.idle() {
		s.table.drop(e)
		return weir.Ask{}, false
	}
	a := weir.Ask{
		State: e.key, Limit: e.ledger.limit, Shadow: true, Policy: weir.Policy{Sync: e.ledger.every},
		Cost: e.ledger.report(e.now(now)),
	}
	if a.Cost == 0 {
		a.Cost, a.Peek = 1, true
	}
	e.asked, e.hurried = 0, false
	return a, true
}

// hear takes note of the store's answer.
func (s *Store) hear(e *entry, a *weir.Ask, d *weir.Decision, began, heard time.Time) {
	charged := int64(0)
	if d.Charged {
		charged = a.Cost
		s.counts.events.Add(charged)
	}
	e.ledger.answered(d.Charged)
	if !a.Evidence.Told || !e.ledger.fits(a) {
		e.ledger.known = false
		return
	}
	e.learn(a.Evidence, began, heard, charged)
	// Other nodes were faster, and have left some room: tell what fits, but only once, for they may
	// be faster again.
	e.second = !e.second && !a.Peek && !d.Charged && e.ledger.room(e.now(heard)) > 0
	e.again = e.again || e.second
}

// landed puts e back into the queue.
func (s *Store) landed(e *entry, now time.Time, failed bool) {
	e.failed = failed
	waited := e.told
	e.told = nil
	if waited != nil {
		close(waited)
	}
	due := now.Add(e.ledger.every)
	switch {
	case failed:
		due = now.Add(max(e.ledger.every, retryAfter))
	case e.again:
		due = now
	}
	e.again = false
	s.queue.again(e, due)
}

// settleAll tells the store what is untold, after the last take. It looks for servers that are
// away first, and goes on after one that did not hear, for others may.
func (s *Store) settleAll(ctx context.Context) error {
	var due []*entry
	for _, e := range s.table.all() {
		e.mu.Lock()
		if !e.ledger.idle() {
			e.ledger.unsure = false // there is no time to look first
			due = append(due, e)
		}
		e.mu.Unlock()
	}
	if len(due) > 0 {
		s.guard.Seek(ctx)
	}
	lost, why := 0, error(nil)
	for len(due) > 0 {
		n := min(s.batch, len(due))
		asks, now := make([]weir.Ask, 0, n), time.Now()
		for _, e := range due[:n] {
			if a, ok := s.report(e, now, false); ok && !a.Peek {
				asks = append(asks, a)
			}
		}
		due = due[n:]
		if len(asks) == 0 {
			continue
		}
		if err := s.guard.Try(ctx, asks, make([]weir.Decision, len(asks))); err != nil {
			lost, why = lost+len(asks), err
		}
	}
	if lost > 0 {
		return guard.Lost(lost, why)
	}
	return nil
}
