package lease

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/rank"
)

// movesTo is a key that is a's while a is alone, and b's then, and who says so.
func movesTo(t *testing.T) (a, b *Node, key weir.StateKey, move func(now weir.Instant) *protocol.Effects) {
	t.Helper()
	node := func(name string, members ...string) *Node {
		n, err := NewNode(Settings{Name: name, Incarnation: 1, Keys: 2})
		if err != nil {
			t.Fatal(err)
		}
		n.View(begin, member.Together(name, named(members...)), &protocol.Effects{})
		return n
	}
	a, b, key = node("a", "a"), node("b", "a", "b"), weir.StateKey{Rule: "api", Key: "k"}
	for rank.First(key, []string{"a", "b"}) != "b" {
		key.Key += "k"
	}
	return a, b, key, func(now weir.Instant) *protocol.Effects {
		both := member.Together("a", named("a", "b"))
		both.Version++
		var fx protocol.Effects
		a.View(now, both, &fx)
		return &fx
	}
}

// TestReturned holds a ledger that nobody says to have taken to come back, and to go on as if all
// was used: its node is not done until somebody has it.
func TestReturned(t *testing.T) {
	n, _, key, move := movesTo(t)
	now := begin
	n.Ask(now, &protocol.Request{State: key, Limit: weir.MustParseLimit("100/h"), Cost: 1}, &protocol.Effects{})
	fx := move(now)
	first := fx.Messages[0].Message
	for ; now < begin+2*member.Settle(2); now += bounds.Micros(protocol.Retry) {
		if n.Tick(now, fx); !n.Moving() {
			t.Fatalf("%v after it began to hand over a ledger that nobody took, a node is done", (now - begin).Duration())
		}
	}
	last := fx.Messages[len(fx.Messages)-1].Message
	if first.Kind != protocol.Handoff || first.Part != first.Of || last.Kind != protocol.Handoff || last.ID == first.ID || last.Part != 0 || last.Known != 0 {
		t.Errorf("first %+v, then %+v; want all of it, and later, by another number, nothing", first, last)
	}
	n.Receive(now, "b", &protocol.Message{Kind: protocol.Taken, State: key, Incarnation: 1, ID: last.ID}, fx)
	if n.Tick(now+bounds.Micros(protocol.Retry), fx); n.Moving() || n.Count(now).Owned > 0 {
		t.Error("a node whose ledger was taken is not done")
	}
}

