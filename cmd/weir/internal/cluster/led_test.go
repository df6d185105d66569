package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/lease"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/rank"
	"github.com/weir-limit/weir/internal/cluster/table"
)

// TestLeader: all counts of a rule with leaders are with these, any node settles its receipts and resets its
// counts, and all nodes together pass the limit.
func TestLeader(t *testing.T) {
	for _, leaders := range []int{0, 1, 2} {
		for _, rule := range []string{"r#gcra", strings.Repeat("r", maxName) + "#gcra"} {
			t.Run(fmt.Sprintf("%d leaders, %d bytes", leaders, len(rule)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { leads(t, leaders, rule) })
			})
		}
	}
}

func leads(t *testing.T, leaders int, rule string) {
	n := newNetwork(t, 3)
	policy := weir.Policy{Sharing: weir.SharingLeader, Leaders: leaders}
	ask := weir.Ask{State: weir.StateKey{Rule: rule}, Limit: weir.MustParseLimit("9/day"), Cost: 1, Policy: policy}
	take := func(node int, ask weir.Ask) weir.Decision {
		t.Helper()
		out := make([]weir.Decision, 1)
		if err := n.nodes[node].Take(t.Context(), []weir.Ask{ask}, out); err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	for i := range 40 {
		ask.State.Key = fmt.Sprint("k", i)
		passed := 0
		for j := range 60 {
			if take(j%3, ask).Outcome == weir.Allowed {
				passed++
			}
			time.Sleep(20 * time.Millisecond)
		}
		if passed != 9 {
			t.Fatalf("%q: %d of 9 passed", ask.State.Key, passed)
		}
	}
	led := map[string]bool{}
	for i, s := range n.nodes {
		if owned := s.Count().Owned; owned > 0 {
			led[n.names[i]] = true
		}
	}
	want := map[string]bool{}
	for _, seat := range n.nodes[2].view(ask.State, &policy) {
		want[seat[0].Leader] = true
		if len(seat) != 1 || seat[0].Part != seat[0].Of {
			t.Errorf("a seat has the leaders %v", seat)
		}
	}
	if fmt.Sprint(led) != fmt.Sprint(want) {
		t.Errorf("%v own keys; the leaders are %v", led, want)
	}

	// Nodes know of resets which rules have leaders.
	for _, s := range n.nodes {
		s.Lead(map[string]int{ask.State.Placement(): leaders})
	}
	if err := n.nodes[1].Reset(t.Context(), []weir.StateKey{ask.State}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	ask.Receipt = 7
	first := take(0, ask)
	if first.Outcome != weir.Allowed || first.Receipt == nil || first.Remaining != 8 {
		t.Fatalf("after a reset: %+v", first)
	}
	back := []weir.Settlement{{Receipt: first.Receipt}}
	again := slices.Clone(back)
	if err := n.nodes[2].Settle(t.Context(), back); err != nil {
		t.Errorf("another node settles: %v", err)
	}
	if err := n.nodes[1].Settle(t.Context(), again); !errors.Is(err, weir.ErrSettled) {
		t.Errorf("settled twice: %v", err)
	}
	ask.Receipt, ask.Peek = 0, true
	if d := take(1, ask); d.Remaining != 9 {
		t.Errorf("after it was given back %d remain", d.Remaining)
	}
}

// view is Leads of a node that was told who the members are by its test.
func (s *Store) view(state weir.StateKey, p *weir.Policy) [][]lease.Lead {
	members := []member.Member{{Name: "n0:1", Incarnation: 1}, {Name: "n1:1", Incarnation: 2}, {Name: "n2:1", Incarnation: 3}}
	return leadsOf(member.Together(s.self.Name, members), state, p)
}

// TestLedAllocates holds a decision by a lease of a leader to allocate no more than one of an owner: nothing.
func TestLedAllocates(t *testing.T) {
	n := newNetwork(t, 1)
	asks := []weir.Ask{{
		State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit("1000000000/s"), Cost: 1,
		Policy: weir.Policy{Sharing: weir.SharingLeader, Leaders: 4},
	}}
	out := make([]weir.Decision, 1)
	ask := func() {
		if err := n.nodes[0].Take(t.Context(), asks, out); err != nil || out[0].Outcome != weir.Allowed {
			t.Fatal(err, out[0])
		}
	}
	for range 1000 {
		ask()
	}
	if allocs := testing.AllocsPerRun(1000, ask); allocs >= 1 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestLedNames: with more rules than names are remembered, names take no copy of all others; new rules make room.
func TestLedNames(t *testing.T) {
	var l led
	ask := weir.Ask{Policy: weir.Policy{Sharing: weir.SharingLeader}}
	known := func(rule int) string {
		ask.State.Rule = fmt.Sprint("r", rule)
		return l.known(&ask).Rule
	}
	full := map[seated]string{}
	for i := range table.MaxRules - 1 {
		full[seated{fmt.Sprint("r", i), 0}] = rank.Mark(0) + fmt.Sprint("r", i)
	}
	l.names.Store(&full)
	known(table.MaxRules - 1)
	before := l.names.Load()
	for i := range table.MaxRules + 2 {
		if name := known(i); name != rank.Mark(0)+fmt.Sprint("r", i) {
			t.Fatalf("%q", name)
		}
	}
	if len(*before) != table.MaxRules || l.names.Load() != before {
		t.Errorf("%d names, and %d after others came", len(*before), len(*l.names.Load()))
	}
	s := Store{led: led{}}
	s.led.names.Store(before)
	s.Lead(nil)
	ask.State.Rule = "new"
	if s.led.known(&ask); len(*s.led.names.Load()) != 1 {
		t.Errorf("%d names after new rules", len(*s.led.names.Load()))
	}
}
