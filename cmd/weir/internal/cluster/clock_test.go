package cluster

import (
	"fmt"
	"testing"
	"testing/synctest"
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

// TestClocksApart: nodes whose clocks are about an hour apart keep the limit, tell nobody to wait
// for longer than a window lasts, and have each window begin and end by the clock of the
// key's owner, also when that leaves.
func TestClocksApart(t *testing.T) {
	const count, period = 60, time.Minute
	ahead := []time.Duration{0, -time.Hour - 20*time.Second, time.Hour + 40*time.Second}
	for _, ask := range []weir.Ask{
		{Limit: weir.MustParseLimit("60/min fixed-window"), Cost: 1},
		{Limit: weir.MustParseLimit("60/min fixed-window"), Cost: 1, Policy: weir.Policy{Sharing: weir.SharingSticky}},
		{Limit: weir.MustParseLimit("60/min"), Cost: 1},
		{Limit: weir.MustParseLimit("60/min sliding-window 6"), Cost: 1},
	} {
		t.Run(fmt.Sprint(ask.Limit, " ", ask.Policy.Sharing), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, 3, ahead...)
				n.found()
				time.Sleep(time.Second)
				const owner = 2
				ask.State = weir.StateKey{Rule: "api", Key: n.ownedBy(t, owner)}
				nodes, windows, out := n.nodes, map[int64]int{}, make([]weir.Decision, 1)
				began := time.Now()
				for i := 0; time.Since(began) < 5*period; i++ {
					if at := time.Since(began); at >= 2*period && len(nodes) == 3 {
						if err := n.nodes[owner].Leave(t.Context()); err != nil {
							t.Fatal(err)
						}
						nodes = nodes[:2]
						for _, s := range nodes {
							s.View(n.members()[:2])
						}
					}
					if err := nodes[i%2].Take(t.Context(), []weir.Ask{ask}, out); err != nil {
						t.Fatal(err)
					}
					if out[0].Outcome == weir.Allowed {
						windows[time.Now().Add(ahead[owner]).UnixMicro()/period.Microseconds()]++
					}
					if out[0].RetryAfter > period || out[0].ResetAfter > 2*period {
						t.Fatalf("%v: %+v", time.Since(began), out[0])
					}
					time.Sleep(100 * time.Millisecond)
				}
				all, full := 0, 0
				for at, passed := range windows {
					if ask.Limit.Algorithm() == weir.FixedWindow && passed > count {
						t.Errorf("%d passed in the owner's window %d", passed, at)
					}
					if passed >= count*9/10 {
						full++
					}
					all += passed
				}
				if most := ask.Limit.Bound(5*period, 1); int64(all) > most || full < 3 {
					t.Errorf("%d passed, want %d at most; %v", all, most, windows)
				}
			})
		})
	}
}

func BenchmarkClock(b *testing.B) {
	c := newClock()
	for b.Loop() {
		c.now()
	}
}
