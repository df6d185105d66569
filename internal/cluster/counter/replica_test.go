package counter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"pgregory.net/rapid"
)

var apiKey = weir.StateKey{Rule: "api", Key: "k"}

func newReplica(t rapid.TB, now weir.Instant, name string, incarnation uint64, s weir.Sharing) *Replica {
	t.Helper()
	p, err := New(now, Settings{Name: name, Incarnation: incarnation, Sharing: s, Keys: 100})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// passes is how many of so many single events pass at now.
func (p *Replica) passes(now weir.Instant, limit string, events int) (n int) {
	a := []weir.Ask{{State: apiKey, Limit: weir.MustParseLimit(limit), Cost: 1}}
	for range events {
		var out [1]weir.Decision
		if p.Take(now, a, out[:]); out[0].Outcome == weir.Allowed {
			n++
		}
	}
	return n
}

// TestDividedStarts holds what passes of a divided limit, while nodes leave in order and start again by turns, to what
// weir lint prints: a part more for each start, and for each leave, unless the rule says how many nodes there are.
func TestDividedStarts(t *testing.T) {
	const nodes, count, rounds = 3, 120, 2
	for _, fixed := range []int{0, nodes} {
		all := group(t, weir.SharingDivided, nodes)
		var members []member.Presence
		for _, p := range all {
			members = append(members, member.Presence{Name: p.settings.Name, Open: true})
		}
		now, passed, changes := replicaStart, 0, 0
		use := func(away int) {
			a := []weir.Ask{{State: apiKey, Limit: weir.MustParseLimit("120/day"), Cost: 1, Policy: weir.Policy{Nodes: fixed}}}
			for i, p := range all {
				for range count {
					var out [1]weir.Decision
					if p.Take(now, a, out[:]); i != away && out[0].Outcome == weir.Allowed {
						passed++
					}
				}
			}
		}
		use(-1)
		for i := range nodes * rounds {
			i %= nodes
			for n, p := range all {
				if n != i {
					p.View(now, slices.DeleteFunc(slices.Clone(members), func(m member.Presence) bool { return m.Name == members[i].Name }))
				}
			}
			use(i)
			restart(t, now, all, i)
			for _, p := range all {
				p.View(now, members)
			}
			use(-1)
			changes++
			if fixed == 0 {
				changes++
			}
		}
		t.Logf("nodes: %d: %d passed of %d", fixed, passed, count)
		if most := count + changes*count/nodes; passed > most || passed <= 2*count {
			t.Errorf("nodes: %d: %d passed, %d printed", fixed, passed, most)
		}
	}
}

const replicaStart = weir.Instant(1_800_000_000_000_000)

// group is replicas that hear each other from the start, at replicaStart.
func group(t rapid.TB, s weir.Sharing, n int) []*Replica {
	var all []*Replica
	var members []member.Presence
	for i := range n {
		members = append(members, member.Presence{Name: fmt.Sprint("n", i), Open: true})
		all = append(all, newReplica(t, replicaStart, members[i].Name, 1, s))
	}
	for _, p := range all {
		p.View(replicaStart, members)
	}
	settleAll(t, replicaStart, all)
	return all
}

// settleAll lets replicas tell each other all that they have to say, without loss.
func settleAll(t rapid.TB, now weir.Instant, all []*Replica) {
	t.Helper()
	var posts []Post
	for i, p := range all {
		p.Tick(now, &posts)
		deliver(t, now, all, i, &posts)
	}
}

// restart kills a replica; it comes back, and asks the others what they know.
func restart(t rapid.TB, now weir.Instant, all []*Replica, i int) {
	var members []member.Presence
	for _, p := range all {
		members = append(members, member.Presence{Name: p.settings.Name, Open: true})
	}
	all[i] = newReplica(t, now, all[i].settings.Name, all[i].settings.Incarnation+1, all[i].settings.Sharing)
	all[i].View(now, members)
	settleAll(t, now, all)
}

func deliver(t rapid.TB, now weir.Instant, all []*Replica, from int, posts *[]Post) {
	t.Helper()
	for len(*posts) > 0 {
		post := (*posts)[0]
		*posts = (*posts)[1:]
		for _, peer := range post.Peers {
			for to, p := range all {
				if p.settings.Name != peer {
					continue
				}
				var answers []Post
				if err := p.Receive(now, all[from].settings.Name, post.Message, &answers); err != nil {
					t.Fatal(err)
				}
				deliver(t, now, all, to, &answers)
			}
		}
	}
}

// exchange is a way to tell others what was let pass.
type exchange struct {
	name  string
	sound bool
	// hears returns what a replica holds to be in use after it heard messages, each of
	// which is what a node says after one more event.
	hears func(l *weir.Limit, now weir.Instant, messages []said) int64
}

// said is what a node says: how many events it has let pass, and its state.
type said struct {
	told
	state weir.State
}

// exchanges are the one of this package, and mutants: those that the tests must catch.
func exchanges() []exchange {
	return []exchange{
		{"cumulative counts", true, func(l *weir.Limit, now weir.Instant, messages []said) int64 {
			var lines tally
			var s weir.State
			for i := range messages {
				m := &messages[i]
				s = l.Charge(s, now, lines.line(int32(m.node[0]), m.incarnation).merge(&m.told))
			}
			return l.Used(s, now)
		}},
		{"deltas without numbers", false, func(l *weir.Limit, now weir.Instant, messages []said) int64 {
			var s weir.State
			for range messages {
				s = l.Charge(s, now, 1)
			}
			return l.Used(s, now)
		}},
		{"the latest of instants", false, func(l *weir.Limit, now weir.Instant, messages []said) int64 {
			var s weir.State
			for _, m := range messages {
				if l.Used(m.state, now) > l.Used(s, now) {
					s = m.state
				}
			}
			return l.Used(s, now)
		}},
	}
}

// TestExchanges tells what nodes let pass in any order, some of it twice, some lost
// but for the last: what is in use must be the sum of all, and is not for mutants.
func TestExchanges(t *testing.T) {
	const now = replicaStart
	l := weir.MustParseLimit("1000/h")
	for _, way := range exchanges() {
		caught := 0
		for seed := range uint64(200) {
			r := rand.New(rand.NewPCG(seed, 1))
			var messages []said
			all := int64(0)
			for node := range 1 + r.IntN(4) {
				state, last := weir.State(nil), 1+r.Int64N(20)
				var d weir.Decision
				for n := range last {
					state = append(weir.State(nil), l.Take(state, now, 1, &d)...)
					m := said{told{node: string(rune('a' + node)), incarnation: 1, slot: 1, count: n + 1}, state}
					for range r.IntN(3) {
						messages = append(messages, m)
					}
					if n == last-1 {
						messages = append(messages, m)
					}
				}
				all += last
			}
			r.Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
			if way.hears(l, now, messages) != all {
				caught++
			}
		}
		t.Logf("%s: wrong for %d of 200 seeds", way.name, caught)
		if way.sound == (caught > 0) {
			t.Errorf("%s: wrong for %d of 200 seeds", way.name, caught)
		}
	}
}

// TestMerge holds counts that are merged to be the same in any order, however often
// they come, and however they were merged on the way.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) told {
			return told{
				node: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "node"), incarnation: rapid.Uint64Range(1, 3).Draw(t, "incarnation"),
				slot: rapid.Uint64Range(1, 3).Draw(t, "slot"), count: rapid.Int64Range(1, 9).Draw(t, "count"),
			}
		}), 1, 20).Draw(t, "messages")
		sums := func(order []told) map[source][2]int64 {
			of := map[source][2]int64{}
			var r tally
			for i := range order {
				l := r.line(int32(order[i].node[0]), order[i].incarnation)
				l.merge(&order[i])
				of[source{order[i].node, order[i].incarnation}] = [2]int64{int64(l.slot), l.count}
			}
			return of
		}
		want := sums(messages)
		again := append(append([]told(nil), messages...), rapid.Permutation(messages).Draw(t, "order")...)
		by := rapid.IntRange(0, len(again)-1).Draw(t, "by") // two halves, each merged, then the merged
		var merged []told
		for _, half := range [][]told{again[by:], again[:by]} {
			for of, n := range sums(half) {
				merged = append(merged, told{node: of.node, incarnation: of.incarnation, slot: uint64(n[0]), count: n[1]})
			}
		}
		for _, other := range [][]told{again, merged} {
			if got := sums(other); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%v in another order are %v; want %v", messages, got, want)
			}
		}
	})
}

