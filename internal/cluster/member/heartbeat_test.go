package member

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/rank"
	"pgregory.net/rapid"
)

const begin = weir.Instant(1_000_000)

func named(names ...string) []Member {
	var members []Member
	for _, name := range names {
		members = append(members, Member{Name: name, Incarnation: 1})
	}
	return members
}

// TestTimes: heartbeats are less often, and a silence is longer, where there are more members than docs/cluster-protocol.md
// says.
func TestTimes(t *testing.T) {
	if n := int64(33); pulse(n) != pulse(1) || pulse(n+1) == pulse(1) {
		t.Errorf("heartbeats are as often among 34 members as among %d", n)
	}
	if n := int64(50); silence(n) != silence(1) || silence(n+1) == silence(1) {
		t.Errorf("a silence is as long among 51 members as among %d", n)
	}
}

// TestFlap: one that was silent twice within a moment is silent after a Flap only, and its vote is counted on no longer
// for that.
func TestFlap(t *testing.T) {
	now, a, b := begin, NewPeers(begin, "a", 1), NewPeers(begin, "b", 1)
	a.Found()
	b.Found()
	silent := weir.Instant(0)
	pass := func(d time.Duration, cut bool) {
		for end := now + bounds.Micros(d); now < end; now += bounds.Micros(Pulse) / 5 {
			for _, from := range []*Peers{a, b} {
				var beats []HeartbeatTo
				from.Agree(now, named("a", "b"), &beats)
				from.Tick(now, false, false, &beats)
				for _, h := range beats {
					if to := map[string]*Peers{"a": a, "b": b}[h.Peer]; !cut {
						to.Receive(now, from.name, &h.Heartbeat)
					}
				}
			}
			v := a.View()
			if is := v.Presence(); len(is) > 1 && is[1].Silent && silent == 0 {
				silent = now
			}
			key := weir.StateKey{Rule: "api", Key: "k"}
			if p := v.Place(now, key, nil); cut && now > end-bounds.Micros(d)+bounds.Micros(Silence) && v.Votes(now, &p) > 1 {
				t.Fatalf("a counts on the vote of b %v after it fell silent", (now-end).Duration()+d)
			}
		}
	}
	pass(3*time.Second, false)
	for range 2 {
		pass(400*time.Millisecond, true)
		if silent == 0 {
			t.Fatal("b is not taken for silent")
		}
		pass(time.Second, false)
		silent = 0
	}
	if pass(Flap-2*Pulse, true); silent > 0 {
		t.Errorf("b is taken for silent, which was silent twice before")
	}
	if pass(3*Pulse, true); silent == 0 {
		t.Error("b is not taken for silent after a Flap")
	}
	pass(2*Flapping, false)
	silent = 0
	if pass(Silence+2*Pulse, true); silent == 0 {
		t.Error("b is borne with, which has not been silent for long")
	}
}

func drawHeartbeat(t *rapid.T) Heartbeat {
	b := Heartbeat{
		Incarnation: rapid.Uint64().Draw(t, "incarnation"), Members: rapid.Uint64().Draw(t, "members"), Voters: rapid.Uint64().Draw(t, "voters"),
		Active: rapid.Bool().Draw(t, "active"), Leaving: rapid.Bool().Draw(t, "leaving"), Run: rapid.Uint64().Draw(t, "run"), Clean: rapid.Bool().Draw(t, "clean"), Blank: rapid.Bool().Draw(t, "blank"), Backs: rapid.Bool().Draw(t, "backs"), Saved: rapid.Bool().Draw(t, "saved"),
		Age:   time.Duration(rapid.Int64Range(0, 1<<61).Draw(t, "age")),
		Stamp: weir.Instant(rapid.Int64Range(0, 1<<61).Draw(t, "stamp")), Echo: weir.Instant(rapid.Int64Range(0, 1<<61).Draw(t, "echo")),
		Vote: weir.Instant(rapid.Int64Range(0, 1<<61).Draw(t, "vote")), Life: time.Duration(rapid.Int64Range(0, 1<<61).Draw(t, "life")),
	}
	b.Lasting = rapid.Uint64().Draw(t, "lasting")
	for range rapid.IntRange(0, 3).Draw(t, "others") {
		b.Others = append(b.Others, Other{rapid.Uint64().Draw(t, "member"), Stand(rapid.IntRange(1, 3).Draw(t, "stand")), rapid.Uint64().Draw(t, "order"), false})
		if o := &b.Others[len(b.Others)-1]; o.Stand == Out {
			o.Saved = rapid.Bool().Draw(t, "its saved")
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "losses") {
		b.Losses = append(b.Losses, Loss{
			rapid.StringN(0, 9, 30).Draw(t, "lost"), rapid.Uint64().Draw(t, "its incarnation"), time.Duration(rapid.Int64Range(0, 1<<61).Draw(t, "ago")),
			rapid.Bool().Draw(t, "alone"), rapid.Int64Range(0, 1024).Draw(t, "of"), rapid.Bool().Draw(t, "lost saved"),
		})
	}
	return b
}

func TestHeartbeat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawHeartbeat(t)
		bytes := b.Append(nil)
		if !IsHeartbeat(bytes) {
			t.Fatal("a heartbeat is taken for a message")
		}
		got, rest, err := ParseHeartbeat(append(bytes, "more"...))
		if diff := cmp.Diff(b, got); diff != "" || err != nil || string(rest) != "more" {
			t.Fatalf("%s, then %q: %v", diff, rest, err)
		}
	})
}

