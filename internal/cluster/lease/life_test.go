package lease

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/rank"
)

// process is a node and what it knows of the others.
type process struct {
	*Node
	peers *member.Peers
}

func newProcess(t *testing.T, now weir.Instant, name string, incarnation uint64) *process {
	t.Helper()
	n, err := NewNode(Settings{Name: name, Incarnation: incarnation, Keys: 3})
	if err != nil {
		t.Fatal(err)
	}
	return &process{n, member.NewPeers(now, name, incarnation)}
}

// pair is an owner of a key, and a node that asks it. The test is the network.
type pair struct {
	t             *testing.T
	now           weir.Instant
	key           weir.StateKey
	limit         *weir.Limit
	owner, holder *process
}

const (
	ownerName  = "owner"
	holderName = "holder"

	second = weir.Instant(1_000_000)
	begin  = second

	life   = weir.Instant(member.Life / 1000)
	margin = weir.Instant(member.Margin / 1000)
)

func newPair(t *testing.T, limit string) *pair {
	p := &pair{t: t, now: begin, key: weir.StateKey{Rule: "api", Key: "k"}, limit: weir.MustParseLimit(limit)}
	for rank.First(p.key, []string{ownerName, holderName}) != ownerName {
		p.key.Key += "k"
	}
	p.owner, p.holder = newProcess(t, begin, ownerName, 1), newProcess(t, begin, holderName, 1)
	p.until(begin)
	return p
}

// until lets the processes hear each other until then.
func (p *pair) until(then weir.Instant) {
	for ; p.now <= then; p.now += bounds.Micros(member.Pulse) / 5 {
		p.pulse(p.now)
	}
	p.now = then
	p.pulse(then)
}

func (p *pair) pulse(now weir.Instant) {
	for _, from := range []*process{p.owner, p.holder} {
		var beats []member.HeartbeatTo
		from.peers.Agree(now, named(ownerName, holderName), &beats)
		from.peers.Tick(now, from.Moving(), from.Saved(), &beats)
		for _, b := range beats {
			to := p.owner
			if b.Peer == holderName {
				to = p.holder
			}
			to.peers.Receive(now, from.settings.Name, &b.Heartbeat)
		}
	}
	for _, n := range []*process{p.owner, p.holder} {
		n.View(now, n.peers.View(), nil)
	}
}

// request is a request for one event.
func (p *pair) request(id int) *protocol.Request {
	return &protocol.Request{ID: uint64(id), State: p.key, Limit: p.limit, Cost: 1}
}

// ask makes requests of one event, and is the ask that the last of them sends.
func (p *pair) ask(requests int) protocol.Message {
	p.t.Helper()
	var fx protocol.Effects
	for i := range requests {
		p.holder.Ask(p.now, p.request(i), &fx)
	}
	if len(fx.Messages) == 0 {
		p.t.Fatalf("%d requests at %d: no ask; answers %v", requests, p.now, fx.Answers)
	}
	return fx.Messages[len(fx.Messages)-1].Message
}

// serve is the owner's answer to an ask, or nil.
func (p *pair) serve(ask protocol.Message) *protocol.Message {
	var fx protocol.Effects
	p.owner.Receive(p.now, holderName, &ask, &fx)
	if len(fx.Messages) == 0 {
		return nil
	}
	return &fx.Messages[0].Message
}

// hear gives the holder an answer of the owner, and is what that answers.
func (p *pair) hear(m *protocol.Message) []protocol.Answer {
	var fx protocol.Effects
	p.holder.Receive(p.now, ownerName, m, &fx)
	return fx.Answers
}

// exchange has an ask answered, and those that follow it at once, and is what that answers.
func (p *pair) exchange(ask protocol.Message) (answers []protocol.Answer) {
	fx := protocol.Effects{Messages: []protocol.Envelope{{Message: ask}}}
	for len(fx.Messages) > 0 {
		m := p.serve(fx.Messages[0].Message)
		fx = protocol.Effects{}
		p.holder.Receive(p.now, ownerName, m, &fx)
		answers = append(answers, fx.Answers...)
	}
	return answers
}

