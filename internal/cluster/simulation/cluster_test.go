package simulation

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
)

// asked asks nodes by turns, 5 times the limit's pace for 4 s, and is how many pass.
func asked(t *testing.T, s Settings, fault func(c *Cluster, now weir.Instant)) (passed int64, c *Cluster) {
	t.Helper()
	const start = weir.Instant(1_800_000_000_000_000)
	s.Nodes, s.Keys = 4, 8
	c, err := New(start, s)
	if err != nil {
		t.Fatal(err)
	}
	a := weir.Ask{State: weir.StateKey{Rule: "api", Key: "k"}, Limit: weir.MustParseLimit("1000/s burst 100"), Cost: 1, Policy: weir.Policy{Sharing: s.Sharing}}
	begin := start + 2_000_000
	c.Until(begin)
	fault(c, begin)
	for i := range 20_000 {
		now := begin + weir.Instant(i)*200
		c.Until(now)
		c.Ask(now, i%s.Nodes, &a, func(_ weir.Instant, d weir.Decision) {
			if d.Outcome == weir.Allowed {
				passed++
			}
		})
	}
	return passed, c
}

// TestSharings lets clusters of every kind pass about what one node would, 4,100 events.
// The same seed gives the same.
func TestSharings(t *testing.T) {
	none := func(*Cluster, weir.Instant) {}
	for _, how := range []weir.Sharing{weir.SharingLease, weir.SharingSticky, weir.SharingMesh, weir.SharingGossip, weir.SharingDivided} {
		s := Settings{Seed: 1, Sharing: how, Faults: Faults{Delay: time.Millisecond, Loss: 10, Double: 10, Drift: 100}}
		n, c := asked(t, s, none)
		again, other := asked(t, s, none)
		t.Logf("%s: %d pass, %d messages of %d bytes, %d heartbeats", how, n, c.Messages, c.Bytes, c.Heartbeats)
		if n < 3900 || n > 4600 || n != again || c.Stats != other.Stats {
			t.Errorf("%s: %d pass, then %d; %+v, then %+v", how, n, again, c.Stats, other.Stats)
		}
		if owners := how == weir.SharingLease || how == weir.SharingSticky; owners != (c.Heartbeats > 0) || (c.Messages == 0) != (how == weir.SharingDivided) {
			t.Errorf("%s: %+v", how, c.Stats)
		}
	}
}

// TestFaults does to a cluster what can be done to it: less passes where nodes can't hear
// each other, stand still or are killed.
func TestFaults(t *testing.T) {
	const second = weir.Instant(1_000_000)
	faults := map[string]func(c *Cluster, now weir.Instant){
		"halves": func(c *Cluster, now weir.Instant) {
			c.Part(now, now+4*second, func(from, to int) bool { return (from < 2) != (to < 2) })
		},
		"a node stands still": func(c *Cluster, now weir.Instant) { c.Pause(now, 1, now+4*second) },
		"a node is killed": func(c *Cluster, now weir.Instant) {
			for i := range weir.Instant(4) {
				c.At(now+i*second, func(now weir.Instant) { c.Crash(now, 1) })
			}
		},
	}
	for name, fault := range faults {
		for _, how := range []weir.Sharing{weir.SharingLease, weir.SharingMesh} {
			n, c := asked(t, Settings{Seed: 1, Sharing: how, Faults: Faults{Delay: time.Millisecond}}, fault)
			t.Logf("%s, %s: %d pass, %+v", how, name, n, c.Stats)
			if n < 500 || n > 5200 || name == "a node is killed" && c.Crashes != 4 {
				t.Errorf("%s, %s: %d pass, %+v", how, name, n, c.Stats)
			}
		}
	}
}
