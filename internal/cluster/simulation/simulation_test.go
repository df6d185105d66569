package simulation

import (
	"flag"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/table"
)

var (
	seed  = flag.Uint64("seed", 0, "run this seed of the swarm alone")
	from  = flag.Uint64("from", 0, "begin with this seed")
	swarm = flag.Duration("swarm", 0, "how long TestSwarm runs; 0: 200 seeds")
)

const ms = time.Millisecond

var limits = []string{
	"100/s", "10/s", "1000/s", "100/s burst 20", "100/s strict burst 51", "50/s burst 1", "1000/s burst 200",
	"100/s burst 1000", "100/s burst 5000", "1000/10s fixed-window", "1000/10s sliding-log",
	"100/s fixed-window", "100/s sliding-log", "100/s sliding-window", "100/s sliding-window 5",
}

// resting are limits of which leases last, where little is asked for.
var resting = limits[7:11]

// least is how much passes under overload, in hundredths of what would on one node.
// A sliding window that holds back what is outstanding lets less pass: it estimates
// that all of it came late in its period. A bucket of one event does not fill while
// the event is on its way. Logs and fixed windows have no pace to tell turns by, and lose more
// the longer messages take. Where requests cost several events, some of them stay lent until
// they are too few for one.
func least(l *weir.Limit, cost int64, delay time.Duration) int64 {
	switch s := l.Spec(); {
	case cost > 1:
		return 60
	case s.Algorithm == weir.SlidingWindow:
		return 75
	case s.Algorithm == weir.GCRA && s.Burst == 1:
		return 30
	case s.Algorithm == weir.GCRA:
		return 95
	case delay > 20*time.Millisecond:
		return 70
	}
	return 80
}

// TestMain lets garbage wait: runs make much, and little of it lives.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	m.Run()
}

