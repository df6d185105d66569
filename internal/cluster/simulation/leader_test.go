package simulation

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

var leaders = flag.Duration("leaders", 0, "how long TestLeaders runs; 0: 40 seeds")

// ledLimits are small, so that many seconds are simulated in one.
var ledLimits = []string{
	"100/s", "10/s", "50/s burst 10", "20/s strict burst 11", "50/s burst 1", "20/s burst 200", "10/s burst 500",
	"100/10s fixed-window", "100/10s sliding-log", "50/s sliding-window", "50/s sliding-window 5", "200/h",
}

// led is a run in which the leader is killed each three seconds, and some nodes don't hear some others: a
// leader may not hear, or not be heard.
func led(seed uint64) Settings {
	r := rand.New(rand.NewPCG(seed, 6))
	s := Settings{
		Seed: seed, Nodes: 3 + r.IntN(1+r.IntN(5)), Keys: 1 + r.IntN(4), Leaders: 1 + r.IntN(3), Shards: 1 + r.IntN(3),
		Limit: weir.MustParseLimit(ledLimits[r.IntN(len(ledLimits))]), Policy: protocol.Policy(r.IntN(3)), Skewed: r.IntN(2) == 0,
		For: time.Minute, Found: r.IntN(2) == 0,
	}
	s.asks(20 + r.Int64N(200))
	s.Faults = Faults{Behead: 3 * time.Second, Loss: r.IntN(2) * r.IntN(100), Delay: time.Duration(r.IntN(20)) * time.Millisecond, Drift: r.IntN(500)}
	s.Faults.Cut = time.Duration(300+r.IntN(1500)) * time.Millisecond
	if r.IntN(2) == 0 {
		s.Faults.Split = time.Duration(2000+r.IntN(4000)) * time.Millisecond
	}
	return s
}

// TestLeaders holds nodes to the limit while their leaders are killed and cut off.
func TestLeaders(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	simulated, passed := time.Duration(0), int64(0)
	for n := *seed; *seed == 0 && (n < 40 && *leaders == 0 || time.Since(begun) < *leaders) || n == *seed && *seed > 0; n++ {
		s := led(n)
		r := run(t, s)
		simulated += s.For
		passed += r.Passed
		if r.Over > 0 {
			t.Fatalf("seed %d, %s, %+v: %v. Again: go test ./internal/cluster/simulation -run Leaders -seed %d", n, s.Limit, s, &r, n)
		}
	}
	if passed == 0 {
		t.Error("nothing passed")
	}
	t.Logf("%.0f cluster-seconds simulated, %.0f a second, %d events passed, nothing over", simulated.Seconds(), simulated.Seconds()/time.Since(begun).Seconds(), passed)
}

// TestLeadersMutant holds TestLeaders to finding what is wrong.
func TestLeadersMutant(t *testing.T) {
	t.Parallel()
	for _, m := range []Mutant{StartsFull, CapIgnores, Credits, Inherits} {
		caught, n := false, uint64(0)
		for ; n < 60 && !caught; n++ {
			s := led(n)
			if m == Inherits { // of two leaders, before a cut and after it
				s = lure(m, n)
				s.Leaders = 1
				s.halves(firstOf(s.Nodes, s.key(0)))
			}
			if r := run(t, s); r.Over > 0 {
				t.Fatalf("mutant %d: without it, seed %d: %v", m, n, &r)
			}
			s.Mutant = m
			caught = run(t, s).Over > 0
		}
		t.Logf("mutant %d: caught by one of %d seeds", m, n)
		if !caught {
			t.Errorf("mutant %d: not caught", m)
		}
	}
}

// TestLeaderMessages holds leases of a leader to at most 0.2 messages a decision, whatever the number of nodes:
// each is asked 1,000 times a second.
func TestLeaderMessages(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int64{2, 5, 20, 50} {
		for _, count := range []int64{100, 1000} {
			s := Settings{Seed: 3, Nodes: int(nodes), Limit: weir.MustParseLimit(fmt.Sprintf("%d/s", count)), Leaders: 1, Load: 1000 * nodes / count, For: 4 * time.Second, Found: true}
			r := run(t, s)
			each, second := float64(r.Messages)/float64(r.Offered), float64(r.Messages)/float64(nodes)/s.For.Seconds()
			t.Logf("%s, %d nodes: %.3f messages a decision, %.1f a second and node, under %.2f %%", s.Limit, nodes, each, second, r.under())
			if r.Over > 0 || each > 0.2 {
				t.Errorf("%s, %d nodes: %v, %.3f messages a decision; want nothing over, and 0.2", s.Limit, nodes, &r, each)
			}
		}
	}
}

// TestLeaderKilled holds nodes to pass their part again within a second after their leader was killed.
func TestLeaderKilled(t *testing.T) {
	const nodes, killed = 5, 4 * time.Second
	for seed := range uint64(10) {
		s := Settings{Seed: seed, Nodes: nodes, Limit: weir.MustParseLimit("1000/s burst 100"), Leaders: 1, Load: 5, For: 8 * time.Second, Found: true}
		s.Acts = []Act{{At: killed, Node: firstOf(nodes, s.key(0)), What: Kill}}
		r := run(t, s)
		recovered := killed
		for ; recovered < s.For-300*time.Millisecond; recovered += StepLength {
			if p := r.Between(recovered, recovered+300*time.Millisecond); p.Passed*nodes*100 >= p.Ideal*(nodes-1)*90 {
				break
			}
		}
		t.Logf("seed %d: %v", seed, recovered-killed)
		if r.Over > 0 || recovered-killed > time.Second {
			t.Errorf("seed %d: %v; the other nodes pass their part again after %v; want a second", seed, &r, recovered-killed)
		}
	}
}
