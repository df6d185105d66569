package leased_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/leased"
	"github.com/weir-limit/weir/memstore"
)

// resetting is a store of which a reset takes a while, before it happens and after.
type resetting struct {
	*memstore.Store

	way    time.Duration // there, and back
	failed error         // what it answers in place of a reset
}

func (s *resetting) Reset(ctx context.Context, keys []weir.StateKey) error {
	time.Sleep(s.way)
	if s.failed != nil {
		return s.failed
	}
	err := s.Store.Reset(ctx, keys)
	time.Sleep(s.way)
	return err
}

// TestResetUnderWay: while a reset is under way, nothing passes of a portion that was charged before it.
func TestResetUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &resetting{Store: memstore.New(memstore.Options{}), way: 20 * time.Millisecond}
		s := leased.New(m, m.Take)
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		a := ask("1000/h fixed-window", "k")
		warm(t, s, a)
		over := make(chan struct{})
		go func() {
			defer close(over)
			if err := s.Reset(t.Context(), []weir.StateKey{a.State}); err != nil {
				t.Error(err)
			}
		}()
		for range 10 { // the store has not reset yet
			take(t, s, a)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(m.way - 10*time.Millisecond)
		synctest.Wait()
		passed := 0
		for i := range 3000 {
			if take(t, s, a)[0].Outcome == weir.Allowed {
				passed++
			}
			if i > 60 {
				time.Sleep(time.Millisecond)
			}
		}
		<-over
		if passed != 1000 || s.Stats().Portions < 10 {
			t.Errorf("%d passed after the store was reset: %+v", passed, s.Stats())
		}
		end(t, []*leased.Store{s})
	})
}

// TestResetFails: where the store could not be asked for a reset, it has back what the node held.
func TestResetFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &resetting{Store: memstore.New(memstore.Options{}), failed: errLost}
		s := leased.New(m, m.Take)
		a := ask("1000/h fixed-window", "k")
		passed := warm(t, s, a)
		if err := s.Reset(t.Context(), []weir.StateKey{a.State, {Rule: "other"}}); err == nil {
			t.Error("it did not fail")
		}
		synctest.Wait()
		if u := used(t, m.Store, a); u != passed {
			t.Errorf("%d are in use, and %d have passed: %+v", u, passed, s.Stats())
		}
		end(t, []*leased.Store{s})
	})
}
