package gossip

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestHearing follows who hears whom through what packets say.
func TestHearing(t *testing.T) {
	const limit = 3 * shortestHeartbeat
	var h hearing
	silent := func(at time.Duration) bool {
		_, silent := h.quiet(at, limit)
		return silent
	}
	h.begin(0, true)
	for _, step := range []struct {
		at           time.Duration
		round, heard uint8 // of the packet
		newest       bool
		silent       bool
		echo         uint8
	}{
		{at: 100 * time.Millisecond, round: 5, newest: true, echo: 5},                         // it has not heard of this process yet
		{at: 200 * time.Millisecond, round: 5, heard: 1, newest: true, echo: 5},               // now it has
		{at: 300 * time.Millisecond, round: 5, newest: false, echo: 5},                        // what it sent before comes late
		{at: 400 * time.Millisecond, round: 5, newest: true, silent: true, echo: 5},           // it hears nothing any more
		{at: 500 * time.Millisecond, round: 6, heard: 1, newest: true, echo: 6},               // it does, and has slept
		{at: 550 * time.Millisecond, round: 5, heard: 1, newest: false, echo: 6},              // from before its sleep
		{at: 600 * time.Millisecond, round: 6, heard: 2, newest: true, silent: true, echo: 6}, // of a process before
		{at: 2000 * time.Millisecond, round: 6, heard: 1, newest: true, silent: false, echo: 6},
	} {
		h.hear(step.at, &header{round: step.round, heard: step.heard}, 1, step.newest)
		if got := silent(step.at); got != step.silent {
			t.Errorf("at %v: silent %v; want %v", step.at, got, step.silent)
		}
		if got := h.echo(step.at+limit, limit); got != step.echo {
			t.Errorf("at %v: echoes %d; want %d", step.at, got, step.echo)
		}
		if got := h.echo(step.at+limit+1, limit); got != 0 {
			t.Errorf("at %v: echoes %d after %v of silence; want 0", step.at, got, limit)
		}
		if !silent(step.at + 5*limit) {
			t.Errorf("at %v: not silent after %v of silence", step.at, 5*limit)
		}
	}
}

// TestBothKnow cuts the ways between two processes at random. When one has been cut
// for long enough both take the other for silent, and neither does when none is.
func TestBothKnow(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const limit = 3 * shortestHeartbeat
		var ends [2]struct {
			hearing
			sequence, newest uint64
		}
		for i := range ends {
			ends[i].begin(0, true)
		}
		open := [2]bool{true, true} // from end i
		since := time.Duration(0)   // when a way was cut or opened last
		for now := shortestHeartbeat; now < 60*shortestHeartbeat; now += shortestHeartbeat {
			if i := rapid.IntRange(0, 20).Draw(r, "turn"); i < 2 {
				open[i], since = !open[i], now
			}
			for i := range ends {
				from, to := &ends[i], &ends[1-i]
				from.sequence++
				if !open[i] {
					continue
				}
				p := header{round: 1, heard: from.echo(now, limit)}
				to.hear(now, &p, 1, from.sequence > to.newest)
				to.newest = from.sequence
			}
			if now-since < 2*limit {
				continue
			}
			for i := range ends {
				if _, silent := ends[i].quiet(now, limit); silent == (open[0] && open[1]) {
					t.Fatalf("at %v, open %v since %v: end %d finds the other silent: %v", now, open, since, i, silent)
				}
			}
		}
	})
}

// TestHeartbeats holds the packets that go for heartbeats to their budget.
func TestHeartbeats(t *testing.T) {
	for n := 1; n <= MaxMembers; n++ {
		if pace := float64(n-1) / heartbeat(n).Seconds(); pace > heartbeatPace {
			t.Errorf("%d members: %.0f heartbeats a second", n, pace)
		}
		if heartbeat(n) < shortestHeartbeat || silence(n) < 3*shortestHeartbeat {
			t.Errorf("%d members: a heartbeat of %v", n, heartbeat(n))
		}
	}
}