// TestShards holds what the nodes of one process hand over, each by its own numbers, to be taken by one
// node of another process that has all of these keys.
func TestShards(t *testing.T) {
	const shards = 3
	var from []*Node
	_, to, _, _ := movesTo(t)
	to.ledgers.Most = shards
	key := weir.StateKey{Rule: "api", Key: "k"}
	limit, now := weir.MustParseLimit("100/h"), begin
	for i := range shards {
		a, _, _, move := movesTo(t)
		a.settings.Shard = uint64(i)
		for key.Key += "k"; rank.First(key, []string{"a", "b"}) != "b"; key.Key += "k" {
		}
		a.Ask(now, &protocol.Request{State: key, Limit: limit, Cost: 1}, &protocol.Effects{})
		sent := move(now).Messages[0].Message
		back, _, err := protocol.Parse(sent.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		var answer protocol.Effects
		to.Receive(now, "a", &back, &answer)
		a.Receive(now, "b", &answer.Messages[0].Message, &protocol.Effects{})
		from = append(from, a)
	}
	if got := to.Count(now).Owned; got != shards {
		t.Errorf("of %d ledgers %d were taken, and all were said to be", shards, got)
	}
	for i, a := range from {
		if a.Tick(now+bounds.Micros(protocol.Retry), &protocol.Effects{}); a.Moving() {
			t.Errorf("shard %d goes on to hand over", i)
		}
	}
}

// TestNumbers holds a node that forgets another, and meets it again, to use none of the numbers again
// that the other remembers.
func TestNumbers(t *testing.T) {
	a, b, key, move := movesTo(t)
	limit, now := weir.MustParseLimit("100/h"), begin
	for n := range 2 {
		for rank.First(key, []string{"a", "b"}) != "b" {
			key.Key += "k"
		}
		a.Ask(now, &protocol.Request{State: key, Limit: limit, Cost: 1}, &protocol.Effects{})
		sent := move(now).Messages[0].Message
		var answer protocol.Effects
		b.Receive(now, "a", &sent, &answer)
		a.Receive(now, "b", &answer.Messages[0].Message, &protocol.Effects{})
		if got := b.Count(now).Owned; got != n+1 {
			t.Fatalf("%d ledgers were handed over, and the other has %d", n+1, got)
		}
		alone := member.Together("a", named("a"))
		alone.Version = a.view.Version + 1
		a.View(now, alone, &protocol.Effects{})
		key.Key += "k"
	}
}

// TestRestarted holds a ledger that was on its way to a process to come back when there is a later one
// of that name.
func TestRestarted(t *testing.T) {
	a, _, key, move := movesTo(t)
	now := begin
	a.Ask(now, &protocol.Request{State: key, Limit: weir.MustParseLimit("100/h"), Cost: 1}, &protocol.Effects{})
	move(now)
	later := member.Together("a", []member.Member{{Name: "a", Incarnation: 1}, {Name: "b", Incarnation: 2}})
	later.Version = a.view.Version + 1
	var fx protocol.Effects
	a.View(now+1, later, &fx)
	if len(fx.Messages) != 1 || fx.Messages[0].Epoch != 2 || fx.Messages[0].Part != 0 {
		t.Errorf("%+v; want the ledger again, worth nothing, for the later process", fx.Messages)
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
			if _, _, err := a.Take(now, ask, out, &protocol.Effects{}); err != nil {
				t.Fatal(err)
			}
			ask[0].Receipt++
			now += 1000
		}
		before, err := a.Look(now, ask)
		if err != nil {
			t.Fatal(err)
		}
		var answer protocol.Effects
		b.Receive(now, "a", &move(now).Messages[0].Message, &answer)
		after, err := b.Look(now, ask)
		if err != nil || len(answer.Messages) != 1 || answer.Messages[0].Kind != protocol.Taken {
			t.Fatalf("%s: %v, answered by %+v", text, err, answer.Messages)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// TestHandedVersions holds a limit that was lowered to know what was used, when it comes back after its
// ledger has moved.
func TestHandedVersions(t *testing.T) {
	for large, small := range map[string]string{
		"1000/day": "10/day", "1000/day fixed-window": "10/h fixed-window", "1000/h burst 1000": "10/day fixed-window", "1000/day sliding-log": "10/day",
	} {
		a, b, key, move := movesTo(t)
		limit, now, out := weir.MustParseLimit(large), begin, make([]weir.Decision, 1)
		take := func(n *Node, l *weir.Limit, cost int64) weir.Outcome {
			if _, _, err := n.Take(now, []weir.Ask{{State: key, Limit: l, Cost: cost}}, out, &protocol.Effects{}); err != nil {
				t.Fatal(err)
			}
			return out[0].Outcome
		}
		if take(a, limit, 900) != weir.Allowed || take(a, weir.MustParseLimit(small), 10) == weir.Impossible {
			t.Fatalf("%s: %+v", large, out[0])
		}
		sent := move(now).Messages[0].Message
		got, _, err := protocol.Parse(sent.Append(nil))
		if diff := cmp.Diff(sent, got); err != nil || diff != "" {
			t.Fatalf("%v\n%s", err, diff)
		}
		b.Receive(now, "a", &got, &protocol.Effects{})
		if take(b, limit, 101) != weir.Denied || take(b, limit, 90) != weir.Allowed {
			t.Errorf("%s, after %s, at the next owner: %+v; want 90 of the 100 left, and not 101", large, small, out[0])
		}
	}
}

// TestHandedPermit holds a permit that was had from one owner to come back to the next.
func TestHandedPermit(t *testing.T) {
	a, b, key, move := movesTo(t)
	limit, now, out := weir.MustParseLimit("1 concurrent ttl 1min"), begin, make([]weir.Decision, 1)
	ask := []weir.Ask{{State: key, Limit: limit, Cost: 1, Receipt: 1}}
	if _, _, err := a.Take(now, ask, out, &protocol.Effects{}); err != nil || out[0].Receipt == nil {
		t.Fatalf("%+v: %v", out[0], err)
	}
	receipt := out[0].Receipt
	now += second
	b.Receive(now, "a", &move(now).Messages[0].Message, &protocol.Effects{})
	take := func() weir.Outcome {
		ask[0].Receipt++
		if _, _, err := b.Take(now, ask, out, &protocol.Effects{}); err != nil {
			t.Fatal(err)
		}
		return out[0].Outcome
	}
	if got := take(); got != weir.Denied {
		t.Errorf("while the permit is held: %v", got)
	}
	if err := b.Settle(now, []weir.Settlement{{Receipt: receipt}}, new(protocol.Effects)); err != nil {
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
	var fx protocol.Effects
	a.Receive(now, "a", &protocol.Message{Kind: protocol.Ask, State: key, Incarnation: 1, ID: 1, Limit: limit.String(), Least: 1, Want: 60}, &fx)
	if err := a.Reset(now, key, &fx); err != nil {
		t.Fatal(err)
	}
	b.Receive(now, "a", &move(now).Messages[0].Message, &fx)
	asks, out := []weir.Ask{{State: key, Limit: limit, Cost: 100}}, make([]weir.Decision, 1)
	if _, _, err := b.Take(now, asks, out, &protocol.Effects{}); err == nil {
		t.Errorf("while 60 may still pass: %+v", out[0])
	}
	now += bounds.Micros(member.Life+member.Margin) + 1000
	if _, _, err := b.Take(now, asks, out, &protocol.Effects{}); err != nil || out[0].Outcome != weir.Allowed {
		t.Errorf("when they are over: %+v, %v; want all 100", out[0], err)
	}
}

// TestTooLong holds a state that goes into no message to count as used where it goes.
func TestTooLong(t *testing.T) {
	a, b, key, move := movesTo(t)
	limit, now, out := weir.MustParseLimit("10000/h sliding-log"), begin, make([]weir.Decision, 1)
	ask := []weir.Ask{{State: key, Limit: limit, Cost: 9000}}
	if _, _, err := a.Take(now, ask, out, &protocol.Effects{}); err != nil || out[0].Outcome != weir.Allowed {
		t.Fatalf("%+v: %v", out[0], err)
	}
	m := move(now).Messages[0].Message
	if n := len(m.Append(nil)); n > 64<<10 {
		t.Errorf("a message of %d bytes", n)
	}
	b.Receive(now, "a", &m, &protocol.Effects{})
	ask[0].Cost = 1
	if _, _, err := b.Take(now, ask, out, &protocol.Effects{}); err != nil || out[0].Outcome != weir.Denied {
		t.Errorf("then %+v: %v; want it denied", out[0], err)
	}
}

// TestParted holds a process that leaves to be done when the others know that it has no ledgers: it
// is lost to nobody then.
func TestParted(t *testing.T) {
	p := newPair(t, "100/s")
	p.owner.peers.Found()
	p.until(5 * second)
	var beats []member.HeartbeatTo
	p.owner.peers.Leave(p.now, &beats)
	if p.owner.peers.Parted(p.now) {
		t.Error("done before anybody knows")
	}
	for end := p.now + second; !p.owner.peers.Parted(p.now); {
		if p.until(p.now + bounds.Micros(member.Pulse)); p.now > end {
			t.Fatal("not done within a second")
		}
	}
	holder := p.holder.peers
	for range 100 { // only the holder is there
		holder.Agree(p.now, named(holderName), &beats)
		holder.Tick(p.now, false, false, &beats)
		p.now += bounds.Micros(member.Pulse)
	}
	if here, lost := holder.View().Presence(), holder.Lost(p.now); len(here) != 1 || len(lost) != 0 {
		t.Errorf("%d members, and lost are %+v", len(here), lost)
	}
}

// TestPartedBusy holds a process that leaves to wait for one that is too busy to answer for a while, but not for one
// that is gone.
func TestPartedBusy(t *testing.T) {
	p := newPair(t, "100/s")
	p.owner.peers.Found()
	p.until(5 * second)
	var beats []member.HeartbeatTo
	alone := func(long weir.Instant) {
		for end := p.now + long; p.now < end; p.now += bounds.Micros(member.Pulse) {
			p.owner.peers.Tick(p.now, false, false, &beats)
			p.owner.View(p.now, p.owner.peers.View(), nil)
		}
	}
	const busy = 4 * member.Silence / 3
	alone(bounds.Micros(busy))
	p.owner.peers.Leave(p.now, &beats)
	if alone(bounds.Micros(busy)); p.owner.peers.Parted(p.now) {
		t.Error("done, and the other process will take it for lost")
	}
	if alone(bounds.Micros(member.Farewell)); !p.owner.peers.Parted(p.now) {
		t.Error("not done, though nobody is there")
	}
}

// TestUnclean holds a process to count each unclean departure that it notices itself, also those that
// it remembers no more, and none that it has only been told of.
func TestUnclean(t *testing.T) {
	p := newPair(t, "100/s")
	p.owner.peers.Found()
	p.until(5 * second)
	holder := p.holder.peers
	if n := holder.Unclean(); n != 0 {
		t.Errorf("%d at a clean start", n)
	}
	var beats []member.HeartbeatTo
	const restarts = member.MaxLosses + 2
	for i := range uint64(restarts) { // the owner is killed, and comes again at once
		p.now += second
		holder.Agree(p.now, []member.Member{{Name: ownerName, Incarnation: 2 + i}, {Name: holderName, Incarnation: 1}}, &beats)
		if n := holder.Unclean(); n != int64(i+1) {
			t.Fatalf("%d after restart %d", n, i+1)
		}
	}
	for range 100 { // it is given up
		holder.Agree(p.now, named(holderName), &beats)
		holder.Tick(p.now, false, false, &beats)
		p.now += bounds.Micros(member.Pulse)
	}
	if n := holder.Unclean(); n != restarts+1 || len(holder.Lost(p.now)) >= member.MaxLosses {
		t.Errorf("%d after the owner was given up; lost are %+v", n, holder.Lost(p.now))
	}
	late := member.NewPeers(p.now, "late", 1)
	beats = nil
	holder.Agree(p.now, named(holderName, "late"), &beats)
	late.Agree(p.now, named(holderName, "late"), &[]member.HeartbeatTo{})
	for i := range beats {
		if beats[i].Peer == "late" {
			late.Receive(p.now, holderName, &beats[i].Heartbeat)
		}
	}
	if n := late.Unclean(); n != 0 || len(late.Lost(p.now)) == 0 {
		t.Errorf("%d at a process that has only been told; lost are %+v", n, late.Lost(p.now))
	}
}
