package lease

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/rank"
	"pgregory.net/rapid"
)

// TestOwner holds keys to lie evenly on their owners, and to stay where they are
// when another member goes.
func TestOwner(t *testing.T) {
	members := []string{"node1", "node2", "node3", "node4"}
	owned := map[string]int{}
	for i := range 4000 {
		key := weir.StateKey{Rule: "api", Key: fmt.Sprint("user", i)}
		owner := rank.First(key, members)
		owned[owner]++
		if after := rank.First(key, []string{"node3", "node1", "node2"}); owner != "node4" && after != owner {
			t.Fatalf("%v moved from %s to %s, though only node4 went", key, owner, after)
		}
	}
	for _, m := range members {
		if n := owned[m]; n < 850 || n > 1150 {
			t.Errorf("%s owns %d of 4000 keys", m, n)
		}
	}
}

func TestNewNode(t *testing.T) {
	for _, s := range []Settings{{}, {Name: "a"}, {Name: "a", Keys: -1}, {Keys: 1}} {
		if _, err := NewNode(s); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
}

// named are members of these names.
func named(names ...string) []member.Member {
	var members []member.Member
	for _, name := range names {
		members = append(members, member.Member{Name: name, Incarnation: 1})
	}
	return members
}

// TestGarbage holds a node to live through whatever a peer says, and to keep no more
// keys than it may.
func TestGarbage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := map[string]*weir.Limit{"api": weir.MustParseLimit("100/s"), "none": weir.MustParseLimit("20 concurrent")}
		n, err := NewNode(Settings{Name: "a", Incarnation: 1, Keys: 3})
		if err != nil {
			t.Fatal(err)
		}
		now, waiting := begin, map[uint64]bool{}
		peers := member.NewPeers(now, "a", 1)
		peers.Agree(now, named("a", "b", "c"), &[]member.HeartbeatTo{})
		number := rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 3))
		for id := range uint64(rapid.IntRange(1, 40).Draw(t, "steps")) {
			now += weir.Instant(rapid.Int64Range(0, 1_000_000).Draw(t, "since"))
			key := weir.StateKey{Rule: rapid.SampledFrom([]string{"api", "none"}).Draw(t, "rule"), Key: fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))}
			var fx protocol.Effects
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 3:
				b := rapid.Make[member.Heartbeat]().Draw(t, "heartbeat")
				peers.Tick(now, false, false, &[]member.HeartbeatTo{})
				peers.Receive(now, rapid.SampledFrom([]string{"b", "c", "mallory"}).Draw(t, "peer"), &b)
				n.View(now, peers.View(), &fx)
			case 0:
				waiting[id] = true
				n.Ask(now, &protocol.Request{ID: id, State: key, Limit: limits[key.Rule], Cost: number.Draw(t, "cost")}, &fx)
			case 1:
				n.Tick(now, &fx)
			default:
				n.Receive(now, rapid.SampledFrom([]string{"b", "c", "mallory"}).Draw(t, "peer"), &protocol.Message{
					Kind: protocol.Kind(rapid.IntRange(0, int(protocol.Stored)+1).Draw(t, "kind")), State: key, Incarnation: uint64(number.Draw(t, "incarnation")),
					Limit: rapid.SampledFrom([]string{"100/s", "7/min", "20 concurrent", "9/s sliding-log", "100 / s", ""}).Draw(t, "limit"), Epoch: uint64(number.Draw(t, "epoch")),
					ID: uint64(number.Draw(t, "id")), Lease: uint64(number.Draw(t, "lease")), Spent: number.Draw(t, "spent"), Closed: rapid.Bool().Draw(t, "closed"),
					Policy: protocol.Policy(rapid.IntRange(0, 6).Draw(t, "policy")), Least: number.Draw(t, "least"), Want: number.Draw(t, "want"), Demand: number.Draw(t, "demand"),
					Granted: number.Draw(t, "granted"), Life: time.Duration(number.Draw(t, "life")), Wait: time.Duration(number.Draw(t, "wait")),
					Words: rapid.SampledFrom([]string{"", "12345678abcdefgh", "\x01\x00\x00\x00\x00\x00\x00\x0012345678abcdefgh\x01\x00\x00\x00\x00\x00\x00\x00", "123"}).Draw(t, "words"), At: weir.Instant(number.Draw(t, "at")),
					Lost: rapid.SampledFrom([]string{"", "c", "mallory"}).Draw(t, "lost"), LostRun: uint64(number.Draw(t, "its incarnation")),
					Part: number.Draw(t, "part"), Of: number.Draw(t, "of"),
					Known: uint64(number.Draw(t, "known")), Free: number.Draw(t, "free"), Fresh: time.Duration(number.Draw(t, "fresh")),
				}, &fx)
			}
			for _, a := range fx.Answers {
				if !waiting[a.ID] {
					t.Fatalf("request %d is answered, which nobody waits for", a.ID)
				}
				delete(waiting, a.ID)
			}
			if len(n.holders.Rows) > 3 || len(n.ledgers.Rows) > 3 {
				t.Fatalf("%d and %d keys are kept", len(n.holders.Rows), len(n.ledgers.Rows))
			}
		}
	})
}
