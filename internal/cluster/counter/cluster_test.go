package counter_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/counter"
	"github.com/weir-limit/weir/internal/cluster/simulation"
)

// crowd is a cluster of replicas under load, and what it let pass.
type crowd struct {
	*simulation.Cluster

	t      *testing.T
	limit  *weir.Limit
	ask    weir.Ask
	nodes  int
	random *rand.Rand
	now    weir.Instant
	passed []event
	own    [][]event // by node
	alive  []uint64  // incarnations
	stale  time.Duration
}

// event is what a node has let pass, as its count stood then.
type event struct {
	at          weir.Instant
	cost        int64
	incarnation uint64
	slot        uint64
	count       int64
}

const (
	crowdStart = weir.Instant(1_800_000_000_000_000)
	second     = weir.Instant(1_000_000)
)

func newCrowd(t *testing.T, s simulation.Settings, limit string) *crowd {
	s.Keys = 8
	c, err := simulation.New(crowdStart, s)
	if err != nil {
		t.Fatal(err)
	}
	l := weir.MustParseLimit(limit)
	k := &crowd{
		Cluster: c, t: t, limit: l, nodes: s.Nodes, random: rand.New(rand.NewPCG(s.Seed, 9)), now: crowdStart,
		ask: weir.Ask{State: weir.StateKey{Rule: "api", Key: "k"}, Limit: l, Cost: 1, Policy: weir.Policy{Sharing: s.Sharing}},
		own: make([][]event, s.Nodes), alive: make([]uint64, s.Nodes),
	}
	for i := range k.alive {
		k.alive[i] = 1
	}
	k.Until(crowdStart + second) // all have heard from all
	k.now += second
	return k
}

// load asks for so long, so many times the limit's pace, node by node as pick says.
func (k *crowd) load(long time.Duration, times int64, pick func() int) {
	spec := k.limit.Spec()
	gap := 2 * max(spec.Period.Microseconds()/spec.Count/times, 1)
	for end := k.now + weir.Instant(long.Microseconds()); k.now < end; k.now += weir.Instant(1 + k.random.Int64N(gap)) {
		k.Until(k.now)
		k.request(pick())
	}
}

func (k *crowd) anywhere() int { return k.random.IntN(k.nodes) }

func (k *crowd) request(i int) {
	k.Ask(k.now, i, &k.ask, func(now weir.Instant, d weir.Decision) {
		if d.Outcome != weir.Allowed {
			return
		}
		k.unheard(now, i)
		e := event{at: now, cost: d.Cost, incarnation: k.alive[i]}
		e.slot, e.count = k.Replica(i).Known(k.ask.State, name(i), k.alive[i])
		k.passed = append(k.passed, e)
		k.own[i] = append(k.own[i], e)
	})
}

// kill kills a node, which starts again and knows nothing.
func (k *crowd) kill(now weir.Instant, i int) {
	k.Crash(now, i)
	k.alive[i]++
}

// cut lets nothing that a node sends to another arrive until then.
func (k *crowd) cut(now weir.Instant, from, to int, until weir.Instant) {
	k.Part(now, until, func(a, b int) bool { return a == from && b == to })
}

func name(i int) string { return fmt.Sprintf("node%d", i) }

// unheard notes how old the oldest event is of which the i-th node has not heard.
func (k *crowd) unheard(now weir.Instant, i int) {
	for j, events := range k.own {
		if j == i {
			continue
		}
		slot, count := k.Replica(i).Known(k.ask.State, name(j), k.alive[j])
		oldest := now
		for e := len(events) - 1; e >= 0; e-- {
			if of := &events[e]; of.incarnation < k.alive[j] || of.slot < slot || of.slot == slot && of.count <= count {
				break
			}
			oldest = events[e].at
		}
		k.stale = max(k.stale, (now - oldest).Duration())
	}
}

// over is by how much what passed was more than a bucket lets pass in any interval,
// or than a window's count in any window.
func (k *crowd) over() int64 {
	spec := k.limit.Spec()
	period, worst := spec.Period.Microseconds(), int64(0)
	if spec.Algorithm == weir.FixedWindow {
		sums := map[int64]int64{}
		for _, e := range k.passed {
			sums[int64(e.at)/period] += e.cost
			worst = max(worst, sums[int64(e.at)/period]-spec.Count)
		}
		return worst
	}
	level, last := spec.Burst*period, crowdStart
	for _, e := range k.passed {
		level = min(level+min(int64(e.at-last), 100*period*spec.Burst)*spec.Count, spec.Burst*period)
		last = e.at
		level -= e.cost * period
		worst = max(worst, (-level+period-1)/period)
	}
	return worst
}

// ahead is how much over Bound allows, as messages were.
func (k *crowd) ahead() int64 {
	return bounds.Ahead(k.limit, k.ask.Policy.Sharing, k.nodes, k.stale+time.Microsecond, k.ask.Cost)
}

