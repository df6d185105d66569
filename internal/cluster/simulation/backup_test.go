package simulation

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// TestCrashOfSlowKeys is what the crash of a node costs keys that come back slowly, by when their first request
// comes: nothing, once the node has been given up.
func TestCrashOfSlowKeys(t *testing.T) {
	t.Parallel()
	const crash = 5 * time.Second
	for _, c := range []struct {
		limit  string
		nodes  int
		before int64 // of each key, asked for before the crash
		from   time.Duration
		what   What
		gone   time.Duration // how long after the crash the others give the node up
		least  int64         // of a hundred events of all keys, how many pass in all
	}{
		{"10/168h", 3, 0, 4 * time.Second, Kill, 29 * time.Second, 66}, // the other two have two thirds
		{"10/168h", 3, 0, 32 * time.Second, Kill, 29 * time.Second, 100},
		{"10/168h", 3, 4, 32 * time.Second, Kill, 29 * time.Second, 100},
		{"10/168h", 3, 10, 32 * time.Second, Kill, 29 * time.Second, 100},
		{"10/168h", 3, 5, 4 * time.Second, Kill, 0, 100},
		{"10/168h", 3, 0, time.Second, Kill, 300 * time.Millisecond, 98},
		{"10/168h", 3, 5, time.Second / 4, Kill, 300 * time.Millisecond, 98},
		{"10/168h", 3, 0, 4 * time.Second, Restart, 29 * time.Second, 100},
		{"10/168h", 3, 6, 4 * time.Second, Restart, 29 * time.Second, 100},
		{"10/168h", 5, 0, 32 * time.Second, Kill, 29 * time.Second, 100},
		{"1/h", 3, 0, 60 * time.Second, Kill, 29 * time.Second, 100},
		{"1/h", 2, 0, 60 * time.Second, Kill, 29 * time.Second, 100},
		{"100/24h fixed-window", 3, 50, 32 * time.Second, Kill, 29 * time.Second, 98}, // leases of the one killed are lost
		{"100/24h sliding-log", 3, 50, 32 * time.Second, Restart, 29 * time.Second, 98},
	} {
		name := fmt.Sprintf("%s, %d nodes, %d used, %v after", c.limit, c.nodes, c.before, c.from)
		const keys = 30
		s := Settings{
			Seed: 1, Nodes: c.nodes, Shards: 3, Keys: keys, Limit: weir.MustParseLimit(c.limit), Found: true, Remember: true,
			For: crash + c.from + 30*time.Second, Acts: []Act{{At: crash, What: c.what, Node: c.nodes - 1}}, GiveUp: max(c.gone, time.Millisecond),
		}
		s.asks(400)
		asked := int64(0)
		s.Where = func(since time.Duration) int {
			i := int(since/time.Microsecond) % c.nodes
			switch {
			case since < crash:
				if asked++; since < time.Second*3/2 || asked > c.before*keys {
					asked--
					return -1
				}
			case since < crash+c.from, c.what == Kill && i == c.nodes-1:
				return -1
			}
			return i
		}
		r := run(t, s)
		all := s.Limit.Spec().Count * keys
		t.Logf("%s: %d passed before, %d in all, of %d; %d over", name, r.Between(0, crash).Passed, r.Passed, all, r.Over)
		if r.Over > 0 || 100*r.Passed < c.least*all {
			t.Errorf("%s: %d of %d events passed, %d over; want %d of a hundred, and nothing over", name, r.Passed, all, r.Over, c.least)
		}
	}
}

// TestBackups holds any number of nodes of which some are killed, with keys that come back slowly, to what one would let pass: the
// next owners know of all. Nobody is cut off meanwhile, for then a node that is killed may have let pass its own share.
func TestBackups(t *testing.T) {
	t.Parallel()
	nothingOver(t, "Backups", backups)
}

