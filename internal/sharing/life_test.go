package sharing

import (
	"testing"

	"github.com/weir-limit/weir"
)

// pair is an owner of a key, and a node that asks it. The test is the network.
type pair struct {
	t             *testing.T
	key           weir.StateKey
	limit         *weir.Limit
	owner, holder *Node
}

const (
	ownerName  = "owner"
	holderName = "holder"

	second = weir.Instant(1_000_000)
	life   = weir.Instant(Life / 1000)
	margin = weir.Instant(Margin / 1000)
)

func newPair(t *testing.T, limit string) *pair {
	p := &pair{t: t, key: weir.StateKey{Rule: "api", Key: "k"}, limit: weir.MustParseLimit(limit)}
	for Owner(p.key, []string{ownerName, holderName}) != ownerName {
		p.key.Key += "k"
	}
	p.owner, p.holder = p.node(0, ownerName, 1), p.node(0, holderName, 1)
	return p
}

func (p *pair) node(now weir.Instant, name string, incarnation uint64) *Node {
	n, err := NewNode(now, Settings{Name: name, Incarnation: incarnation, Keys: 1})
	if err != nil {
		p.t.Fatal(err)
	}
	n.View(now, named(ownerName, holderName), nil)
	return n
}

// request is a request for one event.
func (p *pair) request(id int) *Request {
	return &Request{ID: uint64(id), State: p.key, Limit: p.limit, Cost: 1}
}

// ask makes requests of one event, and is the ask that the last of them sends.
func (p *pair) ask(now weir.Instant, requests int) Message {
	p.t.Helper()
	var fx Effects
	for i := range requests {
		p.holder.Ask(now, p.request(i), &fx)
	}
	if len(fx.Messages) == 0 {
		p.t.Fatalf("%d requests at %d: no ask; answers %v", requests, now, fx.Answers)
	}
	return fx.Messages[len(fx.Messages)-1].Message
}

// serve is the owner's answer to an ask, or nil.
func (p *pair) serve(now weir.Instant, ask Message) *Message {
	var fx Effects
	p.owner.Receive(now, holderName, &ask, &fx)
	if len(fx.Messages) == 0 {
		return nil
	}
	return &fx.Messages[0].Message
}

// passes is how many of so many requests pass at once.
func (p *pair) passes(now weir.Instant, requests int) int {
	var fx Effects
	for i := range requests {
		p.holder.Ask(now, p.request(i), &fx)
	}
	n := 0
	for _, a := range fx.Answers {
		if a.Decision.Outcome == weir.Allowed {
			n++
		}
	}
	return n
}

// wants is an ask for one event.
func (p *pair) wants(incarnation, id uint64) Message {
	return Message{Kind: Ask, State: p.key, Limit: p.limit.String(), Incarnation: incarnation, ID: id, Least: 1, Want: 1}
}

func TestLearning(t *testing.T) {
	p := newPair(t, "100/s")
	if a := p.serve(life+margin-1, p.wants(1, 1)); a != nil {
		t.Errorf("an owner that may not know of a lease answers %+v", a)
	}
	if a := p.serve(life+margin, p.wants(1, 2)); a == nil || a.Granted > 0 {
		t.Errorf("an owner that knows nothing of its limit's use answers %+v; want no events", a)
	}
	if a := p.serve(life+margin+10_000, p.wants(1, 3)); a == nil || a.Granted != 1 {
		t.Errorf("after 10 ms at 100/s an owner answers %+v; want 1 event", a)
	}
}

