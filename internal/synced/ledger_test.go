package synced

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// counter is one count in a store, and nothing else.
type counter struct {
	limit *weir.Limit
	state weir.State
}

// take decides a at now. before is the state that it stood on.
func (c *counter) take(now weir.Instant, a *weir.Ask) (d weir.Decision, before weir.State) {
	before = slices.Clone(c.state)
	d = c.limit.Decide(c.state, now, a)
	d.Charged = !a.Peek && d.Outcome == weir.Allowed && a.Cost > 0
	c.state = c.limit.Commit(c.state, now, a, &d)
	return d, before
}

// player is a node of a simulation, whose clock is that of all.
type player struct {
	ledger ledger
	heard  weir.Instant
	call   *sending
}

// sending is a call on its way: to the store, or back from there.
type sending struct {
	ask    weir.Ask
	sent   weir.Instant
	there  bool // the store has decided
	at     weir.Instant
	d      weir.Decision
	before weir.State
}

func (p *player) now(now weir.Instant) weir.Instant { return p.ledger.at + now - p.heard }

// passes lets the node decide, or the store.
func (p *player) passes(now weir.Instant, c *counter, a weir.Ask) bool {
	var d weir.Decision
	switch p.ledger.decide(p.now(now), &a, &d) {
	case byNode:
		d.Charged = d.Outcome == weir.Allowed
		p.ledger.commit(p.now(now), &a, &d)
	case byStore:
		var before weir.State
		d, before = c.take(now, &a)
		if d.Charged {
			p.learn(now, 0, now, before, a.Cost)
		}
	case tell:
		return false
	}
	return d.Outcome == weir.Allowed
}

func (p *player) learn(now, lag, at weir.Instant, s weir.State, charged int64) {
	if p.ledger.learn(at, lag, s, charged) {
		p.heard = now
	}
}

// step moves the node's call on by one: it is sent, decided, answered, or lost.
func (p *player) step(now weir.Instant, c *counter, lost bool) {
	s := p.call
	switch {
	case s == nil:
		a := weir.Ask{Limit: c.limit, Shadow: true, Cost: p.ledger.report(p.now(now))}
		if a.Cost == 0 {
			a.Cost, a.Peek = 1, true
		}
		p.call = &sending{ask: a, sent: now}
		return
	case lost:
		p.ledger.unanswered()
	case !s.there:
		s.d, s.before = c.take(now, &s.ask)
		s.there, s.at = true, now
		return
	default:
		charged := int64(0)
		if s.d.Charged {
			charged = s.ask.Cost
		}
		p.ledger.answered(s.d.Charged)
		p.learn(now, now-s.sent, s.at, s.before, charged)
	}
	p.call = nil
}

// larger is limit with room for more events at once.
func larger(t *rapid.T, limit *weir.Limit, more int64) *weir.Limit {
	spec := limit.Spec()
	if spec.Calendar != weir.NoCalendar {
		spec.Period = 0
	}
	switch spec.Algorithm {
	case weir.GCRA:
		spec.Burst += more
		spec.Initial = nil
	default:
		spec.Count += more
	}
	made, err := spec.Limit()
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestNodes: however nodes ask, tell and hear, and whatever is lost on the way,
// together they pass no more than a limit that is larger by what each may leave
// unreported.
func TestNodes(t *testing.T) {
	texts := []string{
		"10/s", "100/s burst 7", "1000/s burst 300", "5/min", "20/s debt 5", "50/s burst 20 initial 3",
		"10/s fixed-window", "100/min fixed-window", "7/day fixed-window",
		"20/s sliding-window", "20/s sliding-window 4", "30/s sliding-window relaxed", "30/s sliding-window 2 conservative",
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := weir.MustParseLimit(rapid.SampledFrom(texts).Draw(t, "limit"))
		every := rapid.SampledFrom([]time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second}).Draw(t, "sync")
		store, nodes := &counter{limit: limit}, make([]player, rapid.IntRange(1, 4).Draw(t, "nodes"))
		for i := range nodes {
			nodes[i].ledger.init(&weir.Ask{Limit: limit, Policy: weir.Policy{Sync: every}})
		}
		truth := &counter{limit: larger(t, limit, int64(len(nodes))*limit.Unsynced(every))}
		now := weir.Instant(1_700_000_000_000_000)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now += weir.Instant(rapid.SampledFrom([]int64{0, 1, 100, 5_000, 40_000, 300_000}).Draw(t, "pause"))
			p := &nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "node")]
			if what := rapid.IntRange(0, 9).Draw(t, "what"); what < 4 {
				p.step(now, store, what == 0 && p.call != nil)
				continue
			}
			cost := int64(1)
			if limit.Spec().Mode != weir.Relaxed && limit.Spec().Debt == 0 {
				cost = rapid.Int64Range(1, 3).Draw(t, "cost")
			}
			if !p.passes(now, store, weir.Ask{Limit: limit, Cost: cost, Policy: weir.Policy{Sync: every}}) {
				continue
			}
			if d, _ := truth.take(now, &weir.Ask{Limit: truth.limit, Cost: cost}); d.Outcome != weir.Allowed {
				t.Fatalf("%s, %d nodes, each with up to %d unreported: more than %s passes", limit, len(nodes), limit.Unsynced(every), truth.limit)
			}
			if n := p.ledger.Events(); n > p.ledger.most {
				t.Fatalf("%d unreported, of %d", n, p.ledger.most)
			}
		}
	})
}