// TestReplicasAgree holds a group of replicas, once all is told, to have in use what
// one limiter would have, and to lose nothing that they heard of (I4) when nodes start
// again or the view changes.
func TestReplicasAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := weir.MustParseLimit("1000/h")
		s := rapid.SampledFrom([]weir.Sharing{weir.SharingMesh, weir.SharingGossip, weir.SharingHub}).Draw(t, "sharing")
		n := rapid.IntRange(2, 6).Draw(t, "nodes")
		all := group(t, s, n)
		now, passed, ask := replicaStart, int64(0), weir.Ask{State: apiKey, Limit: limit}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			since := weir.Instant(rapid.Int64Range(0, 200_000).Draw(t, "since"))
			for ; s == weir.SharingHub && since > 10_000; since -= 10_000 { // a hub tells in time what it was told
				now += 10_000
				settleAll(t, now, all)
			}
			now += since
			i := rapid.IntRange(0, n-1).Draw(t, "node")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				for range 20 { // all is told
					now += bounds.Micros(Sync)
					settleAll(t, now, all)
				}
				restart(t, now, all, i)
			case 1:
				settleAll(t, now, all)
			default:
				ask.Cost = rapid.Int64Range(1, 20).Draw(t, "cost")
				var out [1]weir.Decision
				all[i].Take(now, []weir.Ask{ask}, out[:])
				if out[0].Outcome == weir.Allowed {
					passed += ask.Cost
				}
			}
		}
		for range 20 {
			now += bounds.Micros(Sync)
			settleAll(t, now, all)
		}
		drained := bounds.Part(int64(now-replicaStart), 1000, time.Hour.Microseconds()) + 1
		for _, p := range all {
			var out [1]weir.Decision
			p.Take(now, []weir.Ask{{State: apiKey, Limit: limit, Cost: 1, Peek: true}}, out[:])
			if used := 1000 - out[0].Remaining; used < passed-drained || used > passed {
				t.Fatalf("%s has %d in use of %d that have passed, %d of them at least %v ago", p.settings.Name, used, passed, drained, now-replicaStart)
			}
		}
	})
}

