package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// Swarm is random faults, of which a random part happens at all: what looks for
// everything at once finds little of each.
func Swarm(seed uint64) Settings {
	r := rand.New(rand.NewPCG(seed, 2))
	s := Settings{Seed: seed, Nodes: 2 + r.IntN(6), Load: 1 + r.Int64N(12), For: 12 * time.Second, Calm: 5 * time.Second}
	s.Wave, s.Skewed = time.Duration(r.IntN(20))*100*time.Millisecond, r.IntN(2) == 1
	s.Policy = protocol.Policy(r.IntN(3)) // those that let nothing pass beyond the limit
	s.Shards, s.Remember = 2+int(seed%3), seed%2 == 1
	pick := func(n int) int { return r.IntN(2) * r.IntN(n+1) }
	s.Keys, s.Cost = 1+pick(3), 1+int64(pick(4))
	often := func(ms int) time.Duration { return time.Duration(pick(ms)) * time.Millisecond }
	s.Faults = Faults{
		Loss: pick(500), Double: pick(200), Newer: pick(100), Drift: pick(500), Delay: often(50),
		Crash: often(2000), Pause: often(2000), Cut: often(2000), Split: often(3000), Change: often(3000),
	}
	if r.IntN(3) == 0 {
		s.Turn, s.Keys = time.Duration(100+r.IntN(900))*time.Millisecond, 1+r.IntN(60)
	}
	if s.Faults.Change > 0 {
		s.Spare = r.IntN(4)
	}
	if seed%ledEvery == 0 {
		s.Leaders = 1 + int(seed/ledEvery%4)
		s.Faults.Behead = 3 * time.Second
	}
	if seed%scarceEvery == scarceEvery-1 {
		s.scarce(r)
	}
	if seed%longEvery == longEvery-1 {
		s.long(r)
	}
	if seed%manyEvery == manyAt {
		s.many(r)
	}
	return s
}

// ledEvery is how often a seed of the swarm has leaders in place of owners, of which one is killed again and
// again.
const ledEvery = 5

// scarceEvery is how often a seed of the swarm has a limit that comes back slowly, or not while it runs:
// what passes twice of it, or is lost, stays so.
const scarceEvery = 4

// scarce makes s such a run, of keys that begin as never used.
func (s *Settings) scarce(r *rand.Rand) {
	all := []string{
		"100/h", "100/h fixed-window", "100/h sliding-log", "100/h sliding-window 6",
		"5/s burst 100", "20/s burst 200", "100/10s fixed-window", "100/10s sliding-log", "100/10s sliding-window 5",
	}
	s.Limit, s.Found, s.Wave = weir.MustParseLimit(all[r.IntN(len(all))]), true, 0
	s.asks(1 + r.Int64N(1+r.Int64N(300)))
	s.For = 30 * time.Second
	for _, every := range []*time.Duration{&s.Faults.Crash, &s.Faults.Pause, &s.Faults.Cut, &s.Faults.Split, &s.Faults.Change} {
		*every *= time.Duration(r.IntN(8)) // so that all is well now and then
	}
}

// asks makes s a run with about so many requests a second.
func (s *Settings) asks(n int64) {
	spec := s.Limit.Spec()
	s.Load = max(n*spec.Period.Milliseconds()/1000/spec.Count/int64(s.asked()), 1)
}

// manyEvery is how often a seed of the swarm has many keys, from manyAt on: none of those that are scarce or
// long.
const manyEvery, manyAt = 20, 2

// many makes s a run with so many keys that each change has several nodes of a process hand over
// several at once. Nobody is killed, and little else goes wrong, for what is taken for used then hides
// what is forgotten.
func (s *Settings) many(r *rand.Rand) {
	s.scarce(r)
	s.Keys, s.Turn, s.Cost = 20+r.IntN(40), 0, 1
	s.asks(int64(s.Keys) * (5 + r.Int64N(10)))
	s.Spare = 1 + r.IntN(3)
	s.Faults = Faults{
		Loss: r.IntN(2) * r.IntN(100), Double: s.Faults.Double, Newer: s.Faults.Newer / 2, Drift: s.Faults.Drift, Delay: s.Faults.Delay / 5,
		Change: time.Duration(2000+r.IntN(3000)) * time.Millisecond,
	}
}

// Rests makes s a run in which little is asked for most of the time, so that leases last, and
// sometimes much.
func (s *Settings) Rests() {
	r := rand.New(rand.NewPCG(s.Seed, 3))
	s.Found, s.For = r.IntN(2) == 0, 40*time.Second
	s.Wave, s.Rest = time.Duration(100+r.IntN(1500))*time.Millisecond, time.Duration(1+r.IntN(12))*time.Second
	for _, often := range []*time.Duration{&s.Faults.Crash, &s.Faults.Pause, &s.Faults.Cut, &s.Faults.Split, &s.Faults.Change} {
		*often *= time.Duration(1 + r.IntN(8))
	}
	if r.IntN(2) == 0 {
		s.Turn = 0
	}
	s.Keys = min(s.Keys, 1+r.IntN(4))
}

