package lease

import (
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/rank"
)

// held is a node with a lease of so many events.
func held(t testing.TB, events int64) (*Node, *protocol.Request) {
	t.Helper()
	n, err := NewNode(Settings{Name: holderName, Incarnation: 1, Keys: 8})
	if err != nil {
		t.Fatal(err)
	}
	n.View(begin, member.Together(holderName, named(ownerName, holderName)), nil)
	r := &protocol.Request{ID: 1, State: weir.StateKey{Rule: "api", Key: "k"}, Limit: weir.MustParseLimit("1000000000/s"), Cost: 1}
	for rank.First(r.State, []string{ownerName, holderName}) != ownerName {
		r.State.Key += "k"
	}
	var fx protocol.Effects
	n.Ask(begin, r, &fx)
	m := fx.Messages[0].Message
	n.Receive(begin, ownerName, &protocol.Message{
		Kind: protocol.Grant, State: r.State, Incarnation: 1, Epoch: 1, ID: m.ID, Lease: 1, Granted: events, Life: member.MaxLife, Free: 1,
	}, &fx)
	return n, r
}

// TestHeld holds a decision by a lease to allocate nothing, and to say nothing to others.
func TestHeld(t *testing.T) {
	n, r := held(t, 1<<40)
	fx := protocol.Effects{Answers: make([]protocol.Answer, 0, 1)}
	if allocs := testing.AllocsPerRun(1000, func() {
		fx.Answers = fx.Answers[:0]
		n.Ask(begin, r, &fx)
	}); allocs > 0 || len(fx.Messages) > 0 || fx.Answers[0].Decision.Outcome != weir.Allowed {
		t.Errorf("%v allocations, %+v", allocs, fx)
	}
}

func BenchmarkHeld(b *testing.B) {
	n, r := held(b, 1<<60)
	var fx protocol.Effects
	b.ReportAllocs()
	now := begin
	for b.Loop() {
		now++
		fx.Answers = fx.Answers[:0]
		n.Ask(now, r, &fx)
	}
}
