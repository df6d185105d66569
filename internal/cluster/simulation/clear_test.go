package simulation

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// comesBack has the first in the rank of a key leave, and come back at join, while the others use up much of it.
func comesBack(policy protocol.Policy, join time.Duration, rank []int) Settings {
	s := Settings{Nodes: 3, Keys: 1, Limit: weir.MustParseLimit("100/h"), Policy: policy, For: 14 * time.Second, Found: true}
	s.asks(2000)
	s.Acts = []Act{{At: 4 * time.Second, What: Leave, Node: rank[0]}, {At: join, What: Join, Node: rank[0]}}
	return s
}

var exactPolicies = []protocol.Policy{protocol.Proportional, protocol.Closed, protocol.Reserve}

// TestClearAndPending: one joins, is sent a ledger, and leaves before it takes it: it is clear of the sender's keys, and the sender
// has its own ledger on its way.
func TestClearAndPending(t *testing.T) {
	t.Parallel()
	const join = 8 * time.Second
	r := rankOf(3, new(Settings).key(0))
	for _, policy := range exactPolicies {
		for shift := time.Duration(0); shift < 90*ms; shift += 15 * ms {
			s := comesBack(policy, join, r)
			s.Acts = append(s.Acts, Act{At: join + 700*ms + shift, What: Leave, Node: r[0]})
			exact(t, s, func(_ int, since time.Duration) int {
				if since >= 6*time.Second && since < 7500*ms || since >= join+705*ms {
					return r[1]
				}
				return -1
			})
		}
	}
}

// TestClearAndKept: one joins while another leaves, which the owner has not heard to reach the one that joins: the owner keeps the
// vote of the one that leaves, and the ledger for it.
func TestClearAndKept(t *testing.T) {
	t.Parallel()
	const join = 8 * time.Second
	r := rankOf(3, new(Settings).key(0))
	for _, policy := range exactPolicies {
		for _, shift := range []time.Duration{-100 * ms, -50 * ms, 0, 20 * ms, 50 * ms} {
			s := comesBack(policy, join, r)
			s.Acts = append(s.Acts, Act{At: join + 650*ms + shift, What: Leave, Node: r[2]})
			s.Parts = []Part{{From: join + 652*ms + shift, To: join + 1200*ms, Deaf: func(from, to int) bool { return from == r[2] && to == r[1] }}}
			exact(t, s, func(_ int, since time.Duration) int {
				switch {
				case since >= 6*time.Second && since < 7500*ms:
					return r[1]
				case since >= join+715*ms:
					return r[0]
				}
				return -1
			})
		}
	}
}

// TestChanges is a swarm of members that join and leave in order all the time, with limits of every speed, while messages are lost and late.
func TestChanges(t *testing.T) {
	t.Parallel()
	nothingOver(t, "Changes", changes)
}

func changes(seed uint64) Settings {
	r := rand.New(rand.NewPCG(seed, 8))
	all := []string{
		"100/h", "10/168h", "1/h burst 300", "100/h fixed-window", "100/h sliding-log", "100/h sliding-window 6", "2/h burst 2",
		"5/s burst 100", "100/s burst 20", "1000/s burst 100", "20/s burst 200", "100/10s fixed-window", "30/min burst 30",
	}
	some := func(n int) int { return r.IntN(2) * r.IntN(n) }
	s := Settings{
		Seed: seed, Nodes: 2 + r.IntN(4), Spare: r.IntN(4), Shards: 1 + r.IntN(3), For: 16 * time.Second, Found: true,
		Limit: weir.MustParseLimit(all[r.IntN(len(all))]), Policy: exactPolicies[r.IntN(3)], Keys: 1 + r.IntN(12), Cost: 1 + int64(some(3)),
		Remember: r.IntN(2) == 0, Skewed: r.IntN(2) == 0,
	}
	if r.IntN(3) == 0 {
		s.Turn, s.Keys = time.Duration(50+r.IntN(500))*time.Millisecond, 1+r.IntN(60)
	}
	s.asks(50 + r.Int64N(3000))
	s.Faults = Faults{Change: time.Duration(150+r.IntN(1000)) * time.Millisecond, Drift: some(400), Loss: some(200), Double: some(100), Delay: time.Duration(some(30)) * time.Millisecond}
	for at := 1500 * ms; r.IntN(3) > 0 && at < s.For; at += time.Duration(r.IntN(2500)) * time.Millisecond { // one leaves, and starts again soon
		i := r.IntN(s.Nodes)
		s.Acts = append(s.Acts, Act{At: at, What: Leave, Node: i}, Act{At: at + time.Duration(1+r.IntN(1200))*time.Millisecond, What: Join, Node: i})
	}
	return s
}
