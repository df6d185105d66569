package lease

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/rank"
)

// TestLeads: each leader has as much of the limit as it has members, by each policy.
func TestLeads(t *testing.T) {
	type votes = map[string]int64
	for _, c := range []struct {
		what     string
		followed votes
		first    string
		most     bool
		by       protocol.Policy
		want     []Lead
	}{
		{"all reach each other", votes{"a": 5}, "a", true, protocol.Proportional, []Lead{{"a", 5, 5}}},
		{"two are cut off", votes{"a": 3, "": 2}, "a", true, protocol.Proportional, []Lead{{"a", 3, 5}, {"", 2, 5}}},
		{"the same, of these", votes{"": 3, "b": 2}, "", true, protocol.Proportional, []Lead{{"", 3, 5}, {"b", 2, 5}}},
		{"the same, closed", votes{"a": 3, "": 2}, "a", true, protocol.Closed, []Lead{{"a", 1, 1}, {"", 0, 1}}},
		{"the same, open", votes{"a": 3, "": 2}, "a", true, protocol.Open, []Lead{{"", 1, 1}, {"a", 1, 1}}},
		{"the leader is alone for long, closed", votes{"a": 1, "": 4}, "a", false, protocol.Closed, []Lead{{"", 0, 1}, {"a", 0, 1}}},
		{"the same, by reserve", votes{"a": 1, "": 4}, "a", false, protocol.Reserve, []Lead{{"", 4, 50}, {"a", 1, 50}}},
		{"the same, by share", votes{"a": 1, "": 4}, "a", false, protocol.Share, []Lead{{"", 4, 5}, {"a", 1, 5}}},
		{"the leader is with most of them for long, closed", votes{"": 3, "d": 2}, "", false, protocol.Closed, []Lead{{"", 1, 1}, {"d", 0, 1}}},
		{"one does not reach the leader", votes{"a": 4, "b": 1}, "a", true, protocol.Proportional, []Lead{{"a", 4, 5}, {"b", 1, 5}}},
	} {
		if diff := cmp.Diff(c.want, leadsOf(c.followed, c.first, 5, c.most, c.by)); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
	want := []Lead{{"a", 1, 1}}
	if diff := cmp.Diff(want, Leads(member.Together("a", named("a")), "api", 0, protocol.Proportional)); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkLeader is what the core of a leader answers: asks of 8 other nodes about 10,000 keys, 16 in a packet,
// from the bytes of the packet to those of the answers.
func BenchmarkLeader(b *testing.B) {
	const keys, others, packed = 10_000, 8, 16
	var names []string
	for i := range others + 1 {
		names = append(names, fmt.Sprintf("10.0.0.%d:8083", i))
	}
	key := func(i int) weir.StateKey {
		return rank.Led(weir.StateKey{Rule: "shop/user#gcra", Key: fmt.Sprintf("10.1.%d.%d", i/250, i%250)}, 1)
	}
	first := rank.First(key(0), names)
	leader, err := NewNode(Settings{Name: first, Incarnation: 1, Keys: keys})
	if err != nil {
		b.Fatal(err)
	}
	leader.View(begin, member.Together(first, named(names...)), &protocol.Effects{})
	names = slices.DeleteFunc(names, func(n string) bool { return n == first })
	asks, now, at := make([][]byte, 0, 1000), begin, 0
	for i := range cap(asks) {
		var packet []byte
		for j := range packed {
			m := protocol.Message{Kind: protocol.Ask, State: key((i*packed + j) * 7 % keys), Incarnation: 1, ID: uint64(i + 1), Limit: "1000/s", Least: 1, Want: 3, Demand: 3}
			packet = m.Append(packet)
		}
		asks = append(asks, packet)
	}
	var fx protocol.Effects
	var packet []byte
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		for b := asks[at%len(asks)]; len(b) > 0; {
			m, rest, err := protocol.Parse(b)
			if err != nil {
				panic(err)
			}
			m.ID = uint64(at + 1)
			leader.Receive(now, names[at%others], &m, &fx)
			b = rest
		}
		at++
		packet = packet[:0]
		for i := range fx.Messages {
			packet = fx.Messages[i].Append(packet)
		}
		if len(fx.Messages) != packed {
			b.Fatalf("%d answers", len(fx.Messages))
		}
		fx.Messages = fx.Messages[:0]
	}
	b.ReportMetric(float64(b.N*packed)/b.Elapsed().Seconds(), "asks/s")
}
