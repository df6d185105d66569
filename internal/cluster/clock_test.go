package cluster

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
)

// TestClockGoesOnInSleep: what Go's clock has missed is made up for once the wall
// clock has jumped, and a wall clock that was set back changes nothing.
func TestClockGoesOnInSleep(t *testing.T) {
	c := newClock()
	before := c.now()
	if d := (before - weir.InstantOf(time.Now())).Duration(); d < -time.Second || d > time.Second {
		t.Fatalf("it is %v from the wall clock at its start", d)
	}
	const slept = time.Hour
	c.boot -= slept // as if the machine had been on for longer since
	if d := (c.now() - before).Duration(); d > slept/2 {
		t.Fatalf("it was asked without a jump, %v later", d)
	}
	c.looked.Store(-int64(relook))
	c.ahead.Add(-int64(slept)) // the wall clock has jumped by so much since the last look
	if d := (c.now() - before).Duration(); d < slept-time.Millisecond || d > slept+time.Minute {
		t.Errorf("%v have gone by, want an hour", d)
	}
	after := c.now()
	c.looked.Store(-int64(relook))
	c.ahead.Add(int64(24 * time.Hour)) // somebody has set the wall clock back by a day
	if d := (c.now() - after).Duration(); d < 0 || d > time.Minute {
		t.Errorf("the clock went by %v as the wall clock was set", d)
	}
}

func BenchmarkClock(b *testing.B) {
	c := newClock()
	for b.Loop() {
		c.now()
	}
}
