package lease

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"pgregory.net/rapid"
)

// trio is three nodes that hear at once what another says.
type trio map[string]*Node

func newTrio(t *rapid.T) trio {
	members, all := named("a", "b", "c"), trio{}
	for _, m := range members {
		n, err := NewNode(Settings{Name: m.Name, Incarnation: 1, Keys: 3})
		if err != nil {
			t.Fatal(err)
		}
		n.View(begin, member.Together(m.Name, members), &protocol.Effects{})
		all[m.Name] = n
	}
	return all
}

// deliver delivers what a node says, and what that makes others say, and adds up the answers.
func (all trio) deliver(now weir.Instant, from string, fx *protocol.Effects, answers []protocol.Answer) []protocol.Answer {
	answers = append(answers, fx.Answers...)
	for i := range fx.Messages {
		var next protocol.Effects
		all[fx.Messages[i].Peer].Receive(now, from, &fx.Messages[i].Message, &next)
		answers = all.deliver(now, fx.Messages[i].Peer, &next, answers)
	}
	return answers
}

// until lets the nodes do what is due until then.
func (all trio) until(then weir.Instant) {
	for {
		due, who := then+1, ""
		for name, n := range all {
			if at, ok := n.Next(); ok && (at < due || at == due && name < who) {
				due, who = at, name
			}
		}
		if who == "" {
			return
		}
		var fx protocol.Effects
		all[who].Tick(due, &fx)
		all.deliver(due, who, &fx, nil)
	}
}

func (all trio) ask(t *rapid.T, now weir.Instant, at string, r *protocol.Request) weir.Decision {
	all.until(now)
	var fx protocol.Effects
	all[at].Ask(now, r, &fx)
	answers := all.deliver(now, at, &fx, nil)
	if len(answers) != 1 {
		t.Fatalf("%d answers", len(answers))
	}
	return answers[0].Decision
}

var slow = []*weir.Limit{
	weir.MustParseLimit("20/min"), weir.MustParseLimit("7/min burst 3"), weir.MustParseLimit("50/day fixed-window"),
	weir.MustParseLimit("30/min sliding-log"), weir.MustParseLimit("12/min sliding-window 4"),
}

// unreported is how much later than it passed an owner may charge what a node let pass.
const unreported = member.Life + member.Margin

// late is how much later than in memory a limit may be to pass: what an owner charges
// later may fall into the next sub-window, and leaves with that one.
func late(limit *weir.Limit) time.Duration {
	if s := limit.Spec(); s.Algorithm == weir.SlidingWindow {
		return unreported + s.Period/time.Duration(s.SubWindows)
	}
	return unreported
}

// TestAdvice holds a node to tell who is denied when the same passes as long as nobody else
// asks: then, and not a microsecond earlier, and that is when a limit in memory would let it
// pass. What a node knows for itself of a denial stays short.
func TestAdvice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom(slow).Draw(t, "limit")
		at, cost := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "at"), rapid.Int64Range(1, 3).Draw(t, "cost")
		all, state, now, denied, passes := newTrio(t), weir.State(nil), begin, false, begin
		r := &protocol.Request{State: weir.StateKey{Rule: "api", Key: fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))}, Limit: limit, Cost: cost}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			var want weir.Decision
			next := limit.Take(slices.Clone(state), now, cost, &want)
			got := all.ask(t, now, at, r)
			passed := got.Outcome == weir.Allowed
			if denied && passed != (now >= passes) || passed && want.Outcome != weir.Allowed {
				t.Fatalf("%s at %d, promised at %d: %+v; in memory %+v", limit, now, passes, got, want)
			}
			if got.Outcome == want.Outcome {
				near(t, limit, "retry", got.RetryAfter, want.RetryAfter)
				near(t, limit, "next", got.NextAfter, want.NextAfter)
				near(t, limit, "reset", got.ResetAfter, want.ResetAfter)
			}
			denied = !passed
			if passed {
				state = next
				now += weir.Instant(rapid.Int64Range(0, 3_000_000).Draw(t, "since"))
				continue
			}
			passes = now + bounds.Micros(got.RetryAfter)
			now = max(now, passes-weir.Instant(rapid.SampledFrom([]int64{0, 1, 1_000_000}).Draw(t, "early")))
		}
	})
}

