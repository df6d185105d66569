package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/table"
	"pgregory.net/rapid"
)

// noon is when these tests happen: no time goes by.
const noon = weir.Instant(1_800_000_000_000_000)

// holding is a node that holds leases for so many keys, of another that it does not
// reach any more.
func holding(t testing.TB, keys int) (*Store, []weir.Ask) {
	t.Helper()
	n := newNetwork(t, 2)

	n.clock.at.Store(int64(noon))
	s, limit := n.nodes[0], weir.MustParseLimit("10000/s")
	var asks []weir.Ask
	for i := 0; len(asks) < keys; i++ {
		key := weir.StateKey{Rule: fmt.Sprintf("place%d#%d", i/2, i%2), Key: "k"}
		if s.Owner(key, &weir.Policy{}) == s.self.Name {
			continue
		}
		asks = append(asks, weir.Ask{State: key, Limit: limit, Cost: 1})
		for left(s, &asks[len(asks)-1]) < 50 {
			if err := s.Take(context.Background(), asks[len(asks)-1:], make([]weir.Decision, 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	n.away.Store(all)
	return s, asks
}

// left is how many events the lease of an ask covers.
func left(s *Store, a *weir.Ask) (events int64) {
	sh := s.shard(a.State)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	hash, _ := table.Hash(s.seed, a.State)
	for r := want(a.State, a); ; events++ {
		if r.Cost = events + 1; !sh.node.Covers(s.now(), hash, &r) {
			return events
		}
	}
}

// TestSeveral holds takes of several asks to all or nothing: each lease is spent where
// all cover their asks, and none is where one does not.
func TestSeveral(t *testing.T) {
	s, keys := holding(t, 6)
	spent, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		asks := append([]weir.Ask(nil), rapid.Permutation(keys).Draw(t, "keys")[:rapid.IntRange(2, 6).Draw(t, "asks")]...)
		covered, before := true, map[weir.StateKey]int64{}
		for i := range asks {
			asks[i].Cost = rapid.Int64Range(1, 4).Draw(t, "cost")
			before[asks[i].State] = left(s, &asks[i])
			covered = covered && asks[i].Cost <= before[asks[i].State]
		}
		out := make([]weir.Decision, len(asks))
		if s.spend(asks, out) != covered {
			t.Fatalf("spends: %v; of leases of %v", !covered, before)
		}
		for i := range asks {
			passed := int64(0)
			if covered {
				passed = asks[i].Cost
			}
			if d := out[i]; d.Charged != covered || (d.Outcome == weir.Allowed) != covered {
				t.Fatalf("%+v", d)
			}
			if now := left(s, &asks[i]); now != before[asks[i].State]-passed {
				t.Fatalf("%d are left of %d for %d", now, before[asks[i].State], asks[i].Cost)
			}
		}
		if covered {
			spent++
		} else {
			refused++
		}
	})
	if spent == 0 || refused == 0 {
		t.Errorf("%d takes were spent and %d refused", spent, refused)
	}
}

// TestSeveralAtOnce: takes of the same keys in any order let each other go on, and
// spend no event twice.
func TestSeveralAtOnce(t *testing.T) {
	s, keys := holding(t, 8)
	before := make([]int64, len(keys))
	for i := range keys {
		before[i] = left(s, &keys[i])
	}
	var passed [8]int64
	var mu sync.Mutex
	var running sync.WaitGroup
	for g := range 4 {
		running.Go(func() {
			for i := range 200 {
				a, b := (g+i)%8, (g*3+i*5+1)%8
				if a == b {
					continue
				}
				if s.spend([]weir.Ask{keys[a], keys[b]}, make([]weir.Decision, 2)) {
					mu.Lock()
					passed[a]++
					passed[b]++
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	for i := range keys {
		if now := left(s, &keys[i]); now != before[i]-passed[i] || passed[i] == 0 {
			t.Errorf("%d are left of %d after %d", now, before[i], passed[i])
		}
	}
}

// TestSeveralLearn: takes of several asks that come often are answered by leases soon.
func TestSeveralLearn(t *testing.T) {
	n := newNetwork(t, 3)
	limit := weir.MustParseLimit("1000000/s")
	asks := []weir.Ask{
		{State: weir.StateKey{Rule: "user", Key: "ann"}, Limit: limit, Cost: 1},
		{State: weir.StateKey{Rule: "path", Key: "/"}, Limit: limit, Cost: 1},
	}
	s := n.nodes[0]
	for i := range asks { // not its own
		for s.Owner(asks[i].State, &weir.Policy{}) == s.self.Name {
			asks[i].State.Key += "x"
		}
	}
	n.clock.at.Store(int64(noon))
	out := make([]weir.Decision, 2)
	for range 1000 {
		if err := s.Take(context.Background(), asks, out); err != nil || out[0].Outcome != weir.Allowed || out[1].Outcome != weir.Allowed {
			t.Fatal(err, out)
		}
	}
	if whole := s.Stats().Whole; whole > 200 {
		t.Errorf("%d calls of owners for 1,000 takes", whole)
	}
	if allocs := testing.AllocsPerRun(100, func() { s.spend(asks, out) }); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
