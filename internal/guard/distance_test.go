package guard_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
)

// unchanging fails a test whose store is thought to be away.
func unchanging(t *testing.T) guard.Options {
	return guard.Options{Changed: func(_ string, away error) { t.Errorf("the store is away: %v", away) }}
}

// fallbacks is how many of some takes, one each 20 ms, the fallback decides.
func fallbacks(t *testing.T, g *guard.Guard, takes int) (n int) {
	t.Helper()
	for range takes {
		if take(t, g, ask("1000000/s", weir.FallbackOpen)).Degraded != "" {
			n++
		}
		time.Sleep(20 * time.Millisecond)
	}
	return n
}

var distances = []time.Duration{
	100 * time.Microsecond, 4 * time.Millisecond, 8 * time.Millisecond, 12 * time.Millisecond,
	15 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
}

// TestDistance: a store up to 100 ms away decides, from the first call on, and the
// guard says how far it is.
func TestDistance(t *testing.T) {
	for _, far := range distances {
		t.Run(fmt.Sprint(far), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				store.delay.Store(int64(far))
				g := guard.New(store, unchanging(t))
				if n := fallbacks(t, g, 100); n > 0 {
					t.Errorf("%d of 100 takes were decided by the fallback", n)
				}
				if s := g.Stats(); s.Deadline <= far || s.Distance != far {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestDistanceChanges: a store that moves is found again, whichever way it moves, within
// a third of a second.
func TestDistanceChanges(t *testing.T) {
	for _, from := range distances {
		for _, to := range distances {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				store.delay.Store(int64(from))
				g := guard.New(store, unchanging(t))
				fallbacks(t, g, 100)
				store.delay.Store(int64(to))
				if n := fallbacks(t, g, 100); n > 16 {
					t.Errorf("from %v to %v: %d of 100 takes were decided by the fallback", from, to, n)
				}
				if s := g.Stats(); s.Distance != to {
					t.Errorf("from %v to %v: %+v", from, to, s)
				}
			})
		}
	}
}

// TestLateAnswer: an answer that comes late costs who waits for it, and nobody else.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.delay.Store(int64(300 * time.Microsecond))
		g := guard.New(store, unchanging(t))
		fallbacks(t, g, 100)
		store.delay.Store(int64(21 * time.Millisecond)) // of the call that comes next
		began := time.Now()
		time.AfterFunc(time.Microsecond, func() { store.delay.Store(int64(300 * time.Microsecond)) })
		if take(t, g, ask("1000000/s", weir.FallbackOpen)).Degraded == "" || time.Since(began) > 12*time.Millisecond {
			t.Errorf("it was waited for %v", time.Since(began))
		}
		time.Sleep(time.Millisecond)
		if n := fallbacks(t, g, 100); n > 0 {
			t.Errorf("%d of the next 100 takes were decided by the fallback", n)
		}
	})
}

// TestHurried: callers who have less time than the store is away get the fallback's
// answer, and make nobody think that it is not there.
func TestHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.delay.Store(int64(20 * time.Millisecond))
		g := guard.New(store, unchanging(t))
		fallbacks(t, g, 20)
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			out := make([]weir.Decision, 1)
			if err := g.Take(ctx, ask("9/h", weir.FallbackOpen), out); err != nil || out[0].Degraded == "" {
				t.Errorf("%+v, %v", out[0], err)
			}
			cancel()
		}
		time.Sleep(100 * time.Millisecond)
		if n := fallbacks(t, g, 20); n > 0 {
			t.Errorf("%d takes of callers with time were decided by the fallback", n)
		}
	})
}

// hasty is a remote store that looks at its callers' time a little before it is over.
type hasty struct{ *remote }

func (h hasty) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	end, ok := ctx.Deadline()
	if h.delay.Load() < 0 && ok {
		time.Sleep(time.Until(end) - 100*time.Microsecond)
		return fmt.Errorf("no answer: %w", context.DeadlineExceeded)
	}
	return h.remote.Take(ctx, asks, out)
}

// TestStandstill: a store that stands still for 100 ms is not away.
func TestStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hasty{newRemote()}
		g := guard.New(store, unchanging(t))
		fallbacks(t, g, 20)
		store.delay.Store(-1)
		for range 100 {
			take(t, g, ask("1000000/s", weir.FallbackOpen))
			time.Sleep(time.Millisecond)
		}
		store.delay.Store(0)
		time.Sleep(time.Second)
		if n := fallbacks(t, g, 20); n > 1 {
			t.Errorf("%d of 20 takes were decided by the fallback", n)
		}
	})
}
