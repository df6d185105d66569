package sharing

import (
	"testing"

	"github.com/weir-limit/weir"
)

// TestReturned holds a ledger that nobody says to have taken to come back, and to go on as if all
// was used: its node is not done until somebody has it.
func TestReturned(t *testing.T) {
	n, err := NewNode(Settings{Name: "a", Incarnation: 1, Keys: 1})
	if err != nil {
		t.Fatal(err)
	}
	n.View(begin, Together("a", named("a")), &Effects{})
	key, now := weir.StateKey{Rule: "api", Key: "k"}, begin
	for Owner(key, []string{"a", "b"}) != "b" {
		key.Key += "k"
	}
	n.Ask(now, &Request{State: key, Limit: weir.MustParseLimit("100/h"), Cost: 1}, &Effects{})
	both := Together("a", named("a", "b"))
	both.version++
	var fx Effects
	n.View(now, both, &fx)
	first := fx.Messages[0].Message
	for ; now < begin+2*settle(2); now += micros(Retry) {
		if n.Tick(now, &fx); !n.Moving() {
			t.Fatalf("%v after it began to hand over a ledger that nobody took, a node is done", (now - begin).Duration())
		}
	}
	last := fx.Messages[len(fx.Messages)-1].Message
	if first.Kind != Handoff || first.Part != first.Of || last.Kind != Handoff || last.ID == first.ID || last.Part != 0 || last.Known != 0 {
		t.Errorf("first %+v, then %+v; want all of it, and later, by another number, nothing", first, last)
	}
	n.Receive(now, "b", &Message{Kind: Taken, State: key, Incarnation: 1, ID: last.ID}, &fx)
	if n.Tick(now+micros(Retry), &fx); n.Moving() || n.Count(now).Owned > 0 {
		t.Error("a node whose ledger was taken is not done")
	}
}