// longEvery is how often a seed of the swarm has a cut that outlasts what most wait until they
// take who is silent for gone.
const longEvery = 50

// long makes s such a run. Only by closed may nothing more pass then. Nobody joins or leaves
// meanwhile: the simulation tells all of it at once, which no cut lets through.
func (s *Settings) long(r *rand.Rand) {
	s.Policy, s.Load, s.GiveUp, s.For, s.Nodes = protocol.Closed, 1+r.Int64N(4), 30*time.Second, 70*time.Second, max(s.Nodes, 3)
	s.Spare, s.Faults.Change = 0, 0
	side := make([]bool, s.Nodes+s.Spare)
	for i := range side {
		side[i] = r.IntN(3) == 0
	}
	from, long, oneWay := time.Duration(2+r.IntN(8))*time.Second, time.Duration(24+r.IntN(20))*time.Second, r.IntN(3) == 0
	s.Parts = []Part{{From: from, To: from + long, Deaf: func(from, to int) bool { return side[from] != side[to] && (side[from] || !oneWay) }}}
}

// Edges is settings in which each direction of each link goes on and off by itself, while nodes join, leave, are killed, and stand still: what
// finds two firsts of one key.
func Edges(seed uint64) Settings {
	r := rand.New(rand.NewPCG(seed, 7))
	s := Settings{
		Seed: seed, Nodes: 2 + r.IntN(6), Spare: r.IntN(3), Shards: 1 + r.IntN(2), Keys: 1 + r.IntN(2), For: time.Duration(20+r.IntN(25)) * time.Second, Found: true,
		Links: true, Gossip: true, Look: true, Remember: r.IntN(2) == 0, GiveUp: 30 * time.Second,
	}
	if r.IntN(2) == 0 {
		s.Nodes = 3 + r.IntN(2)
	}
	if r.IntN(6) == 0 { // long enough for some to be given up
		s.For = time.Duration(50+r.IntN(60)) * time.Second
	}
	limits := []string{"10/s burst 20", "5/s burst 100", "100/s burst 20", "100/10s fixed-window", "100/10s sliding-log", "100/h", "20/s burst 200"}
	s.Limit = weir.MustParseLimit(limits[r.IntN(len(limits))])
	s.Policy = []protocol.Policy{protocol.Closed, protocol.Closed, protocol.Closed, protocol.Reserve}[r.IntN(4)]
	switch r.IntN(8) {
	case 0, 1: // keys that are forgotten in between
		s.Turn, s.Keys = time.Duration(300+r.IntN(4000))*time.Millisecond, 2+r.IntN(7)
	case 2: // many, that are not handed over at once
		s.Keys, s.Wave, s.Skewed, s.Limit = 20+r.IntN(40), time.Duration(500+r.IntN(2000))*time.Millisecond, true, weir.MustParseLimit([]string{"6/s burst 40", "50/10s sliding-log"}[r.IntN(2)])
	}
	s.asks(5 + r.Int64N(40) + int64(10*s.Keys))
	some := func(n int) int { return r.IntN(3) / 2 * r.IntN(n) }
	s.Faults = Faults{Drift: some(4950), Loss: some(200), Double: some(100), Delay: time.Duration(some(150)) * time.Millisecond}
	n := s.Nodes + s.Spare
	between := func(a, b int) time.Duration { return time.Duration(a+r.IntN(b-a)) * time.Millisecond }
	changes, pauses := r.IntN(2) > 0, r.IntN(2) > 0
	for at := between(1500, 5000); at < s.For && (changes || pauses); at += between(100, []int{2000, 8000, 20000}[r.IntN(3)]) {
		a := Act{At: at, Node: r.IntN(n)}
		switch k := r.IntN(10); {
		case pauses && (k < 4 || !changes):
			a.What, a.Long = Pause, between(100, []int{1000, 4000, 30000}[r.IntN(3)])
		case !changes:
			continue
		case k == 4:
			a.What = Kill
		case k == 5:
			a.What = Crash
		case k < 8:
			a.What = Leave
		default:
			a.What = Join
		}
		s.Acts = append(s.Acts, a)
		if a.What == Kill || a.What == Leave {
			s.Acts = append(s.Acts, Act{At: at + between(1000, 12000), What: Join, Node: a.Node})
		}
	}
	if r.IntN(10) == 0 && s.Nodes > 2 { // a process begins by the name of another that is cut off, and lives
		s.usurps(r.IntN(s.Nodes), time.Duration(2+r.IntN(20))*time.Second)
	}
	return s
}

// usurps has the process on the machine after the last node take the name of one that nobody reaches any more. With two nodes the first by name
// would be most of them, and go on for good.
func (s *Settings) usurps(of int, at time.Duration) {
	s.Spare, s.Fence = 1, s.GiveUp
	s.Parts = []Part{{From: at, To: s.For + time.Second, Deaf: func(from, to int) bool { return from == of || to == of }}}
	s.Acts = slices.DeleteFunc(s.Acts, func(a Act) bool { return a.What != Pause || a.Node >= s.Nodes })
	s.Acts = append(s.Acts, Act{At: at + 400*time.Millisecond, What: Usurp, Node: of})
}