// TestLife holds a lease to begin when its ask is sent, at the holder, and to end
// when all clocks have seen its end, at the owner.
func TestLife(t *testing.T) {
	const asked, late = weir.Instant(10_000_000), weir.Instant(60_000)
	lease := func() *pair {
		p := newPair(t, "100/s")
		p.serve(asked-2*second, p.ask(asked-2*second, 1)) // from when on its limit fills
		p.holder = p.node(asked-second, holderName, 2)
		var fx Effects
		p.holder.Receive(asked-20_000, ownerName, p.serve(asked-20_000, p.ask(asked-20_000, 20)), &fx)
		answer := p.serve(asked, p.ask(asked, 1))
		if answer == nil || answer.Granted < 10 {
			t.Fatalf("granted %+v", answer)
		}
		p.holder.Receive(asked+late, ownerName, answer, &fx)
		return p
	}
	if n := lease().passes(asked+life-1, 5); n != 5 {
		t.Errorf("%d of 5 pass at the end of a lease", n)
	}
	if n := lease().passes(asked+life, 5); n != 0 {
		t.Errorf("%d pass after the end of a lease", n)
	}
	p := lease()
	g := p.owner.ledgers.rows[0].of
	g.expire(asked + life + margin - 1)
	if g.outstanding() == 0 {
		t.Error("an owner gave up a lease that its holder may still use")
	}
	before := g.free(asked + life + margin)
	out := g.outstanding()
	g.expire(asked + life + margin)
	if after := g.free(asked + life + margin); g.outstanding() != 0 || after != before-out {
		t.Errorf("%d outstanding when a lease of %d is burned, %d left of %d", g.outstanding(), out, after, before)
	}
}

// TestStale holds a node to pass over what comes from before: answers of an earlier
// owner, and asks of an earlier holder.
func TestStale(t *testing.T) {
	const now = weir.Instant(10_000_000)
	p := newPair(t, "100/s")
	ask := p.ask(now, 1)
	answer := p.serve(now, ask)
	p.holder.holder(now, p.request(0)).epoch = 2 // heard of since
	var fx Effects
	if p.holder.Receive(now, ownerName, answer, &fx); len(fx.Answers) > 0 {
		t.Errorf("the answer of an owner that is gone was taken: %v", fx.Answers)
	}
	answer.Epoch = 3
	if p.holder.Receive(now, ownerName, answer, &fx); len(fx.Answers) != 1 {
		t.Errorf("the answer of a new owner was not taken: %v", fx.Answers)
	}
	if p.holder.Receive(now, ownerName, answer, &fx); p.holder.holder(now, p.request(0)).left(now) != 0 {
		t.Error("an answer that came twice was taken twice")
	}
	if a := p.serve(now, p.wants(2, 2)); a == nil {
		t.Fatal("no answer to a new process")
	}
	if a := p.serve(now, p.wants(1, 9)); a != nil {
		t.Errorf("the ask of a process that is gone is answered: %+v", a)
	}
}

// TestDecision holds answers to tell what the owner said last of the limit.
func TestDecision(t *testing.T) {
	const now = 10 * second
	p := newPair(t, "10/s")
	p.serve(now-2*second, p.wants(1, 1)) // from when on its limit fills
	p.owner.Receive(now-second, holderName, &Message{Kind: Release, State: p.key, Incarnation: 1}, nil)
	var fx Effects
	p.holder.asks = 1
	p.holder.Receive(now, ownerName, p.serve(now, p.ask(now, 1)), &fx)
	want := weir.Decision{Outcome: weir.Allowed, Charged: true, Cost: 1, Remaining: 9}
	if len(fx.Answers) != 1 || fx.Answers[0].Decision != want {
		t.Errorf("the first of ten: %+v, want %+v", fx.Answers, want)
	}
	fx = Effects{}
	r := p.request(2)
	r.Cost = 11
	p.holder.Ask(now, r, &fx)
	if want := (weir.Decision{Outcome: weir.Impossible, Cost: 11, Remaining: 9}); fx.Answers[0].Decision != want {
		t.Errorf("eleven of ten at once: %+v, want %+v", fx.Answers[0].Decision, want)
	}
}

// TestTwoVersions holds an owner that is asked for two versions of a limit by turns not
// to forget at each turn what was used.
func TestTwoVersions(t *testing.T) {
	g := newLedger(weir.MustParseLimit("100/min"), 0)
	small := weir.MustParseLimit("10/min")
	if g.become(second, small); g.limit != small {
		t.Fatalf("the limit is %s, want %s", g.limit, small)
	}
	g.become(2*second, weir.MustParseLimit("100/min"))
	used := g.limit.Used(g.state, 2*second)
	if g.become(3*second, weir.MustParseLimit("5/min")); g.limit.Used(g.state, 3*second) < used-1 {
		t.Errorf("%s: %d used, before %d", g.limit, g.limit.Used(g.state, 3*second), used)
	}
	if g.become(70*second, weir.MustParseLimit("5/min")); g.limit.String() != "5/min" {
		t.Errorf("a minute later the limit is still %s", g.limit)
	}
}