// TestReplicaBound holds what replicas let pass together to the bound that is printed,
// where nothing is lost, and what they know of each other to be as old as it says.
func TestReplicaBound(t *testing.T) {
	for _, how := range []weir.Sharing{weir.SharingMesh, weir.SharingGossip, weir.SharingHub} {
		for _, limit := range []string{"10/s", "100/s", "1000/s burst 100", "100/s fixed-window", "100/min burst 10"} {
			for _, nodes := range []int{1, 2, 5, 20} {
				for _, times := range []int64{1, 2, 10} {
					s := simulation.Settings{Seed: uint64(nodes), Nodes: nodes, Sharing: how, Faults: simulation.Faults{Delay: time.Millisecond}}
					k := newCrowd(t, s, limit)
					k.load(2*time.Second, times, k.anywhere)
					k.load(time.Second, 1, k.anywhere)
					k.load(time.Second, times, func() int { return min(k.anywhere(), k.anywhere()) })
					delay := bounds.Delay(how, nodes, s.Faults.Delay)
					bound := bounds.Ahead(k.limit, how, nodes, delay, 1)
					if over := k.over(); over > bound || k.stale > delay || over > k.ahead() {
						t.Errorf("%s %s, %d nodes, %d x: %d over; want at most %d, %d as messages were; heard after %v, want %v", how, limit, nodes, times, over, bound, k.ahead(), k.stale, delay)
					}
				}
			}
		}
	}
}

// TestReplicaFaults holds them to it when messages are lost, doubled and overtaken, nodes
// are killed and stand still, and cuts come and go: as late as they heard of each other.
func TestReplicaFaults(t *testing.T) {
	for seed := range uint64(90) {
		r := rand.New(rand.NewPCG(seed, 5))
		s := simulation.Settings{Seed: seed, Nodes: 2 + r.IntN(6), Sharing: []weir.Sharing{weir.SharingMesh, weir.SharingGossip}[seed%2]}
		if seed >= 60 {
			s.Sharing = weir.SharingHub
		}
		s.Faults = simulation.Faults{Delay: time.Duration(1+r.IntN(30)) * time.Millisecond, Loss: r.IntN(2) * r.IntN(400), Double: r.IntN(200), Drift: r.IntN(100)}
		limit := []string{"100/s", "20/s burst 5", "300/s burst 30", "50/s fixed-window"}[r.IntN(4)]
		k := newCrowd(t, s, limit)
		at := k.now
		for range r.IntN(2) * r.IntN(8) {
			at += weir.Instant(r.Int64N(2_000_000))
			from, to, until := r.IntN(s.Nodes), r.IntN(s.Nodes), at+weir.Instant(r.Int64N(2_000_000))
			k.At(at, func(now weir.Instant) { k.cut(now, from, to, until) })
		}
		for range r.IntN(2) * r.IntN(4) {
			at := k.now + weir.Instant(r.Int64N(8_000_000))
			node, until := r.IntN(s.Nodes), at+weir.Instant(r.Int64N(1_000_000))
			k.At(at, func(now weir.Instant) { k.Pause(now, node, until) })
		}
		for range r.IntN(2) * r.IntN(4) {
			node := r.IntN(s.Nodes)
			k.At(k.now+weir.Instant(r.Int64N(8_000_000)), func(now weir.Instant) { k.kill(now, node) })
		}
		k.load(10*time.Second, 1+r.Int64N(10), k.anywhere)
		// What nodes pass for those whom they do not hear is at least one event each. One that
		// is killed takes with it what it did not tell, and passes its part until it knows.
		all, _ := k.limit.Standing(nil, k.now)
		crash := k.limit.Bound(k.stale+time.Microsecond, 1) + all/int64(s.Nodes) + 1
		if over, most := k.over(), k.ahead()+int64(s.Nodes)+k.Crashes*crash; over > most {
			t.Errorf("seed %d, %s, %d nodes, %s: %d over; want at most %d, heard after %v", seed, s.Sharing, s.Nodes, limit, over, most, k.stale)
		}
	}
}

// TestReplicaPartition is what a cut of 8 s costs: five nodes at ten times their
// limit, two of them cut off, by policy.
func TestReplicaPartition(t *testing.T) {
	for _, row := range []struct {
		policy          weir.Partition
		least, most     int64 // of a hundred, while cut
		healed, atLeast int64 // of a hundred, in the second after two Syncs
		times           int64
	}{
		{weir.PartitionProportional, 98, 105, 110, 95, 10},
		{weir.PartitionShare, 98, 110, 110, 90, 10},
		{weir.PartitionOpen, 180, 220, 110, 95, 10},
		{weir.PartitionProportional, 98, 105, 110, 95, 2},
	} {
		s := simulation.Settings{Seed: 4, Nodes: 5, Sharing: weir.SharingMesh, Faults: simulation.Faults{Delay: time.Millisecond}}
		k := newCrowd(t, s, "1000/s burst 100")
		k.ask.Policy.Partition = row.policy
		k.load(2*time.Second, row.times, k.anywhere)
		k.Part(k.now, k.now+8*second, func(from, to int) bool { return (from < 2) != (to < 2) })
		before := len(k.passed)
		k.load(8*time.Second, row.times, k.anywhere)
		cut := int64(len(k.passed)-before) / 80
		k.load(2*counter.Sync, row.times, k.anywhere)
		before = len(k.passed)
		k.load(time.Second, row.times, k.anywhere)
		after := int64(len(k.passed)-before) / 10
		t.Logf("%s, %d x: %d %% while cut, %d %% after", row.policy, row.times, cut, after)
		if cut < row.least || cut > row.most || after < row.atLeast || after > row.healed {
			t.Errorf("%s, %d x: %d %% while cut, want %d…%d; %d %% after, want %d…%d", row.policy, row.times, cut, row.least, row.most, after, row.atLeast, row.healed)
		}
	}
}