func run(t *testing.T, s Settings) Result {
	t.Helper()
	r, err := Run(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSwarm holds any number of nodes, whatever goes wrong, to what one would let pass
// in every interval (I1), but for the price of proportional (I20), to let most of it pass soon after all goes well again, and to
// deny nothing for longer than they may, with some messages of a later version.
func TestSwarm(t *testing.T) {
	t.Parallel()
	priced, paid := 0, 0
	seeds(t, 200, func(n uint64) time.Duration {
		s := Swarm(n)
		if s.Limit == nil {
			text := limits[n%uint64(len(limits))]
			s.Limit = weir.MustParseLimit(text)
			if slices.Contains(resting, text) && s.GiveUp == 0 {
				s.Rests()
			}
		}
		r := run(t, s)
		longest := table.MaxDeny + protocol.Patience
		if s.Faults.Pause > 0 {
			longest += maxPause // in which nobody is asked
		}
		if r.Over > r.Price || r.LongestDeny > longest {
			t.Fatalf("seed %d, %s, %+v: %v; denied for %v. Again: go test ./internal/cluster/simulation -run Swarm -seed %d", n, s.Limit, s, &r, r.LongestDeny, n)
		}
		if !s.Found && s.Wave == 0 && s.Turn == 0 && s.Load > 1 && r.Last*100 < r.LastIdeal*least(s.Limit, s.Cost, s.Faults.Delay)-200 {
			t.Fatalf("seed %d, %s, %+v: two seconds after all went well again, only %d of %d passed. Again: -seed %d", n, s.Limit, s, r.Last, r.LastIdeal, n)
		}
		priced, paid = priced+int(count(r.Price > 0)), paid+int(count(r.Over > 0))
		return s.For
	})
	t.Logf("%d runs may cost the price of proportional, and %d did", priced, paid)
}

// seeds runs what a seed draws: of the first ones, or with -swarm of all for so long, or of that of -seed. draw tells how long it
// simulated.
func seeds(t *testing.T, most uint64, draw func(n uint64) time.Duration) {
	t.Helper()
	begun := time.Now()
	var simulated time.Duration
	for n := max(*seed, *from); *seed == 0 && (n < *from+most && *swarm == 0 || time.Since(begun) < *swarm) || n == *seed && *seed > 0; n++ {
		simulated += draw(n)
	}
	t.Logf("%.0f cluster-seconds simulated, %.0f a second, nothing over", simulated.Seconds(), simulated.Seconds()/time.Since(begun).Seconds())
}

// nothingOver holds the settings that seeds draw to pass nothing beyond the limit; again names the test.
func nothingOver(t *testing.T, again string, of func(seed uint64) Settings) {
	t.Helper()
	seeds(t, 100, func(n uint64) time.Duration {
		s := of(n)
		if r := run(t, s); r.Over > 0 {
			t.Fatalf("seed %d, %s, %+v: %v. Again: go test ./internal/cluster/simulation -run %s -seed %d", n, s.Limit, s, &r, again, n)
		}
		return s.For
	})
}

// TestMutants holds the swarm, or what was made for it, to finding what is wrong.
func TestMutants(t *testing.T) {
	t.Parallel()
	for m := NoMutant + 1; m < Mutants; m++ {
		caught, runs := false, uint64(0)
		for ; runs < 400 && !caught; runs++ {
			s := lure(m, runs)
			if r := run(t, s); r.Over > 0 {
				t.Fatalf("mutant %d: without it, seed %d, %+v: %v", m, runs, s, &r)
			}
			s.Mutant = m
			caught = run(t, s).Over > 0
		}
		t.Logf("mutant %d: caught by one of %d seeds", m, runs)
		if !caught {
			t.Errorf("mutant %d: not caught", m)
		}
	}
}

// lure is what makes a mutant show itself: where a bucket is full, and what somebody has of
// it is forgotten, it passes twice.
func lure(m Mutant, seed uint64) Settings {
	s := Settings{Seed: seed, Nodes: 2, Keys: 4, Limit: weir.MustParseLimit("100/s burst 1000"), Load: 30, For: 8 * time.Second, Found: true}
	switch m {
	case StartsFull:
		s.Faults.Crash = time.Second
	case Inherits:
		s.Nodes, s.Keys, s.For = 4, 1, 20*time.Second
		s.halves(first(4))
	case Prolongs:
		const cut = 6 * time.Second // nobody asks much before, so that leases last
		s.Nodes, s.Keys, s.Policy, s.For = 6, 1, protocol.Closed, 10*time.Second
		s.Parts = []Part{{From: cut, To: cut + 2*time.Second, Deaf: func(from, to int) bool { return from == 5 || to == 5 }}}
		s.Where = func(since time.Duration) int {
			if i := int(since/time.Microsecond) % 5; since > cut+1600*time.Millisecond || since%(500*time.Millisecond) < time.Millisecond {
				return i
			}
			return -1
		}
	case Unsaved, Trusts:
		s = backups(seed)
	case Hasty:
		s.Nodes, s.Spare = 3, 2
		s.Faults = Faults{Change: time.Second, Loss: 100}
	case Confuses:
		s = Swarm(manyEvery*seed + manyAt)
	default:
		s = Swarm(seed)
		s.Limit = weir.MustParseLimit([]string{"100/s burst 20", "1000/s burst 200", "1000/s burst 100"}[seed%3])
		s.Load, s.Wave = 10, time.Duration(500+seed%3*500)*time.Millisecond
	}
	return s
}

// halves cuts four nodes into two halves: those without the owner ask much just before the cut ends, all after it.
func (s *Settings) halves(owner int) {
	const heals = 16 * time.Second
	off := apartFrom(owner, 4, 2, false)
	s.Parts = []Part{{From: 2 * time.Second, To: heals, Deaf: func(from, to int) bool { return off(from) != off(to) }}}
	s.Where = func(since time.Duration) int { // first those cut off, then all
		i := int(since/time.Microsecond) % 4
		if since > heals+500*time.Millisecond || since > heals-500*time.Millisecond && since < heals && off(i) || since%(100*time.Millisecond) < time.Millisecond {
			return i
		}
		return -1
	}
}

// TestLongBucket: an auditor counts right in a bucket that takes months to fill.
func TestLongBucket(t *testing.T) {
	for _, drift := range []int64{0, 499} {
		a := audit(weir.MustParseLimit("1/h burst 3000"), drift)
		now := weir.Instant(1_704_067_200_000_000)
		for _, c := range []struct{ events, over int64 }{{1, 0}, {1066, 0}, {1933, 0}, {2, 2}} {
			if a.pass(now, c.events); a.over() != c.over {
				t.Errorf("drift %d: after %d more events %d over, want %d", drift, c.events, a.over(), c.over)
			}
		}
	}
}

// TestSeed holds a seed to be all that a run depends on.
func TestSeed(t *testing.T) {
	s := Swarm(11)
	s.Limit = weir.MustParseLimit("100/s")
	if diff := cmp.Diff(run(t, s), run(t, s)); diff != "" {
		t.Errorf("twice the same seed: %s", diff)
	}
}

// TestCalm is what sharing costs where nothing goes wrong.
func TestCalm(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"10/s", "100/s", "1000/s"} {
		for _, nodes := range []int{2, 5, 10, 50} {
			for _, load := range []int64{1, 10} {
				s := Settings{Seed: 7, Nodes: nodes, Limit: weir.MustParseLimit(text), Load: load, For: 10 * time.Second / time.Duration(1+nodes/50), Found: true}
				r := run(t, s)
				under, messages := r.under(), float64(r.Messages)/float64(nodes)/s.For.Seconds()
				t.Logf("%s, %d nodes, %d x: under %.2f %%, over %d, %.1f messages per node and second", text, nodes, load, under, r.Over, messages)
				if r.Over > 0 || under > 3 || messages > 60 {
					t.Errorf("%s, %d nodes, %d x: want nothing over, at most 3 %% under and 60 messages per node and second", text, nodes, load)
				}
			}
		}
	}
}

// TestRare holds nodes to ask little about keys of which each node is asked every few seconds,
// where there is plenty.
func TestRare(t *testing.T) {
	r := run(t, Settings{Seed: 1, Nodes: 3, Keys: 100, Limit: weir.MustParseLimit("60/min burst 10000"), Load: 1, For: time.Minute, Found: true})
	t.Logf("%v: %.2f messages for each", &r, float64(r.Messages)/float64(r.Offered))
	if r.Passed < r.Offered || r.Over > 0 || 3*r.Messages > r.Offered {
		t.Errorf("%v: want all to pass, and a message for every three of them at most", &r)
	}
}

func (r *Result) under() float64 { return 100 * float64(r.Ideal-r.Passed) / float64(max(r.Ideal, 1)) }

// TestFigures is what sharing costs where things go wrong: five nodes at ten times
// their limit.
func TestFigures(t *testing.T) {
	for _, row := range []struct {
		what   string
		faults Faults
	}{
		{"nothing wrong", Faults{}},
		{"10 % lost", Faults{Loss: 100}},
		{"10 % lost, a crash a second", Faults{Loss: 100, Crash: time.Second}},
		{"10 % lost, 5 % double, drift, crashes, pauses, cuts", Faults{
			Loss: 100, Double: 50, Drift: 500, Delay: 5 * time.Millisecond, Crash: 3 * time.Second, Pause: 3 * time.Second, Cut: 3 * time.Second,
		}},
		{"40 % lost, 10 crashes a second", Faults{Loss: 400, Crash: 100 * time.Millisecond}},
	} {
		s := Settings{
			Seed: 5, Nodes: 5, Limit: weir.MustParseLimit("100/s"), Load: 10, Wave: 2 * time.Second, Skewed: true, Found: true,
			For: max(20*time.Second, *swarm*100), Faults: row.faults,
		}
		begun := time.Now()
		r := run(t, s)
		t.Logf("%s: over %d, under %.2f %%, %.1f messages per node and second, %.0f cluster-seconds a second", row.what,
			r.Over, r.under(), float64(r.Messages)/5/s.For.Seconds(), s.For.Seconds()/time.Since(begun).Seconds())
		if r.Over > 0 || r.Passed == 0 {
			t.Errorf("%s: %v", row.what, &r)
		}
	}
}
