package sleep

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := For(t.Context(), time.Minute); err != nil || time.Since(start) != time.Minute {
			t.Error("the whole time:", err, time.Since(start))
		}
		left := errors.New("the client has left")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, left)
		defer cancel()
		start = time.Now()
		if err := For(ctx, time.Minute); !errors.Is(err, left) || time.Since(start) != time.Second {
			t.Error("cut short:", err, time.Since(start))
		}
		if err := For(ctx, 0); err != nil {
			t.Error("no time, after the end:", err)
		}
	})
}

// TestEvery: f is called at each tick, and no more once the context ends.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start, calls := time.Now(), 0
		Every(ctx, time.Second, func(now time.Time) {
			if calls++; now.Sub(start) != time.Duration(calls)*time.Second {
				t.Errorf("call %d after %v", calls, now.Sub(start))
			}
			if calls == 3 {
				cancel()
			}
		})
		if calls != 3 {
			t.Errorf("%d calls, want 3", calls)
		}
	})
}
