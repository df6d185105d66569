package daemon

import (
	"context"
	"time"
)

// sweepEvery is how often denials whose time is over are erased.
const sweepEvery = time.Minute

// forgetDenials erases denials whose time is over, until ctx ends.
func (d *Daemon) forgetDenials(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			d.denials.Sweep(now)
		}
	}
}