func near(t *rapid.T, limit *weir.Limit, what string, got, want time.Duration) {
	if got < want || got > want+late(limit) {
		t.Fatalf("%s, %s: %v, in memory %v", limit, what, got, want)
	}
}

// TestLeasesBeforeAnotherLimit: what was let pass by leases that are over when another
// limit begins is in the state that it begins with.
func TestLeasesBeforeAnotherLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := []*weir.Limit{weir.MustParseLimit("15/10s burst 14"), weir.MustParseLimit("20/10s burst 14")}
		all, kept, now := newTrio(t), weir.Kept{}, begin
		r := &protocol.Request{State: weir.StateKey{Rule: "api", Key: fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))}, Cost: 1}
		for _, r.Limit = range []*weir.Limit{limits[0], limits[1]} {
			for range rapid.IntRange(1, 7).Draw(t, "asks") {
				var fx protocol.Effects
				all["a"].Ask(now, r, &fx) // no node is told that time goes on
				got := all.deliver(now, "a", &fx, nil)
				a := weir.Ask{Limit: r.Limit, Cost: 1}
				kept.Become(r.Limit, now, 0)
				want := kept.Decide(now, &a)
				want.Charged = want.Outcome == weir.Allowed
				kept.Commit(now, &a, &want)
				if len(got) != 1 || got[0].Decision.Remaining > want.Remaining {
					t.Fatalf("%+v, in memory %+v", got, want)
				}
			}
			now += weir.Instant(rapid.Int64Range(0, 3_000_000).Draw(t, "since"))
		}
	})
}

// TestAdviceOfCosts holds a node to tell nobody to come too early, whatever others cost.
func TestAdviceOfCosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom(slow).Draw(t, "limit")
		at := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "at")
		all, state, now := newTrio(t), weir.State(nil), begin
		r := &protocol.Request{State: weir.StateKey{Rule: "api", Key: "k"}, Limit: limit}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			r.Cost = rapid.Int64Range(1, 3).Draw(t, "cost")
			var want weir.Decision
			next := limit.Take(slices.Clone(state), now, r.Cost, &want)
			got := all.ask(t, now, at, r)
			switch {
			case got.Outcome == weir.Allowed && want.Outcome == weir.Allowed:
				state = next
			case got.Outcome == weir.Allowed, got.RetryAfter < want.RetryAfter:
				t.Fatalf("%s, %d at %d: %+v, in memory %+v", limit, r.Cost, now, got, want)
			}
			now += weir.Instant(rapid.Int64Range(0, 3_000_000).Draw(t, "since"))
		}
	})
}

// TestCheap holds a node to ask for what is cheap where something dear was denied.
func TestCheap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, all := weir.MustParseLimit("20/min"), newTrio(t)
		r := &protocol.Request{State: weir.StateKey{Rule: "api", Key: "k"}, Limit: limit, Cost: 18}
		for _, want := range []weir.Outcome{weir.Allowed, weir.Denied, weir.Allowed} {
			if d := all.ask(t, begin, "a", r); d.Outcome != want {
				t.Fatalf("%d: %+v, want %v", r.Cost, d, want)
			}
			r.Cost = map[int64]int64{18: 3, 3: 2}[r.Cost]
		}
	})
}

// TestTogether holds requests that come while the owner is asked for one before them to pass,
// where there is enough for all.
func TestTogether(t *testing.T) {
	p := newPair(t, "50/day fixed-window")
	p.owner.peers.Found()
	p.until(10 * second)
	if answers := p.exchange(p.ask(6)); len(answers) != 6 || slices.ContainsFunc(answers, func(a protocol.Answer) bool { return a.Decision.Outcome != weir.Allowed }) {
		t.Errorf("of six that come together: %+v", answers)
	}
}
