package lease

import (
	"errors"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/rank"
	"github.com/weir-limit/weir/internal/cluster/table"
	"pgregory.net/rapid"
)

// TestReset holds a reset to make a key as never used, whatever nodes hold of it, denied or
// let pass before: at once where all is heard, and in the life of a lease where not.
func TestReset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const burst = 20
		limit, all, now := weir.MustParseLimit("20/h"), newTrio(t), begin
		key := weir.StateKey{Rule: "api", Key: rapid.SampledFrom([]string{"k", "l", "m"}).Draw(t, "key")}
		names := []string{"a", "b", "c"}
		r := &protocol.Request{State: key, Limit: limit, Cost: 1, Sticky: rapid.Bool().Draw(t, "sticky")}
		for range rapid.IntRange(1, 50).Draw(t, "takes") {
			all.ask(t, now, rapid.SampledFrom(names).Draw(t, "at"), r)
			now += weir.Instant(rapid.Int64Range(0, 20_000).Draw(t, "since"))
		}
		all.until(now)
		owner, lost := rank.First(key, names), rapid.Bool().Draw(t, "lost")
		var fx protocol.Effects
		if err := all[owner].Reset(now, key, &fx); err != nil {
			t.Fatal(err)
		}
		if lost {
			fx = protocol.Effects{}
			now += bounds.Micros(table.MaxDeny)
		}
		all.deliver(now, owner, &fx, nil)
		passed, at := 0, rapid.SampledFrom(names).Draw(t, "then") // one, for another may hold what it has not used
		for range burst + 5 {
			if all.ask(t, now, at, r).Outcome == weir.Allowed {
				passed++
			}
		}
		if passed != burst {
			t.Fatalf("%d of %d pass after a reset", passed, burst)
		}
	})
}

// TestResetWhileHeld holds an owner that was reset to grant nothing while a lease from before
// may be used, and to forget what is reported of it.
func TestResetWhileHeld(t *testing.T) {
	p := newPair(t, "100/s")
	p.owner.peers.Found()
	p.until(10 * second)
	m := p.wants(1, 1)
	m.Want = 60
	held := p.serve(m)
	if held == nil || held.Granted != 60 {
		t.Fatalf("%+v", held)
	}
	var fx protocol.Effects
	if err := p.owner.Reset(p.now, p.key, &fx); err != nil {
		t.Fatal(err)
	}
	m.ID, m.Lease, m.Epoch, m.Spent = 2, held.Lease, held.Epoch, 10
	if a := p.serve(m); a == nil || a.Granted != 60 || a.Life != 0 {
		t.Errorf("while 50 of a lease may still pass: %+v; want no more, and the lease called back", a)
	}
	var out [1]weir.Decision
	asks := []weir.Ask{{State: p.key, Limit: p.limit, Cost: 1}}
	if _, _, err := p.owner.Take(p.now, asks, out[:], &protocol.Effects{}); !errors.Is(err, ErrNotYet) {
		t.Errorf("a take meanwhile: %v", err)
	}
	m.ID, m.Spent, m.Closed = 3, 60, true
	if a := p.serve(m); a == nil || a.Granted != 60 || a.Free != 40 || a.Lease == held.Lease {
		t.Errorf("when it is over: %+v; want a lease of 60, and 40 left", a)
	}
}
