package sharing

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
)

// TestLed: all keys of a rule have one owner, or as many as it has leaders, and all counts of a descriptor
// have the same.
func TestLed(t *testing.T) {
	members := []string{"a", "b", "c", "d", "e"}
	for _, leaders := range []int{0, 1, 3, weir.MaxLeaders, weir.MaxLeaders + 5} {
		seats, owners := map[int]int{}, map[string]string{}
		for i := range 4000 {
			key := weir.StateKey{Rule: "shop/ip#gcra", Key: fmt.Sprint(i)}
			led := Led(key, leaders)
			seats[Seat(key.Key, leaders)]++
			mark, rest := CutMark(led.Rule)
			if rest != key.Rule || led.Key != key.Key || len(mark) > MaxMark {
				t.Fatalf("%v is led as %q, %q", key, led.Rule, led.Key)
			}
			owner := Owner(led, members)
			if before, ok := owners[mark]; ok && before != owner {
				t.Fatalf("%q has owners %s and %s", mark, before, owner)
			}
			owners[mark] = owner
			if other := Led(weir.StateKey{Rule: "shop/ip#log", Key: key.Key}, leaders); other.Rule[:len(mark)] != mark || Owner(other, members) != owner {
				t.Fatalf("another count of %q is with another leader", key.Key)
			}
		}
		want := min(max(leaders, 1), weir.MaxLeaders)
		if len(seats) != want {
			t.Errorf("%d leaders: %d seats; want %d", leaders, len(seats), want)
		}
		for seat, n := range seats {
			if n*want < 2000 || n*want > 8000 {
				t.Errorf("%d leaders: seat %d has %d of 4000 keys", leaders, seat, n)
			}
		}
	}
}

// TestCutMark: what no node writes is no mark.
func TestCutMark(t *testing.T) {
	for _, rule := range []string{"", "shop/ip", "leader:", "leader:3", "leader:\x00x", "leader:333\x00x", "\x00leader:1\x00x"} {
		if mark, rest := CutMark(rule); mark != "" || rest != rule {
			t.Errorf("%q: %q and %q", rule, mark, rest)
		}
	}
}

// TestLeads: while nodes don't reach each other, each side has a leader, with as much of the limit as it has
// members.
func TestLeads(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	rank := slices.Clone(names)
	slices.SortFunc(rank, func(x, y string) int {
		if Owner(weir.StateKey{Rule: Mark(0) + "api"}, []string{x, y}) == x {
			return -1
		}
		return 1
	})
	at := func(i int) int { return slices.Index(names, rank[i]) }
	view := func(self int, cut func(from, to int) bool) *View {
		v := Together(rank[self], named(names...))
		for i := range rank {
			stands := make([]Other, len(names))
			for j := range rank {
				if cut(i, j) {
					stands[at(j)].Stand = Out
				}
			}
			v.members[at(i)].stands = stands
		}
		return v
	}
	side := func(i int) bool { return i == 1 || i == 4 }
	few := view(4, func(i, j int) bool { return i >= 3 != (j >= 3) })
	most := view(0, func(i, j int) bool { return i == 0 != (j == 0) })
	few.quorum, most.quorum = 0, 0 // for long
	for _, c := range []struct {
		what string
		view *View
		by   Policy
		want []Lead
	}{
		{"all reach each other", view(2, func(int, int) bool { return false }), Proportional, []Lead{{rank[0], 5, 5}}},
		{"two are cut off", view(2, func(i, j int) bool { return side(i) != side(j) }), Proportional, []Lead{{rank[0], 3, 5}, {"", 2, 5}}},
		{"the same, of these", view(4, func(i, j int) bool { return side(i) != side(j) }), Proportional, []Lead{{"", 3, 5}, {rank[1], 2, 5}}},
		{"the same, closed", view(2, func(i, j int) bool { return side(i) != side(j) }), Closed, []Lead{{rank[0], 1, 1}, {"", 0, 1}}},
		{"the same, open", view(2, func(i, j int) bool { return side(i) != side(j) }), Open, []Lead{{"", 1, 1}, {rank[0], 1, 1}}},
		{"the leader is alone for long, closed", most, Closed, []Lead{{"", 0, 1}, {rank[0], 0, 1}}},
		{"the same, by reserve", most, Reserve, []Lead{{"", 4, 50}, {rank[0], 1, 50}}},
		{"the same, by share", most, Share, []Lead{{"", 4, 5}, {rank[0], 1, 5}}},
		{"the leader is with most of them for long, closed", few, Closed, []Lead{{"", 1, 1}, {rank[3], 0, 1}}},
		{"one does not reach the leader", view(2, func(i, j int) bool { return i == 0 && j == 3 || i == 3 && j == 0 }), Proportional, []Lead{{rank[0], 4, 5}, {rank[1], 1, 5}}},
	} {
		if diff := cmp.Diff(c.want, c.view.Leads("api", 0, c.by)); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
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
		return Led(weir.StateKey{Rule: "shop/user#gcra", Key: fmt.Sprintf("10.1.%d.%d", i/250, i%250)}, 1)
	}
	first := Owner(key(0), names)
	leader, err := NewNode(Settings{Name: first, Incarnation: 1, Keys: keys})
	if err != nil {
		b.Fatal(err)
	}
	leader.View(begin, Together(first, named(names...)), &Effects{})
	names = slices.DeleteFunc(names, func(n string) bool { return n == first })
	asks, now, at := make([][]byte, 0, 1000), begin, 0
	for i := range cap(asks) {
		var packet []byte
		for j := range packed {
			m := Message{Kind: Ask, State: key((i*packed + j) * 7 % keys), Incarnation: 1, ID: uint64(i + 1), Limit: "1000/s", Least: 1, Want: 3, Demand: 3}
			packet = m.Append(packet)
		}
		asks = append(asks, packet)
	}
	var fx Effects
	var packet []byte
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		for b := asks[at%len(asks)]; len(b) > 0; {
			m, rest, err := Parse(b)
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
