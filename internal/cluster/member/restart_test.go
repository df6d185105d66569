package member

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
)

// TestQuickRestart: a member leaves in order, and starts again before the list has it again. Nothing is lost, so no loss is remembered.
func TestQuickRestart(t *testing.T) {
	for _, again := range []weir.Instant{300_000, 600_000} {
		now := weir.Instant(1_000_000_000)
		p := NewPeers(now-10_000_000, "b", 1)
		p.Found()
		var out []HeartbeatTo
		p.Agree(now, []Member{{"a", 1}, {"b", 1}}, &out)
		beat := func(incarnation uint64, active, leaving bool) {
			now += 1000
			p.Receive(now, "a", &Heartbeat{
				Incarnation: incarnation, Members: p.digest, Voters: p.voters, Active: active, Leaving: leaving, Clean: true, Backs: true, Age: time.Duration(1),
				Stamp: now, Echo: now - 500, Vote: now - 500, Life: Silence, Run: 1,
			})
			p.Tick(max(now, p.pulse), false, true, &out)
		}
		for range 20 {
			now += 50_000
			beat(1, true, false)
		}
		if !p.View().Converged() {
			t.Fatal("the two do not converge")
		}
		leave := now
		beat(1, true, true)
		p.Agree(now+20_000, []Member{{"b", 1}}, &out)
		now = leave + again
		beat(2, false, false)
		for range 6 {
			now += 50_000
			p.Tick(max(now, p.pulse), false, true, &out)
		}
		p.Agree(now, []Member{{"a", 2}, {"b", 1}}, &out)
		if lost := p.Lost(now); len(lost) > 0 {
			t.Errorf("again after %d ms: %+v are lost", again/1000, lost)
		}
	}
}
