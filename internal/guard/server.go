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
type server struct {
	name    string // empty where the store is one
	changed func(server string, away error)
	probe   func(ctx context.Context, k weir.StateKey) error // whether it writes, where k is
	back    func()                                           // it was found
	seekers *seekers
	breaker breaker
	pace    pace
	missed  atomic.Int64 // calls that paid for the whole deadline
}

// errSilent is why a server is away that stands still.
var errSilent = errors.New("it has not answered for too long")

// enter lets a call pass that wants k, or gives no ticket.
func (s *server) enter(k weir.StateKey) *ticket {
	t, what := s.breaker.enter(time.Now(), k, s.pace.deadline())
	s.tell(what, nil, k)
	return t
}

// tell tells of a change, and looks for a server that has fallen silent.
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

// seekers are the goroutines that look for servers, until the guard is closed.
type seekers struct {
	ctx     context.Context
	cancel  context.CancelFunc
	mu      sync.Mutex // no seeker starts when ctx has ended
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

// end ends them, and waits for them.
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

// ask is for what has no fallback: it fails with weir.ErrAway.
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
