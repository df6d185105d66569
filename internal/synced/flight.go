package synced

import (
	"context"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/unreported"
)

const (
	// maxFlights is how many reports are under way at a time; what is due waits. To a store that
	// is not atomic, which hears of each key by itself, go maxSingle.
	maxFlights = 4
	maxSingle  = 64
	// retryAfter is when a key is reported again at the earliest of which the store has
	// not heard. Takes of the key go to the guard meanwhile, so the wait costs no caller anything.
	retryAfter = 500 * time.Millisecond
)

// initTable has the table report through the guard, which gives each call its time. It takes Try, which
// has no fallback: a fallback would charge the events here once more, though they have passed already.
func (s *Store) initTable() {
	s.table.New = func() *entry { return &entry{index: -1} }
	s.table.Take = func(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
		s.counts.calls.Add(1)
		return s.guard.Try(ctx, asks, out)
	}
	s.table.Traits, s.table.Begin, s.table.End = s.guard.Traits, s.begin, s.end
	s.table.Init()
}

// run brings what is due on its way, until the store is closed. It takes entries out of the queue
// only when there is room for one more report: so under load more keys become due meanwhile, and
// travel together, and the store gets fewer and larger calls.
//
// It has no deadline of its own for a report: the guard ends each call in time. So the wait for room ends,
// and so does Close, which waits for the reports under way. A wake that comes while run is busy stays in
// the channel, so run never sleeps longer than until the first entry is due.
func (s *Store) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case s.flying <- struct{}{}:
		case <-s.done:
			return
		}
		due, next := s.queue.take(time.Now(), s.table.Batch())
		if len(due) > 0 {
			s.running.Go(func() {
				_ = s.table.Report(context.Background(), due) // each entry has taken note of it
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

// hurry makes e, which is locked, due. If its report is under way, it is due again as soon as that
// ends, for the events of this moment are not in it. It does so once for each report, however many
// takes of a hot key come before that begins.
func (s *Store) hurry(e *entry) {
	if !e.hurried {
		e.hurried, e.again = true, !s.queue.hasten(e)
	}
}

// begin is what the store is told of e, or asked where there is nothing to tell, so that the node
// hears how the count stands there. Not of an entry that no caller has asked for since the last
// report, or one caller where its place is wanted.
//
// The ask is in shadow, so that the keys of a batch don't decide about each other, and it is charged
// only when the store has room for all of it. A look is a peek: the node wants its evidence alone.
func (s *Store) begin(e *entry, now time.Time) (weir.Ask, bool) {
	if (e.asked == 0 || e.room && e.asked == 1) && !e.Awaited() && e.ledger.idle() {
		return weir.Ask{}, false
	}
	a := weir.Ask{
		State: e.Key, Limit: e.ledger.limit, Shadow: true, Policy: weir.Policy{Sync: e.ledger.every},
		Cost: e.ledger.report(e.now(now)), Evidence: &weir.Evidence{Always: true},
	}
	if a.Cost == 0 {
		a.Cost, a.Peek = 1, true
	}
	e.asked, e.hurried = 0, false
	return a, true
}

// end takes note of the store's answer about e, and puts e back into the queue: for the time of
// sync, or longer after a failure, so that a store that comes back is not met by all keys at once. An
// entry that has to go again at once does not do so after a failure: again is forgotten then.
func (s *Store) end(e *entry, a unreported.Answer) {
	if e.failed = a.Err != nil; e.failed {
		e.ledger.unanswered()
	} else {
		s.hear(e, &a)
	}
	due := a.Heard.Add(e.ledger.every)
	switch {
	case e.failed:
		due = a.Heard.Add(max(e.ledger.every, retryAfter))
	case e.again:
		due = a.Heard
	}
	e.again = false
	s.queue.again(e, due)
}

// hear takes note of the store's answer. An answer that was decided by another limit, for the rule has
// changed meanwhile, still ends the report: the events are charged or not. But its state is none of the
// ledger's limit, so the next take goes to the store and learns anew.
func (s *Store) hear(e *entry, a *unreported.Answer) {
	charged := int64(0)
	if a.Decision.Charged {
		charged = a.Ask.Cost
		s.counts.events.Add(charged)
	}
	e.ledger.answered(a.Decision.Charged)
	if !a.Ask.Evidence.Told || !e.ledger.fits(&a.Ask) {
		e.ledger.known = false
		return
	}
	e.learn(a.Ask.Evidence, a.Began, a.Heard, charged)
	// Other nodes were faster, and have left some room: tell what fits, but only once, for they may
	// be faster again.
	e.second = !e.second && !a.Ask.Peek && !a.Decision.Charged && e.ledger.room(e.now(a.Heard)) > 0
	e.again = e.again || e.second
}

// reportLast reports what the store has room for, after the last take. The rest can't be charged: the
// limit is used up. It is not among the keys that count as lost, for the store denies without it as well.
//
// Room is that of the moment when the node closes. A limit recovers while the reports are under way, so
// by a later time a key that was used up would always have a little room again, and count as lost.
func (s *Store) reportLast(ctx context.Context) error {
	closed := time.Now()
	left := func() []*entry { return s.left(closed) }
	if len(left()) == 0 {
		return nil
	}
	return s.guard.ReportLast(ctx, func() error { return s.table.ReportAll(ctx, left) })
}

// left is the entries with usage that the store has room for at now, as far as is known. An event whose
// report got no answer is told again here without a look, and may then count twice.
func (s *Store) left(now time.Time) []*entry {
	return s.table.All(func(e *entry) bool {
		e.Lock()
		defer e.Unlock()
		e.ledger.unsure = false // there is no time to look first
		return e.ledger.room(e.now(now)) > 0
	})
}
