package membership

import (
	"testing"
	"time"
)

// TestFlow: rates are of the time between two looks.
func TestFlow(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	var f *flow
	for _, c := range []struct {
		after           time.Duration
		in, out         uint64
		wantIn, wantOut int64
	}{{0, 100, 10, -1, -1}, {10 * time.Second, 125, 10, 3, 0}, {0, 130, 10, -1, -1}, {500 * time.Millisecond, 180, 11, 100, 2}} {
		at = at.Add(c.after)
		if f = f.next(at, c.in, c.out); f.rateIn != c.wantIn || f.rateOut != c.wantOut {
			t.Errorf("after %v: %d and %d a second, not %d and %d", c.after, f.rateIn, f.rateOut, c.wantIn, c.wantOut)
		}
	}
}