// TestAlone: a node that is alone, and whose calls are answered, passes no more
// than the limit.
func TestAlone(t *testing.T) {
	for _, text := range []string{"10/s", "100/s burst 7", "10/s fixed-window", "20/s sliding-window 4"} {
		rapid.Check(t, func(t *rapid.T) {
			limit := weir.MustParseLimit(text)
			store, truth, p := &counter{limit: limit}, &counter{limit: limit}, player{}
			p.ledger.init(&weir.Ask{Limit: limit, Policy: weir.Policy{Sync: 100 * time.Millisecond}})
			now := weir.Instant(1_700_000_000_000_000)
			for range 200 {
				now += weir.Instant(rapid.SampledFrom([]int64{0, 1, 100, 5_000, 40_000}).Draw(t, "pause"))
				if p.ledger.known && rapid.Bool().Draw(t, "step") {
					p.step(now, store, false)
				}
				a := weir.Ask{Limit: limit, Cost: 1, Policy: weir.Policy{Sync: 100 * time.Millisecond}}
				if !p.passes(now, store, a) {
					continue
				}
				if d, _ := truth.take(now, &a); d.Outcome != weir.Allowed {
					t.Fatalf("%s: passes, where the limit denies", text)
				}
			}
		})
	}
}

// TestEdge: what was let pass in a fixed window is forgotten with it, but not what
// was let pass so late in it that it may have been the next one.
func TestEdge(t *testing.T) {
	limit := weir.MustParseLimit("100/s fixed-window")
	const edge, ms = weir.Instant(1_700_000_000_000_000), weir.Instant(1000)
	for _, c := range []struct {
		at   weir.Instant // before the edge
		want int64        // unreported behind it
	}{{500 * ms, 0}, {21 * ms, 0}, {20 * ms, 1}, {1, 1}} {
		var l ledger
		a, d := weir.Ask{Limit: limit, Cost: 1, Policy: weir.Policy{Sync: 100 * time.Millisecond}}, weir.Decision{}
		l.init(&a)
		l.learn(edge-600*ms, 20*ms, nil, 0)
		if v := l.decide(edge-c.at, &a, &d); v != byNode || d.Outcome != weir.Allowed {
			t.Fatalf("%v, %+v", v, d)
		}
		d.Charged = true
		l.commit(edge-c.at, &a, &d)
		l.forgive(edge - 1)
		if n := l.Events(); n != 1 {
			t.Errorf("let pass %v before the edge: %d unreported before it", c.at.Duration(), n)
		}
		l.forgive(edge)
		if n := l.Events(); n != c.want {
			t.Errorf("let pass %v before the edge: %d unreported behind it, want %d", c.at.Duration(), n, c.want)
		}
	}
}
