package memstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
)

// TestClock: the clock is the wall clock, and follows one that was set within
// relook.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		for range 100 {
			time.Sleep(137*time.Millisecond + 311*time.Nanosecond)
			if got, want := c.now(), weir.InstantOf(time.Now()); got < want-1 || got > want {
				t.Fatalf("%d, the wall clock is at %d", got, want)
			}
		}
		c.offset.Add(-3_600_000_000) // as if somebody had set the wall clock an hour on
		time.Sleep(relook + time.Microsecond)
		if got, want := c.now(), weir.InstantOf(time.Now()); got < want-1 || got > want {
			t.Errorf("%d after the wall clock was set to %d", got, want)
		}
	})
}