// TestJoin holds a replica that starts to its part until it has heard what others know,
// and then to what they have left.
func TestJoin(t *testing.T) {
	const now, limit = replicaStart, "100/h"
	all := group(t, weir.SharingMesh, 4)
	if n := all[0].passes(now, limit, 90); n != 90 {
		t.Fatalf("%d of 90 pass", n)
	}
	settleAll(t, now+bounds.Micros(Sync), all)
	for i := range all {
		p := newReplica(t, now, "n9", 1, weir.SharingMesh)
		members := []member.Presence{{Name: "n9"}, {Name: "n0"}, {Name: "n1"}, {Name: "n2"}, {Name: "n3"}}
		for _, q := range all {
			q.View(now+bounds.Micros(Sync), members)
		}
		p.View(now+bounds.Micros(Sync), members)
		if i > 0 {
			settleAll(t, now+bounds.Micros(Sync), append(all[:len(all):len(all)], p))
		}
		want := []int{20, 10, 10, 10}[i]
		if n := p.passes(now+2*bounds.Micros(Sync), limit, 100); n != want {
			t.Errorf("%d pass at a node that has heard from others %d times; want %d", n, i, want)
		}
	}
	if n := all[1].passes(now+2*bounds.Micros(Sync), limit, 100); n != 10 {
		t.Errorf("%d pass beside 90 of 100 of another node", n)
	}
	restart(t, now+3*bounds.Micros(Sync), all, 0)
	if n := all[0].passes(now+3*bounds.Micros(Sync), limit, 100); n != 0 {
		t.Errorf("%d pass at a node that has forgotten what it has let pass; others know of all", n)
	}
}

