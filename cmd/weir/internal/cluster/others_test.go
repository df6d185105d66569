package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
)

// TestKilled holds the others to decide again within a second about the keys of a node
// that was killed, and never beyond the limit.
func TestKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 3)
		n.found()
		ask := weir.Ask{State: weir.StateKey{Rule: "api", Key: "k"}, Limit: weir.MustParseLimit("100/s"), Cost: 1}
		passes := func(s *Store) bool {
			var out [1]weir.Decision
			return s.Take(t.Context(), []weir.Ask{ask}, out[:]) == nil && out[0].Outcome == weir.Allowed
		}
		time.Sleep(time.Second)
		owner := n.nodes[0].Owner(ask.State, &weir.Policy{})
		var asker *Store
		for _, s := range n.nodes {
			if s.self.Name != owner {
				asker = s
			}
		}
		if !passes(asker) {
			t.Fatal("nothing passes while all is well")
		}
		n.away.Store(owner)
		killed, passed := time.Now(), 0
		for time.Since(killed) < time.Second {
			if time.Sleep(10 * time.Millisecond); passes(asker) {
				passed++
			}
		}
		if passed == 0 || passed > 110 || asker.Owner(ask.State, &weir.Policy{}) == owner {
			t.Errorf("%d passed in the second after %s was killed; %s is asked now", passed, owner, asker.Owner(ask.State, &weir.Policy{}))
		}
	})
}

// TestUnclean holds a node to count a member that was killed, also when it begins anew itself.
func TestUnclean(t *testing.T) {
	if n := New(Options{}).Stats().Unclean; n != 0 {
		t.Errorf("%d before it takes part", n)
	}
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 3)
		n.found()
		time.Sleep(time.Second)
		n.away.Store(n.names[2])
		for _, s := range n.nodes[:2] {
			s.View(n.members()[:2])
		}
		time.Sleep(5 * time.Second)
		if err := n.nodes[0].Rejoin(100); err != nil {
			t.Fatal(err)
		}
		for i, s := range n.nodes[:2] {
			if got := s.Stats().Unclean; got != 1 {
				t.Errorf("%d at node %d", got, i)
			}
		}
	})
}

// TestLeave holds a node that leaves to hand over what it owns, so that a limit of long
// period goes on where it was.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 3)
		n.found()
		time.Sleep(time.Second)
		ask := weir.Ask{State: weir.StateKey{Rule: "api", Key: "k"}, Limit: weir.MustParseLimit("100/day"), Cost: 1}
		owner := n.nodes[0].Owner(ask.State, &weir.Policy{})
		var leaver, stays *Store
		for _, s := range n.nodes {
			if s.self.Name == owner {
				leaver = s
			} else {
				stays = s
			}
		}
		take := func(times int) (passed int) {
			for range times {
				var out [1]weir.Decision
				if stays.Take(t.Context(), []weir.Ask{ask}, out[:]) == nil && out[0].Outcome == weir.Allowed {
					passed++
				}
				time.Sleep(time.Second)
			}
			return passed
		}
		if passed := take(60); passed != 60 {
			t.Fatalf("%d of the first 60 passed", passed)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := leaver.Leave(ctx); err != nil {
			t.Fatal(err)
		}
		if passed := take(60); passed < 38 || passed > 40 {
			t.Errorf("%d of the next 60 passed, 40 were left", passed)
		}
	})
}

// TestKeeps holds the counts of many keys to be what they were when a node that owns some has left: each of its
// shards hands over by itself, to shards of others that have other keys each.
func TestKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 900
		n := newNetwork(t, 4)
		n.found()
		time.Sleep(time.Second)
		var limits []*weir.Limit
		for _, text := range []string{
			"100/day", "100/day token-bucket", "100/year fixed-window", "100/8760h fixed-window anchored", "100/day sliding-log", "100/8760h sliding-window 6",
			"100/day debt 5", "1 concurrent ttl 24h",
		} {
			limits = append(limits, weir.MustParseLimit(text))
		}
		policies := []weir.Partition{weir.PartitionProportional, weir.PartitionClosed, weir.PartitionReserve, weir.PartitionShare, weir.PartitionOpen}
		asks, receipts := make([]weir.Ask, keys), make([]*weir.Receipt, keys)
		take := func(s *Store, a *weir.Ask) weir.Decision {
			var out [1]weir.Decision
			if err := s.Take(t.Context(), []weir.Ask{*a}, out[:]); err != nil {
				t.Fatal(err)
			}
			return out[0]
		}
		for i := range asks {
			asks[i] = weir.Ask{State: weir.StateKey{Rule: "api", Key: fmt.Sprint("k", i)}, Limit: limits[i%len(limits)], Cost: 50, Policy: weir.Policy{Partition: policies[i%len(policies)]}}
			if i%2 == 0 {
				asks[i].Policy.Sharing = weir.SharingSticky
			}
			if asks[i].Limit.Algorithm() == weir.Concurrent {
				asks[i].Cost, asks[i].Receipt = 1, uint64(i+1)
			}
			d := take(n.nodes[i%4], &asks[i])
			if receipts[i] = d.Receipt; d.Outcome != weir.Allowed {
				t.Fatalf("%s of key %d: %+v", asks[i].Limit, i, d)
			}
		}
		for leaves := 3; leaves > 0; leaves-- {
			if err := n.nodes[leaves].Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			n.away.Store(n.names[leaves])
			n.names = n.names[:leaves]
			for _, s := range n.nodes[:leaves] {
				s.View(n.members())
			}
			time.Sleep(5 * time.Second)
			for i := range asks {
				a := asks[i]
				a.Receipt, a.Peek = 0, true
				if d := take(n.nodes[i%leaves], &a); a.Limit.Algorithm() == weir.Concurrent && d.Outcome == weir.Allowed || a.Cost == 50 && d.Remaining != 50 {
					t.Fatalf("node %d has left: %s of key %d: %+v; want half of it to be left", leaves, a.Limit, i, d)
				}
			}
		}
		for i, r := range receipts {
			if r == nil {
				continue
			}
			if err := n.nodes[0].Settle(t.Context(), []weir.Settlement{{Receipt: r}}); err != nil {
				t.Fatal(err)
			}
			if d := take(n.nodes[0], &asks[i]); d.Outcome != weir.Allowed {
				t.Errorf("permit %d is back: %+v", i, d)
			}
		}
	})
}

