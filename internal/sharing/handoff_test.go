package sharing

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/weir-limit/weir"
)

// movesTo is a key that is a's while a is alone, and b's then, and who says so.
func movesTo(t *testing.T) (a, b *Node, key weir.StateKey, move func(now weir.Instant) *Effects) {
	t.Helper()
	node := func(name string, members ...string) *Node {
		n, err := NewNode(Settings{Name: name, Incarnation: 1, Keys: 1})
		if err != nil {
			t.Fatal(err)
		}
		n.View(begin, Together(name, named(members...)), &Effects{})
		return n
	}
	a, b, key = node("a", "a"), node("b", "a", "b"), weir.StateKey{Rule: "api", Key: "k"}
	for Owner(key, []string{"a", "b"}) != "b" {
		key.Key += "k"
	}
	return a, b, key, func(now weir.Instant) *Effects {
		both := Together("a", named("a", "b"))
		both.version++
		var fx Effects
		a.View(now, both, &fx)
		return &fx
	}
}

// TestReturned holds a ledger that nobody says to have taken to come back, and to go on as if all
// was used: its node is not done until somebody has it.
func TestReturned(t *testing.T) {
	n, _, key, move := movesTo(t)
	now := begin
	n.Ask(now, &Request{State: key, Limit: weir.MustParseLimit("100/h"), Cost: 1}, &Effects{})
	fx := move(now)
	first := fx.Messages[0].Message
	for ; now < begin+2*settle(2); now += micros(Retry) {
		if n.Tick(now, fx); !n.Moving() {
			t.Fatalf("%v after it began to hand over a ledger that nobody took, a node is done", (now - begin).Duration())
		}
	}
	last := fx.Messages[len(fx.Messages)-1].Message
	if first.Kind != Handoff || first.Part != first.Of || last.Kind != Handoff || last.ID == first.ID || last.Part != 0 || last.Known != 0 {
		t.Errorf("first %+v, then %+v; want all of it, and later, by another number, nothing", first, last)
	}
	n.Receive(now, "b", &Message{Kind: Taken, State: key, Incarnation: 1, ID: last.ID}, fx)
	if n.Tick(now+micros(Retry), fx); n.Moving() || n.Count(now).Owned > 0 {
		t.Error("a node whose ledger was taken is not done")
	}
}

