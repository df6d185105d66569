package guard

import (
	"context"
	"errors"
	"fmt"
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
	breaker breaker
	pace    pace
	missed  atomic.Int64 // calls that paid for the whole deadline
}

// errOwes is why a server is away that stands still.
var errOwes = errors.New("it has owed an answer for too long")

// enter lets a call pass, or gives no ticket.
func (s *server) enter() *ticket {
	t, what := s.breaker.enter(time.Now(), s.pace.stall())
	if what == opened {
		s.changed(s.name, errOwes)
	}
	return t
}

// wait asks the server within the time that there is.
func (s *server) wait(ctx context.Context, t *ticket, do func(context.Context) error) error {
	limit, cut := s.pace.deadline(), false
	if t.probe {
		limit = maxDeadline // a store that comes back has to be connected to first
	}
	if end, ok := ctx.Deadline(); ok {
		if left := time.Until(end) * 3 / 4; left < limit {
			limit, cut = left, true
		}
	}
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.breaker.waits(t, cancel)
	err := do(within)
	took := time.Since(t.began)
	end := endOf(ctx, err)
	if end == failed && cut && took < s.pace.stall() && errors.Is(within.Err(), context.DeadlineExceeded) {
		end = unknown // no store answers in no time
	}
	switch {
	case end == answered:
		s.pace.note(took)
	case end == failed && took >= limit && !t.probe:
		s.missed.Add(1)
	}
	switch s.breaker.leave(t, time.Now(), end) {
	case opened:
		s.changed(s.name, err)
	case closed:
		s.changed(s.name, nil)
	case same:
	}
	return err
}

// ask is for what has no fallback: it fails with weir.ErrAway.
func (s *server) ask(ctx context.Context, do func(context.Context) error) error {
	t := s.enter()
	if t == nil {
		return weir.ErrAway
	}
	err := s.wait(ctx, t, do)
	if endOf(ctx, err) == failed && !errors.Is(err, weir.ErrAway) {
		return fmt.Errorf("%w: %w", weir.ErrAway, err)
	}
	return err
}

// endOf is how a call has ended. That many want one key, that it can't be counted,
// or that a receipt was used before, is an answer; that the caller left, or asked
// what no store decides, says nothing of the store.
func endOf(ctx context.Context, err error) ending {
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
	return failed
}
