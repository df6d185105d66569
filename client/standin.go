package client

import (
	"context"
	"errors"

	"github.com/weir-limit/weir"
)

// takeOverAfter is how many calls in a row a daemon may leave without an answer until
// another of the same store is asked. It is below guard.Enough, so that the store
// does not count as away before another has been tried.
const takeOverAfter = 2

// chosen is the daemon to ask of those that share a store: the first that is not
// away. When all are, it is the first. Then its failures reach the edge, whose breaker finds the store
// away, and fallbacks decide. A daemon that is back is asked again as soon as it is before the others.
func (s *daemons) chosen() *daemon {
	for _, d := range s.order {
		if !d.away.Load() {
			return d
		}
	}
	return s.order[0]
}

// away is how many of those that share a store are away.
func (s *daemons) away() (n int) {
	for _, d := range s.order {
		if d.away.Load() {
			n++
		}
	}
	return n
}

// heard takes note of how a call to a daemon has ended, where other daemons can take its place: one
// that can't be reached, or whose store can't, is away at once. A late answer may be a pause, so it takes
// takeOverAfter of them in a row. Any answer ends both, also one that refuses what was asked: the daemon is
// there.
//
// The call that failed is not sent to another daemon, for it may have been a charge. The next call is.
func (s *daemons) heard(d *daemon, err error) error {
	switch {
	case !s.shared || errors.Is(err, context.Canceled): // the caller has left
	case errors.Is(err, context.DeadlineExceeded):
		if d.late.Add(1) >= takeOverAfter {
			s.mark(d, err)
		}
	case errors.Is(err, weir.ErrAway):
		s.mark(d, err)
	default:
		d.late.Store(0)
		s.mark(d, nil)
	}
	return err
}

// mark tells when a daemon goes away (err is why), or is back. When many calls fail at once, one tells:
// the one that swaps away. The plain read before it spares all others the write.
func (s *daemons) mark(d *daemon, err error) {
	if d.away.Load() != (err != nil) && d.away.CompareAndSwap(err == nil, err != nil) {
		s.told(d.name, err)
	}
}

// contact asks those that are away, of those that share a store, whether they are
// back, by a charge to a count that is nobody's. To read would not do: a daemon whose
// store is away answers that, too.
//
// It asks one after the other, each for contactTime at most, and only those that are away. No caller waits
// for it. A daemon that needs longer than contactTime to answer stays away until all are, and callers ask it
// because it is the first (chosen).
func (s *daemons) contact(ctx context.Context) {
	probe := []weir.Ask{{State: weir.StateKey{Rule: "probe#probe of weir"}, Limit: weir.MustParseLimit("1000000/s"), Cost: 1}}
	for _, d := range s.order {
		if !d.away.Load() {
			continue
		}
		within, cancel := context.WithTimeout(ctx, contactTime)
		_, err := d.take(within, probe, make([]weir.Decision, 1))
		cancel()
		_ = s.heard(d, err) // it is noted
	}
}