// TestHandedWhole holds what leases don't suit to move like all else: the next owner knows which
// permits are held, who has which place in a queue, and what was denied.
func TestHandedWhole(t *testing.T) {
	for _, text := range []string{
		"5 concurrent", "60/min leaky-queue queue 20", "100/min warm-up 10s", "10/min fixed-window anchored", "10/min debt 5", "10/min initial 2", "10/min sliding-window count-denied",
	} {
		a, b, key, move := movesTo(t)
		limit, now, out := weir.MustParseLimit(text), begin, make([]weir.Decision, 1)
		ask := []weir.Ask{{State: key, Limit: limit, Cost: 1, Receipt: 1}}
		for ask[0].Receipt < 8 {
			if _, _, err := a.Take(now, ask, out, &Effects{}); err != nil {
				t.Fatal(err)
			}
			ask[0].Receipt++
			now += 1000
		}
		before, err := a.Look(now, ask)
		if err != nil {
			t.Fatal(err)
		}
		var answer Effects
		b.Receive(now, "a", &move(now).Messages[0].Message, &answer)
		after, err := b.Look(now, ask)
		if err != nil || len(answer.Messages) != 1 || answer.Messages[0].Kind != Taken {
			t.Fatalf("%s: %v, answered by %+v", text, err, answer.Messages)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// TestHandedPermit holds a permit that was had from one owner to come back to the next.
func TestHandedPermit(t *testing.T) {
	a, b, key, move := movesTo(t)
	limit, now, out := weir.MustParseLimit("1 concurrent ttl 1min"), begin, make([]weir.Decision, 1)
	ask := []weir.Ask{{State: key, Limit: limit, Cost: 1, Receipt: 1}}
	if _, _, err := a.Take(now, ask, out, &Effects{}); err != nil || out[0].Receipt == nil {
		t.Fatalf("%+v: %v", out[0], err)
	}
	receipt := out[0].Receipt
	now += second
	b.Receive(now, "a", &move(now).Messages[0].Message, &Effects{})
	take := func() weir.Outcome {
		ask[0].Receipt++
		if _, _, err := b.Take(now, ask, out, &Effects{}); err != nil {
			t.Fatal(err)
		}
		return out[0].Outcome
	}
	if got := take(); got != weir.Denied {
		t.Errorf("while the permit is held: %v", got)
	}
	if err := b.Settle(now, []weir.Settlement{{Receipt: receipt}}); err != nil {
		t.Error(err)
	}
	if got := take(); got != weir.Allowed {
		t.Errorf("when it is back: %v", got)
	}
}

// TestHandedReset holds a reset to go along with a ledger of which something is outstanding.
func TestHandedReset(t *testing.T) {
	a, b, key, move := movesTo(t)
	limit, now := weir.MustParseLimit("100/h"), begin
	var fx Effects
	a.Receive(now, "a", &Message{Kind: Ask, State: key, Incarnation: 1, ID: 1, Limit: limit.String(), Least: 1, Want: 60}, &fx)
	if err := a.Reset(now, key, &fx); err != nil {
		t.Fatal(err)
	}
	b.Receive(now, "a", &move(now).Messages[0].Message, &fx)
	asks, out := []weir.Ask{{State: key, Limit: limit, Cost: 100}}, make([]weir.Decision, 1)
	if _, _, err := b.Take(now, asks, out, &Effects{}); err == nil {
		t.Errorf("while 60 may still pass: %+v", out[0])
	}
	now += micros(Life+Margin) + 1000
	if _, _, err := b.Take(now, asks, out, &Effects{}); err != nil || out[0].Outcome != weir.Allowed {
		t.Errorf("when they are over: %+v, %v; want all 100", out[0], err)
	}
}

// TestTooLong holds a state that goes into no message to count as used where it goes.
func TestTooLong(t *testing.T) {
	a, b, key, move := movesTo(t)
	limit, now, out := weir.MustParseLimit("10000/h sliding-log"), begin, make([]weir.Decision, 1)
	ask := []weir.Ask{{State: key, Limit: limit, Cost: 9000}}
	if _, _, err := a.Take(now, ask, out, &Effects{}); err != nil || out[0].Outcome != weir.Allowed {
		t.Fatalf("%+v: %v", out[0], err)
	}
	m := move(now).Messages[0].Message
	if n := len(m.Append(nil)); n > 64<<10 {
		t.Errorf("a message of %d bytes", n)
	}
	b.Receive(now, "a", &m, &Effects{})
	ask[0].Cost = 1
	if _, _, err := b.Take(now, ask, out, &Effects{}); err != nil || out[0].Outcome != weir.Denied {
		t.Errorf("then %+v: %v; want it denied", out[0], err)
	}
}

// TestParted holds a process that leaves to be done when the others know that it has no ledgers: it
// is lost to nobody then.
func TestParted(t *testing.T) {
	p := newPair(t, "100/s")
	p.owner.peers.Found()
	p.until(5 * second)
	var fx Effects
	p.owner.peers.Leave(p.now, &fx)
	if p.owner.peers.Parted(p.now) {
		t.Error("done before anybody knows")
	}
	for end := p.now + second; !p.owner.peers.Parted(p.now); {
		if p.until(p.now + micros(Pulse)); p.now > end {
			t.Fatal("not done within a second")
		}
	}
	holder := p.holder.peers
	for range 100 { // only the holder is there
		holder.Agree(p.now, named(holderName), &fx)
		holder.Tick(p.now, false, &fx)
		p.now += micros(Pulse)
	}
	if len(holder.list) != 1 || len(holder.losses) != 0 {
		t.Errorf("%d members, and lost are %+v", len(holder.list), holder.losses)
	}
}