func FuzzParseHeartbeat(f *testing.F) {
	b := Heartbeat{Incarnation: 1, Stamp: 5, Others: []Other{{7, Out, 3, true}}}
	f.Add(b.Append(nil))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		b, rest, err := ParseHeartbeat(bytes)
		if err != nil {
			return
		}
		if again, _, err := ParseHeartbeat(b.Append(nil)); err != nil || !cmp.Equal(b, again) || len(rest) >= len(bytes) {
			t.Errorf("% x is read as %v, which is read as %v, then % x: %v", bytes, b, again, rest, err)
		}
	})
}

// TestVotes is I6: whatever each process hears, no vote is counted by two owners of a key
// at a time. If votes did not rest when they go from one to another, that would be found.
func TestVotes(t *testing.T) {
	hasty := 0
	for seed := range uint64(300) {
		if twice := countTwice(seed, false); twice != "" {
			t.Fatalf("seed %d: %s", seed, twice)
		}
		if countTwice(seed, true) != "" {
			hasty++
		}
	}
	if hasty == 0 {
		t.Error("votes that do not rest are not found")
	}
}

// countTwice tells who counted on a vote that another counted on, in a run of random cuts.
func countTwice(seed uint64, hasty bool) string {
	names := []string{"a", "b", "c", "d"}
	random := rand.New(rand.NewPCG(seed, 1))
	key := weir.StateKey{Rule: "api", Key: fmt.Sprint(random.IntN(100))}
	now, processes, cut := begin, map[string]*Peers{}, map[[2]string]bool{}
	for i, name := range names {
		processes[name] = NewPeers(now, name, uint64(i+1))
	}
	for range 200 {
		now += bounds.Micros(Pulse)
		for _, from := range names {
			if random.IntN(40) == 0 {
				link := [2]string{from, names[random.IntN(4)]}
				cut[link] = !cut[link]
			}
			var beats []HeartbeatTo
			processes[from].Agree(now, named(names...), &beats)
			processes[from].Tick(now, false, false, &beats)
			for _, b := range beats {
				if hasty {
					b.Others = slices.DeleteFunc(slices.Clone(b.Others), func(o Other) bool { return o.Stand == Entering })
				}
				if !cut[[2]string{from, b.Peer}] {
					processes[b.Peer].Receive(now, from, &b.Heartbeat)
				}
			}
		}
		counted := map[string]string{}
		for _, name := range names {
			v := processes[name].View()
			p := v.Place(now, key, nil)
			for _, by := range p.Voters {
				if by.Kept || now >= v.members[by.member].until {
					continue
				}
				if other := counted[by.Name]; other != "" {
					return fmt.Sprintf("%s and %s both count on the vote of %s", other, name, by.Name)
				}
				counted[by.Name] = name
			}
		}
	}
	return ""
}

// TestOrder holds a vote that has gone from c to a and b, who were heard again, to count for
// the first of the key's rank once c has let go of it, unless b might have had it before.
func TestOrder(t *testing.T) {
	members := []string{"a", "b", "c"}
	key := weir.StateKey{Rule: "api"}
	for key.Key = "0"; !slices.IsSorted(ranked(key, members)); key.Key += "0" {
	}
	for _, row := range []struct {
		a, b     uint64 // after how many heartbeats c began with them
		released string
		follows  bool
	}{
		{3, 3, "c", true}, {3, 4, "c", true}, {3, 3, "b", false}, {4, 3, "c", false},
	} {
		v := Together("a", named(members...))
		v.members[2].stands = []Other{{Stand: Entering, Order: row.a}, {Stand: Entering, Order: row.b}, {}}
		p := v.Place(begin, key, []Released{{By: row.released, Until: begin + 1}})
		if got := slices.ContainsFunc(p.Voters, func(by Voter) bool { return by.Name == "c" }); got != row.follows {
			t.Errorf("c lends its vote to a after %d heartbeats, to b after %d, and %s has let go: a counts on it: %v", row.a, row.b, row.released, got)
		}
	}
}

// ranked is the members in the order of the key.
func ranked(key weir.StateKey, members []string) (names []string) {
	for left := slices.Clone(members); len(left) > 0; {
		next := rank.First(key, left)
		names = append(names, next)
		left = slices.DeleteFunc(left, func(m string) bool { return m == next })
	}
	return names
}

// TestLast: one that is stopped while the other starts again does not take itself for the last: it has ledgers to hand over.
func TestLast(t *testing.T) {
	now, incarnations := begin, map[string]uint64{"a": 1, "b": 1}
	peers := map[string]*Peers{"a": NewPeers(begin, "a", 1), "b": NewPeers(begin, "b", 1)}
	pass := func(d time.Duration) {
		for end := now + bounds.Micros(d); now < end; now += bounds.Micros(Pulse) / 5 {
			for name, from := range peers {
				var beats []HeartbeatTo
				from.Agree(now, []Member{{"a", incarnations["a"]}, {"b", incarnations["b"]}}, &beats)
				from.Tick(now, false, false, &beats)
				for _, h := range beats {
					peers[h.Peer].Receive(now, name, &h.Heartbeat)
				}
			}
		}
	}
	pass(3 * time.Second)
	peers["b"].Leave(now, &[]HeartbeatTo{})
	if pass(300 * time.Millisecond); !peers["a"].View().Last() {
		t.Error("a does not know that b leaves")
	}
	incarnations["b"], peers["b"] = 2, NewPeers(now, "b", 2)
	pass(300 * time.Millisecond)
	peers["a"].Leave(now, &[]HeartbeatTo{})
	if peers["a"].View().Last() {
		t.Error("a takes itself for the last, though b starts")
	}
}
