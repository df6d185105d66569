package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// server is one of a store that may be away by itself: whether it is worth asking,
// and for how long.
//
// A call takes three steps. enter asks the breaker for a ticket. wait gives the call the time of the
// pace, and has the pace note how long it took. breaker.leave takes the ticket back, and notes how the
// call ended. Takes, reports, settlements, looks and the pings of Contact go this way, so what one of
// them finds out serves all. Probes go around the breaker: they ask a server that callers may not ask.
type server struct {
	name string // empty where the store is one
	// changed is called without a lock, by the goroutine that noticed. Two goroutines that notice
	// one change each, in quick succession, may call it in either order.
	changed func(server string, away error)
	probe   func(ctx context.Context, k weir.StateKey) error // whether it writes, where k is
	// back is called each time that a probe was answered, also when the server was silent for a
	// moment only: fallbacks may have decided meanwhile. It reports what they let pass. If it
	// fails, the usage stays pending, and each key is reported before its next take.
	back    func()
	seekers *seekers
	breaker breaker
	pace    pace
	missed  atomic.Int64 // calls that paid for the whole deadline
}

// errSilent is why a server is away that stands still.
var errSilent = errors.New("it has not answered for too long")

// enter lets a call pass that wants k, or gives no ticket. With a ticket the caller must call wait,
// which returns it; a ticket that stays out would look like a call without an answer.
func (s *server) enter(k weir.StateKey) *ticket {
	t, what := s.breaker.enter(time.Now(), k, s.pace.deadline())
	s.tell(what, nil, k)
	return t
}

// tell tells of a change, and looks for a server that has fallen silent. A caller that gets hushed
// from the breaker has to bring it here: the breaker already says that somebody looks, and asks
// nobody else to.
func (s *server) tell(what change, err error, k weir.StateKey) {
	switch what {
	case opened:
		s.changed(s.name, err)
	case closed:
		s.changed(s.name, nil)
	case hushed:
		if !s.seekers.run(func() { s.seek(k) }) {
			s.breaker.found(time.Now(), false, true) // the guard is closed
		}
	case same:
	}
}

// seek asks a server that has fallen silent again and again, each time for twice as
// long, until it answers or has been silent for as long as any call may take. It asks a server that
// is unavailable already only once. No caller waits for it.
//
// A server that has moved farther away, by a failover to another site, answers late at first. The
// doubling finds it, and the pace learns the new distance on the way, so that calls have enough time
// when they pass again. When the server is found, the store is told what fallbacks let pass
// (back).
//
// The first probe gets twice the deadline, none more than maxDeadline, and none begins when
// maxDeadline has gone by. So a search takes at most twice maxDeadline. A probe that fails sooner ends
// it at once: that server is not slow. A server that is known to be unavailable, or that never
// answered, gets one probe of firstDeadline, which is long enough to connect.
//
// A probe that came late is noted as a call that took all its time. So after an outage in which the
// server was silent, calls may get up to maxDeadline, until all but one of the last 16 were quick.
func (s *server) seek(k weir.StateKey) {
	began, limit := time.Now(), min(2*s.pace.deadline(), maxDeadline)
	if s.breaker.isOpen() || s.pace.distance() == 0 {
		limit = firstDeadline // it has to be connected to first
	}
	for {
		asked := time.Now()
		within, cancel := context.WithTimeout(s.seekers.ctx, limit)
		err := s.probe(within, k)
		cancel()
		now := time.Now()
		end := endOf(context.Background(), within, err)
		if end == answered || end == late {
			s.pace.note(asked, now)
		}
		over := end == failed || s.seekers.ctx.Err() != nil || limit >= maxDeadline || now.Sub(began) >= maxDeadline
		if end == late {
			err = errSilent
		}
		if what := s.breaker.found(now, end == answered, over); s.seekers.ctx.Err() == nil {
			s.tell(what, err, k)
		}
		if end == answered {
			s.back()
		}
		if end == answered || over {
			return
		}
		limit = min(2*limit, maxDeadline)
	}
}