// TestDivided holds nodes that tell each other nothing to their parts.
func TestDivided(t *testing.T) {
	const now = replicaStart
	for _, row := range []struct {
		limit              string
		nodes, first, then int // pass at once, and in the next ten periods
	}{
		{"100/s", 4, 25, 250},
		{"100/s", 3, 33, 333},
		{"10/s burst 1", 4, 1, 25},
		{"100/s fixed-window", 3, 33, 300},
		{"7/s sliding-window 4", 2, 3, 28},
	} {
		p := group(t, weir.SharingDivided, row.nodes)[0]
		if n := p.passes(now, row.limit, 200); n != row.first {
			t.Errorf("%s on %d nodes: %d pass at one; want %d", row.limit, row.nodes, n, row.first)
		}
		n := 0
		for at := now + 10_000; at <= now+10_000_000; at += 10_000 {
			n += p.passes(at, row.limit, 3)
		}
		if n < row.then-1 || n > row.then+1 {
			t.Errorf("%s on %d nodes: then %d pass at one in 10 s; want %d", row.limit, row.nodes, n, row.then)
		}
	}
	p := group(t, weir.SharingDivided, 2)[0]
	asks := []weir.Ask{{State: apiKey, Limit: weir.MustParseLimit("100/s"), Cost: 100, AtLeast: 1, Policy: weir.Policy{Nodes: 5}}}
	var out [1]weir.Decision
	if p.Take(now, asks, out[:]); out[0].Cost != 20 {
		t.Errorf("nodes: 5 passes %+v of 100", out[0])
	}
}

// TestReplicaVersions holds a replica that is asked by turns with two versions of a limit to
// the larger one.
func TestReplicaVersions(t *testing.T) {
	p := group(t, weir.SharingMesh, 1)[0]
	passed := 0
	for i := range weir.Instant(100) {
		now := replicaStart + i*1000
		passed += p.passes(now, "100/h", 10)
		passed += p.passes(now, "10/h", 1)
	}
	if passed > 100 {
		t.Errorf("%d pass of 100/h and 10/h", passed)
	}
	if n := p.passes(replicaStart+bounds.Micros(2*time.Minute), "10/h", 1); n != 0 {
		t.Errorf("%d pass of 10/h, of which more is used", n)
	}
}

