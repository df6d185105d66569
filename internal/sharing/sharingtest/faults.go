package sharingtest

import (
	"math/rand/v2"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/sharing"
)

// Mutant is a fault of the design itself, which the auditor must catch. No node has
// it: the simulation forges what nodes hear, so that they behave as if.
type Mutant int

// The mutants.
const (
	NoMutant   Mutant = iota
	CapIgnores        // what is outstanding does not count
	Credits           // what a holder has not reported until its lease ends is credited back
	Overstays         // holders use leases whose time is over
)

// tamper makes a mutant of what is delivered.
func (s *simulation) tamper(now weir.Instant, from, to int, m *sharing.Message) {
	switch {
	case s.Mutant == Overstays && m.Kind == sharing.Grant:
		m.Life = time.Hour
	case s.Mutant == CapIgnores && m.Kind == sharing.Grant:
		s.forge(now, from, to, m, m.Granted)
	case s.Mutant == Credits && m.Closed:
		m.Spent = 0
	}
}

// forge tells an owner what a holder would not.
func (s *simulation) forge(now weir.Instant, owner, holder int, grant *sharing.Message, spent int64) {
	lie := *grant
	lie.Kind, lie.Spent = sharing.Release, spent
	m := s.machines[owner]
	var none sharing.Effects
	m.node.Receive(m.clock(now), s.names[holder], &lie, &none)
}

// plan sets going what goes wrong again and again.
func (s *simulation) plan() {
	s.often(start, s.Faults.Crash, s.crash)
	s.often(start, s.Faults.Pause, func(now weir.Instant) {
		s.machines[s.random.IntN(s.Nodes)].away = now + weir.Instant(s.random.Int64N(2*sharing.Life.Microseconds()))
	})
	s.often(start, s.Faults.Cut, func(now weir.Instant) {
		s.cut[s.random.IntN(s.Nodes)][s.random.IntN(s.Nodes)] = now + weir.Instant(s.random.Int64N(1_000_000))
	})
}

func (s *simulation) often(now weir.Instant, every time.Duration, do func(weir.Instant)) {
	if every == 0 {
		return
	}
	next := now + 1 + weir.Instant(s.random.Int64N(2*every.Microseconds()))
	s.at(next, -1, func(now weir.Instant) {
		if s.calm(now, s.Calm) {
			return
		}
		do(now)
		s.often(now, every, do)
	})
}

func (s *simulation) crash(now weir.Instant) {
	i := s.random.IntN(s.Nodes)
	m := s.machines[i]
	m.away = 0
	if err := s.boot(now, i); err != nil {
		panic(err) // the same settings were good at the start
	}
}

// Swarm is random faults, of which a random part happens at all: what looks for
// everything at once finds little of each.
func Swarm(seed uint64) Settings {
	r := rand.New(rand.NewPCG(seed, 2))
	s := Settings{Seed: seed, Nodes: 2 + r.IntN(6), Load: 1 + r.Int64N(12), For: 10 * time.Second, Calm: 4 * time.Second}
	s.Wave, s.Skewed = time.Duration(r.IntN(20))*100*time.Millisecond, r.IntN(2) == 1
	pick := func(n int) int { return r.IntN(2) * r.IntN(n+1) }
	s.Faults = Faults{
		Loss: pick(500), Double: pick(200), Drift: pick(500),
		Delay: time.Duration(pick(50)) * time.Millisecond,
		Crash: time.Duration(pick(2000)) * time.Millisecond,
		Pause: time.Duration(pick(2000)) * time.Millisecond,
		Cut:   time.Duration(pick(2000)) * time.Millisecond,
	}
	return s
}