// seekers are the goroutines that look for servers, until the guard is closed. There is at most one
// for each server (breaker.seeker). No take waits for them, so they have a context of their own,
// which only end cancels.
type seekers struct {
	ctx    context.Context
	cancel context.CancelFunc
	// mu makes "ctx has not ended, so start one" one step. Else a goroutine could start while end
	// already waits for the others, and outlive the guard.
	mu      sync.Mutex
	running sync.WaitGroup
}

func (s *seekers) begin() { s.ctx, s.cancel = context.WithCancel(context.Background()) }

// run starts a goroutine. Not when the guard is closed.
func (s *seekers) run(seek func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.running.Go(seek)
	return true
}

// end ends them, and waits for them. Their probes are cancelled. A server that was silent then counts
// as unavailable, but nobody is told: that is no finding.
func (s *seekers) end() {
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.running.Wait()
}

// sought waits until no goroutine looks for the server any more, or ctx ends.
func (s *server) sought(ctx context.Context) {
	if over := s.breaker.seeking(); over != nil {
		select {
		case <-over:
		case <-ctx.Done():
		}
	}
}

// wait asks the server within the time that there is: the deadline, or three quarters of its
// caller's time if that is less. The rest is for the fallback and the way back to the caller. A caller
// that gives less than a call takes says nothing of the server when its time is over.
//
// A failed call is not noted by the pace: a connection that is refused in a millisecond would make
// the server look near. Nor is a call that was cancelled, by its caller or by the breaker.
func (s *server) wait(ctx context.Context, t *ticket, do func(context.Context) error) error {
	deadline := s.pace.deadline()
	limit := deadline
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)*3/4)
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.breaker.waits(t, cancel)
	err := do(within)
	now := time.Now()
	end := endOf(ctx, within, err)
	if end == late && limit < deadline {
		end = unknown // no store answers in no time
	}
	switch end {
	case late:
		s.missed.Add(1)
		fallthrough
	case answered:
		s.pace.note(t.began, now)
	case failed, unknown:
	}
	s.tell(s.breaker.leave(t, now, end, deadline), err, t.key)
	return err
}

// ask is for what has no fallback: it fails with weir.ErrAway. Errors that are answers, such as
// weir.ErrSettled, and a caller's own cancellation keep their text and kind.
func (s *server) ask(ctx context.Context, k weir.StateKey, do func(context.Context) error) error {
	t := s.enter(k)
	if t == nil {
		return weir.ErrAway
	}
	err := s.wait(ctx, t, do)
	if end := endOf(ctx, ctx, err); (end == failed || end == late) && !errors.Is(err, weir.ErrAway) {
		return fmt.Errorf("%w: %w", weir.ErrAway, err)
	}
	return err
}

// endOf is how a call of ctx has ended that had the time of within. That many want one
// key, that it can't be counted, or that a receipt was used before, is an answer; that
// the caller left, or asked what no store decides, says nothing of the store.
//
// A call is late when its own time ran out, and failed when the store gave up sooner: the breaker
// measures the one as silence, and counts the other. A store that watches the same deadline may
// return a moment before the timer here fires. Its error of a deadline is late, too, when less than
// confirm was left.
func endOf(ctx, within context.Context, err error) ending {
	for _, fine := range []error{nil, weir.ErrBusy, weir.ErrSettled, weir.ErrExpired, weir.ErrNoPermit, weir.ErrFull} {
		if errors.Is(err, fine) {
			return answered
		}
	}
	if _, ok := errors.AsType[*record.CountError](err); ok {
		return answered
	}
	if _, ok := errors.AsType[*record.AskError](err); ok || errors.Is(context.Cause(ctx), context.Canceled) {
		return unknown
	}
	until, timed := within.Deadline()
	switch {
	case errors.Is(within.Err(), context.Canceled):
		return unknown // it was let go
	case within.Err() != nil, timed && errors.Is(err, context.DeadlineExceeded) && time.Until(until) < confirm:
		return late // a store may look at the clock a little before we do
	}
	return failed
}