// TestReplicaTake holds a replica to decide several asks together as any store does,
// also where each event counts for more.
func TestReplicaTake(t *testing.T) {
	const now = replicaStart
	for _, nodes := range []int{1, 2} {
		p, part := group(t, weir.SharingDivided, nodes)[0], int64(nodes)
		ask := func(rule, limit string, cost int64) weir.Ask {
			return weir.Ask{State: weir.StateKey{Rule: rule}, Limit: weir.MustParseLimit(limit), Cost: cost}
		}
		left := func(rule, limit string) int64 {
			a, out := ask(rule, limit, 1), make([]weir.Decision, 1)
			a.Peek = true
			p.Take(now, []weir.Ask{a}, out)
			return out[0].Remaining
		}
		out := make([]weir.Decision, 2)
		small, large := ask("small", "10/h", 4), ask("large", "100/h", 4)
		if p.Take(now, []weir.Ask{small, large}, out); !out[0].Charged || !out[1].Charged || left("large", "100/h") != 100/part-4 {
			t.Errorf("%d nodes: %+v", nodes, out)
		}
		small.Cost = 8 / part
		if p.Take(now, []weir.Ask{small, large}, out); out[0].Outcome == weir.Allowed || out[1].Charged || left("large", "100/h") != 100/part-4 {
			t.Errorf("%d nodes: one of two denies: %+v", nodes, out)
		}
		if p.Take(now, []weir.Ask{ask("small", "10/h", 11), large}, out); out[0].Outcome != weir.Impossible {
			t.Errorf("%d nodes: more than ever passes: %+v", nodes, out)
		}
		some := ask("large", "100/h", 100)
		some.AtLeast, some.Receipt = 1, 7
		if p.Take(now, []weir.Ask{some}, out[:1]); out[0].Cost != 100/part-4 || left("large", "100/h") != 0 {
			t.Fatalf("%d nodes: at least 1 of 100 are granted: %+v", nodes, out[0])
		}
		st := weir.Settlement{Receipt: out[0].Receipt, Used: out[0].Cost - 10}
		if err := p.Settle(now, &st); err != nil || left("large", "100/h") != 10 {
			t.Errorf("%d nodes: 10 given back leave %d: %v", nodes, left("large", "100/h"), err)
		}
		p.Reset(now, weir.StateKey{Rule: "large"})
		if left("large", "100/h") != 100/part {
			t.Errorf("%d nodes: %d left after a reset", nodes, left("large", "100/h"))
		}
		before := ask("anew", "100/h", 5)
		before.Receipt = 8
		p.Take(now, []weir.Ask{before}, out[:1])
		old := weir.Settlement{Receipt: out[0].Receipt}
		p.Reset(now, weir.StateKey{Rule: "anew"})
		after := ask("anew", "100/h", 5)
		after.Receipt = 9
		p.Take(now, []weir.Ask{after}, out[:1])
		if err := p.Settle(now, &old); err != nil || old.Charged != 5 || left("anew", "100/h") != 100/part-5 {
			t.Errorf("%d nodes: a receipt of before a reset leaves %d, %+v, %v", nodes, left("anew", "100/h"), old, err)
		}
		anew := weir.Settlement{Receipt: out[0].Receipt}
		if err := p.Settle(now, &anew); err != nil || anew.Charged != 0 || left("anew", "100/h") != 100/part {
			t.Errorf("%d nodes: a receipt of after a reset leaves %d, %+v, %v", nodes, left("anew", "100/h"), anew, err)
		}
	}
}

// TestHubTellsOn: what a hub hears late, by asking for it or by a sweep, it tells all others. Nobody else does: a
// node tells them its events one after the other.
func TestHubTellsOn(t *testing.T) {
	for _, sweep := range []bool{false, true} {
		all := group(t, weir.SharingHub, 4)
		hub, now := slices.IndexFunc(all, func(p *Replica) bool { return p.hubOf(apiKey) == itself }), replicaStart+bounds.Micros(Sweep)
		node := (hub + 1) % len(all)
		if passed := all[node].passes(now, "100/h", 5); passed != 5 {
			t.Fatalf("%d of 5 pass", passed)
		}
		for range 3 {
			now += bounds.Micros(Sync + Gather)
			all[node].Tick(now, new([]Post)) // and all is lost
		}
		now += bounds.Micros(2 * Sweep)
		var posts []Post
		if sweep {
			pack, _ := all[node].some(now, all[node].ids[all[hub].settings.Name], 0)
			posts = []Post{{[]string{all[hub].settings.Name}, pack.message(weir.SharingHub, 0, 0)}}
			deliver(t, now, all, node, &posts)
		} else {
			q := &all[hub].peers[all[hub].ids[all[node].settings.Name]]
			q.pull = pull{from: pullStart}
			all[hub].ask(now, q, &posts)
			deliver(t, now, all, hub, &posts)
		}
		settleAll(t, now+bounds.Micros(Sync+Gather), all)
		for _, p := range all {
			if _, count := p.Known(apiKey, all[node].settings.Name, 1); count != 5 {
				t.Errorf("by a sweep %v: %s knows of %d of 5 events", sweep, p.settings.Name, count)
			}
		}
	}
}