// TestNotTaken: a node that leaves does not wait for long for others that take nothing.
func TestNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 2)
		n.found()
		time.Sleep(time.Second)
		ask := weir.Ask{State: weir.StateKey{Rule: "api", Key: n.ownedBy(t, 0)}, Limit: weir.MustParseLimit("100/day"), Cost: 1}
		var out [1]weir.Decision
		if err := n.nodes[0].Take(t.Context(), []weir.Ask{ask}, out[:]); err != nil {
			t.Fatal(err)
		}
		n.away.Store(n.names[1])
		began := time.Now()
		if err := n.nodes[0].Leave(t.Context()); !errors.Is(err, errNotTaken) || time.Since(began) > leavePatience+time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestAllLeave: nodes that leave at one moment don't wait for each other to take what they own.
func TestAllLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 3)
		n.found()
		time.Sleep(3 * time.Second)
		for i, s := range n.nodes {
			ask := weir.Ask{State: weir.StateKey{Rule: "api", Key: n.ownedBy(t, i)}, Limit: weir.MustParseLimit("100/day"), Cost: 1}
			var out [1]weir.Decision
			if err := s.Take(t.Context(), []weir.Ask{ask}, out[:]); err != nil || out[0].Outcome != weir.Allowed {
				t.Fatal(err, out)
			}
		}
		began := time.Now()
		left := make(chan error)
		for _, s := range n.nodes {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				left <- s.Leave(ctx)
			}()
		}
		for range n.nodes {
			if err := <-left; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > time.Second { // of virtual time
			t.Errorf("it took %v", took)
		}
	})
}

// TestLostName: a node that is no member any more decides nothing, and who waits at it is let go.
// When it joins again, as a later process, it is one of the cluster as before.
func TestLostName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, 3)
		n.found()
		time.Sleep(time.Second)
		ask := weir.Ask{State: weir.StateKey{Rule: "api", Key: "k"}, Limit: weir.MustParseLimit("100/s"), Cost: 1}
		mesh := ask
		mesh.Policy.Sharing = weir.SharingMesh
		take := func(s *Store, ask weir.Ask) (weir.Outcome, error) {
			var out [1]weir.Decision
			err := s.Take(t.Context(), []weir.Ask{ask}, out[:])
			return out[0].Outcome, err
		}
		twin := n.nodes[0]
		if outcome, err := take(twin, ask); outcome != weir.Allowed || err != nil {
			t.Fatal(outcome, err)
		}
		n.away.Store(all)
		waits := make(chan error)
		go func() {
			held := ask
			held.State.Key, held.Cost = n.ownedBy(t, 1), 100
			_, err := take(twin, held)
			waits <- err
		}()
		synctest.Wait()
		twin.View(n.members()[1:])
		if err := <-waits; !errors.Is(err, weir.ErrAway) {
			t.Errorf("who waited got %v", err)
		}
		for _, a := range []weir.Ask{ask, mesh} {
			if outcome, err := take(twin, a); !errors.Is(err, weir.ErrAway) {
				t.Errorf("sharing %q: %v, %v at a node that is no member", a.Policy.Sharing, outcome, err)
			}
		}
		n.away.Store("")
		members := n.members()
		members[0].Incarnation += 10
		if err := twin.Rejoin(members[0].Incarnation); err != nil {
			t.Fatal(err)
		}
		for _, s := range n.nodes {
			s.View(members)
		}
		time.Sleep(3 * time.Second)
		for i, s := range n.nodes {
			ask.State.Key = n.ownedBy(t, i)
			for _, a := range []weir.Ask{ask, mesh} {
				if outcome, err := take(twin, a); outcome != weir.Allowed || err != nil || !s.Converged() {
					t.Errorf("sharing %q: %v, %v of a key of node %d; converged: %v", a.Policy.Sharing, outcome, err, i, s.Converged())
				}
			}
		}
	})
}

// TestBeforeJoin: others reach a node's port before it takes part, with all that nodes
// say.
func TestBeforeJoin(t *testing.T) {
	n := newNetwork(t, 1)
	heard := 0
	s := New(Options{now: n.clock.now})
	for kind := range byte(20) {
		s.Receive("n0:1", []byte{kind, 0})
	}
	if err := s.Join(Self{Name: "n1:1", Incarnation: 2, Send: func(string, []byte) bool { heard++; return true }}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Receive("n0:1", []byte{howOld})
	if heard != 1 {
		t.Errorf("%d answers to who asks how long the node has been there", heard)
	}
}