// passes is how many of so many requests pass at once.
func (p *pair) passes(requests int) int {
	var fx protocol.Effects
	for i := range requests {
		p.holder.Ask(p.now, p.request(i), &fx)
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
func (p *pair) wants(incarnation, id uint64) protocol.Message {
	return protocol.Message{Kind: protocol.Ask, State: p.key, Limit: p.limit.String(), Incarnation: incarnation, ID: id, Least: 1, Want: 1}
}

// outstanding is how much of the owner's limit is lent, and free how much was not charged.
func (p *pair) outstanding(now weir.Instant) (events, free int64) {
	g := p.owner.ledgers.Rows[0].Of
	g.Report(now, p.owner.view, "nobody", &protocol.Message{}) // so that leases end
	r := g.Record(now)
	free, _ = p.limit.Standing(r.State, g.At(now))
	return r.Aside, free
}

// TestLearning holds processes that start to grant nothing as long as somebody may count
// on what earlier ones have promised, and to take all for used then.
func TestLearning(t *testing.T) {
	p := newPair(t, "100/s")
	p.until(begin + member.Settle(2) - 1)
	if a := p.serve(p.wants(1, 1)); a != nil {
		t.Errorf("an owner that may not know of a lease answers %+v; want none yet", a)
	}
	p.until(begin + member.Settle(2) + bounds.Micros(member.Pulse)/5)
	if a := p.serve(p.wants(1, 2)); a != nil && a.Granted > 0 {
		t.Errorf("an owner that knows nothing of its limit's use answers %+v; want no events", a)
	}
	p.until(begin + member.Settle(2) + 5*bounds.Micros(member.Pulse))
	if a := p.serve(p.wants(1, 3)); a == nil || a.Granted != 1 {
		t.Errorf("some heartbeats later an owner answers %+v; want 1 event", a)
	}
}

// TestLife holds a lease to begin when its ask is sent, at the holder, and to end
// when all clocks have seen its end, at the owner.
func TestLife(t *testing.T) {
	const asked, late = 10 * second, weir.Instant(60_000)
	lease := func() *pair {
		p := newPair(t, "100/s")
		p.until(asked - 20_000)
		p.exchange(p.ask(20))
		p.until(asked)
		answer := p.serve(p.ask(1))
		if answer == nil || answer.Granted < 10 {
			t.Fatalf("granted %+v", answer)
		}
		p.until(asked + late)
		p.hear(answer)
		return p
	}
	p := lease()
	p.now = asked + life - 1
	if n := p.passes(5); n != 5 {
		t.Errorf("%d of 5 pass at the end of a lease", n)
	}
	p = lease()
	p.now = asked + life
	if n := p.passes(5); n != 0 {
		t.Errorf("%d pass after the end of a lease", n)
	}
	p = lease()
	out, before := p.outstanding(asked + life + margin - 1)
	if out == 0 {
		t.Error("an owner gave up a lease that its holder may still use")
	}
	if now, after := p.outstanding(asked + life + margin); now != 0 || after != before-out {
		t.Errorf("%d outstanding when a lease of %d is burned, %d left of %d", now, out, after, before)
	}
}

// TestStale holds a node to pass over what comes from before: answers that came before,
// and asks of an earlier holder.
func TestStale(t *testing.T) {
	p := newPair(t, "100/s")
	p.until(10 * second)
	answer := p.serve(p.ask(1))
	other := *answer
	other.ID++
	if answers := p.hear(&other); len(answers) > 0 {
		t.Errorf("the answer to another ask was taken: %v", answers)
	}
	if answers := p.hear(answer); len(answers) != 1 {
		t.Errorf("the answer was not taken: %v", answers)
	}
	if p.hear(answer); p.holder.holder(p.now, p.request(0)).Left(p.now) != 0 {
		t.Error("an answer that came twice was taken twice")
	}
	if a := p.serve(p.wants(2, 2)); a == nil {
		t.Fatal("no answer to a new process")
	}
	if a := p.serve(p.wants(1, 9)); a != nil {
		t.Errorf("the ask of a process that is gone is answered: %+v", a)
	}
}

// TestDecision holds answers to tell what the owner said last of the limit.
func TestDecision(t *testing.T) {
	p := newPair(t, "10/s")
	p.until(10 * second)
	answers := p.hear(p.serve(p.ask(1)))
	want := weir.Decision{Outcome: weir.Allowed, Charged: true, Cost: 1, Remaining: 9, ResetAfter: 100 * time.Millisecond}
	if len(answers) != 1 || answers[0].Decision != want {
		t.Errorf("the first of ten: %+v, want %+v", answers, want)
	}
	var fx protocol.Effects
	r := p.request(2)
	r.Cost = 11
	p.holder.Ask(p.now, r, &fx)
	if want := (weir.Decision{Outcome: weir.Impossible, Cost: 11, Remaining: 9, ResetAfter: 100 * time.Millisecond}); fx.Answers[0].Decision != want {
		t.Errorf("eleven of ten at once: %+v, want %+v", fx.Answers[0].Decision, want)
	}
}
