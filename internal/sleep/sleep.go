// Package sleep waits for times, until a context ends.
package sleep

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends: then it fails with the cause. When d is not
// positive, it returns nil at once, whatever ctx is.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Every calls f with the time at each tick, until ctx ends. A tick that comes while f runs is left
// out.
func Every(ctx context.Context, step time.Duration, f func(now time.Time)) {
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			f(now)
		}
	}
}