// backups is a run in which processes are killed again and again, leave and join.
func backups(seed uint64) Settings {
	r := rand.New(rand.NewPCG(seed, 7))
	all := []string{"100/h", "10/168h", "100/h fixed-window", "100/h sliding-log", "100/h sliding-window 6", "2/h burst 2"}
	s := Settings{
		Seed: seed, Nodes: 2 + r.IntN(4), Shards: 1 + r.IntN(3), Keys: 1 + r.IntN(20), Cost: 1 + r.Int64N(1+r.Int64N(3)), Limit: weir.MustParseLimit(all[r.IntN(len(all))]), Found: true,
		For: 40 * time.Second, Remember: r.IntN(2) == 0, Skewed: r.IntN(2) == 0,
	}
	s.asks(1 + r.Int64N(1+r.Int64N(300)))
	s.Faults = Faults{Double: r.IntN(2) * r.IntN(200), Drift: r.IntN(500), Crash: time.Duration(2000+r.IntN(12000)) * time.Millisecond}
	for at := 4 * time.Second; r.IntN(2) == 0 && at < s.For; at += time.Duration(2000+r.IntN(10000)) * time.Millisecond {
		i := r.IntN(s.Nodes - 1) // is given up, and comes back; the last one always runs
		s.GiveUp, s.Faults.Crash, at = time.Duration(1+r.IntN(3000))*time.Millisecond, 0, at+time.Duration(r.IntN(8000))*time.Millisecond
		s.Acts = append(s.Acts, Act{At: at, What: Kill, Node: i}, Act{At: at + time.Duration(r.IntN(10000))*time.Millisecond, What: Join, Node: i})
	}
	if s.GiveUp == 0 && r.IntN(2) == 0 {
		s.Spare, s.Faults.Change = 1+r.IntN(3), time.Duration(3000+r.IntN(10000))*time.Millisecond
	}
	if r.IntN(3) == 0 {
		s.Faults.Delay = time.Duration(1+r.IntN(20)) * time.Millisecond
	}
	if r.IntN(3) == 0 {
		s.Faults.Loss = r.IntN(50)
	}
	return s
}

// TestPriceOfBackups is what they cost: a node that is cut off, decides by its own share, and is killed before it is heard again, has
// let pass that share once more; nothing of that by the other policies.
func TestPriceOfBackups(t *testing.T) {
	t.Parallel()
	const nodes, cut, kill, heal = 3, 3 * time.Second, 20 * time.Second, 21 * time.Second
	limit := weir.MustParseLimit("30/168h")
	worst := map[protocol.Policy]int64{}
	for _, policy := range []protocol.Policy{protocol.Proportional, protocol.Closed, protocol.Reserve} {
		for seed := range uint64(12) {
			off, first := int(seed)%nodes, 0
			s := Settings{
				Seed: seed, Nodes: nodes, Shards: 2, Keys: 10, Limit: limit, Policy: policy, Found: true, Remember: seed%2 == 0, For: 40 * time.Second,
				Acts: []Act{{At: kill, What: Restart, Node: off}}, Parts: []Part{{From: cut, To: heal, Deaf: func(from, to int) bool { return (from == off) != (to == off) }}},
				Where: func(since time.Duration) int {
					switch i := int(since/time.Microsecond) % nodes; {
					case since < cut && first < 30: // so that there are ledgers
						first++
						return i
					case since < kill: // only the one that is cut off is asked, from when it has its share
						if since > cut+2*time.Second {
							return off
						}
						return -1
					case since > heal+8*time.Second:
						return i
					}
					return -1
				},
			}
			s.asks(300)
			r := run(t, s)
			worst[policy] = max(worst[policy], r.Over)
		}
		t.Logf("policy %d: at most %d over", policy, worst[policy])
	}
	if most := limit.Spec().Count / nodes; worst[protocol.Proportional] > most || worst[protocol.Proportional] == 0 || worst[protocol.Closed]+worst[protocol.Reserve] > 0 {
		t.Errorf("%v events of %s over, by policy; want 1 to %d by the first, and none by the others", worst, limit, most)
	}
}
