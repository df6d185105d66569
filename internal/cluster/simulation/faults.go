package simulation

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// Faults say what goes wrong. The zero Faults is a network that takes a millisecond
// and nothing else.
type Faults struct {
	Loss   int           // messages in a thousand that are lost
	Double int           // in a thousand that come twice
	Newer  int           // in a thousand that are of a later version
	Delay  time.Duration // messages take from half a millisecond to this; 0: one millisecond
	Drift  int           // clocks run so many millionths too fast or slow, at most
	Crash  time.Duration // about how often a process is killed and another started; 0: never
	Behead time.Duration // how often the owner of the first key is killed, and another process started; 0: never
	Pause  time.Duration // about how often a process stands still, for up to maxPause
	Cut    time.Duration // about how often one node is not heard by another, for up to a second
	Split  time.Duration // about how often some hear none of the others, for up to three seconds
	Change time.Duration // about how often a node leaves in order, or joins
}

// maxPause is how long a process stands still at most.
const maxPause = 2 * member.Life

// Mutant is a fault of the design itself, which the auditor must catch. No node has
// it: the simulation forges what nodes hear, so that they behave as if.
type Mutant int

// The mutants.
const (
	NoMutant   Mutant = iota
	StartsFull        // a process that starts takes keys for never used
	CapIgnores        // what is outstanding does not count
	Credits           // what a holder has not reported until its lease ends is credited back
	Overstays         // holders use leases whose time is over
	Inherits          // after a partition, votes count as if nobody else had had them
	Prolongs          // heartbeats prolong leases whatever has happened since these were granted
	Confuses          // what several nodes of a process hand over is taken for one's
	Unsaved           // a backup does not have what its owner has granted
	Trusts            // whoever is gone is believed to have had all in backups
	Hasty             // a process says that it has nothing of others' while that is on its way
	Mutants
)

// tamper makes a mutant of what is delivered.
func (s *simulation) tamper(now weir.Instant, l *letter) {
	m := &l.message
	switch s.Mutant {
	case Inherits:
		l.heartbeat.Run, l.heartbeat.Others = 1, nil
	case Overstays:
		if m.Kind == protocol.Grant {
			m.Life = time.Hour
		}
	case CapIgnores:
		if m.Kind == protocol.Grant {
			s.forge(now, l)
		}
	case Credits:
		if m.Closed && m.Kind != protocol.Handoff {
			m.Spent = 0
		}
	case Prolongs:
		l.heartbeat.Lasting, m.Lasts = 1, min(m.Lasts, 1)
	case Confuses:
		m.Shard = 0
	case Unsaved:
		if m.Kind == protocol.Backup {
			m.Words = ""
		}
	case Trusts:
		l.heartbeat.Saved, l.heartbeat.Losses, l.heartbeat.Others = true, slices.Clone(l.heartbeat.Losses), slices.Clone(l.heartbeat.Others)
		for i := range l.heartbeat.Losses {
			l.heartbeat.Losses[i].Saved, l.heartbeat.Losses[i].Alone = true, true
		}
		for i := range l.heartbeat.Others {
			l.heartbeat.Others[i].Saved = true
		}
	case NoMutant, StartsFull, Hasty, Mutants:
	}
}

// fill makes a process that has started take a key for never used.
func (s *simulation) fill(now weir.Instant, i int) {
	m := s.machines[i]
	if !m.runs() {
		return
	}
	s.again++
	full := protocol.Message{
		Kind: protocol.Handoff, State: s.keys[0].state, Limit: s.Limit.String(), Incarnation: 1 << 40, Epoch: m.incarnation, ID: s.again,
		At: m.clock(now), Part: 1, Of: 1, Wait: time.Second,
	}
	m.node(full.State).Receive(m.clock(now), s.names[(i+1)%len(s.names)], &full, &s.fx)
	s.effects(now, i)
}

// forge tells an owner that a holder has let all pass that it was granted.
func (s *simulation) forge(now weir.Instant, grant *letter) {
	m := s.machines[grant.from]
	if !m.runs() {
		return
	}
	lie := grant.message
	lie.Kind, lie.Spent = protocol.Release, lie.Granted
	var none protocol.Effects
	m.node(lie.State).Receive(m.clock(now), s.names[grant.to], &lie, &none)
}

// plan sets going what goes wrong again and again.
func (s *simulation) plan() {
	any := func() int { return s.random.IntN(len(s.machines)) }
	s.often(start, s.Faults.Crash, func(now weir.Instant) { s.crash(now, any()) })
	s.each(start, s.Faults.Behead, s.behead)
	s.often(start, s.Faults.Pause, func(now weir.Instant) {
		i := any()
		s.pause(now, i, weir.Instant(s.random.Int64N(maxPause.Microseconds())))
	})
	s.often(start, s.Faults.Cut, func(now weir.Instant) {
		s.cut[any()][any()] = now + weir.Instant(s.random.Int64N(1_000_000))
	})
	s.often(start, s.Faults.Split, s.split)
	s.often(start, s.Faults.Change, s.change)
	for _, a := range s.Acts {
		s.at(start+weir.Instant(a.At/time.Microsecond), func(now weir.Instant) { s.act(now, a) })
	}
}

func (s *simulation) act(now weir.Instant, a Act) {
	switch a.What {
	case Kill:
		s.kill(a.Node)
	case Leave:
		if m := s.machines[a.Node]; m.runs() && m.member && s.up() > 1 {
			s.leave(now, a.Node)
		}
	case Join:
		if m := s.machines[a.Node]; !m.runs() || m.peers.Parted(m.clock(now)) {
			s.join(now, a.Node)
		}
	case Usurp:
		s.usurp(now, s.Nodes, a.Node)
	case Restart:
		s.restart(now, a.Node)
	case Crash:
		s.crash(now, a.Node)
	case Pause:
		s.pause(now, a.Node, weir.Instant(a.Long/time.Microsecond))
	}
}

// pause has a process stand still.
func (s *simulation) pause(now weir.Instant, i int, long weir.Instant) {
	if m := s.machines[i]; m.away <= now {
		m.away, m.stood = now+long, m.stood+long
	}
}

// split cuts the machines into two sides, or in one direction, for long or in bursts.
func (s *simulation) split(now weir.Instant) {
	side := make([]bool, len(s.machines))
	for i := range side {
		side[i] = s.random.IntN(2) == 0
	}
	oneWay := s.random.IntN(3) == 0
	long := weir.Instant(s.random.Int64N([]int64{400_000, 3_000_000}[s.random.IntN(2)]))
	for from := range side {
		for to := range side {
			if side[from] != side[to] && (side[from] || !oneWay) {
				s.cut[from][to] = now + long
			}
		}
	}
}

// change makes a node leave or join.
func (s *simulation) change(now weir.Instant) {
	i := s.random.IntN(len(s.machines))
	members := 0
	for _, m := range s.machines {
		members += int(count(m.member))
	}
	switch m := s.machines[i]; {
	case !m.runs() && !m.member:
		s.join(now, i)
	case m.member && members > 2 && m.runs():
		s.leave(now, i)
	}
}

// parted is whether to does not hear from, by Parts.
func (s *simulation) parted(now weir.Instant, from, to int) bool {
	if s.links.down[from][to] && from != to {
		return true
	}
	for i := range s.Parts {
		p := &s.Parts[i]
		if since := (now - start).Duration(); since >= p.From && since < p.To && p.Deaf(from, to) {
			return true
		}
	}
	return false
}

func (s *simulation) often(now weir.Instant, every time.Duration, do func(weir.Instant)) {
	if every == 0 {
		return
	}
	next := now + 1 + weir.Instant(s.random.Int64N(2*every.Microseconds()))
	s.at(next, func(now weir.Instant) {
		if s.calm(now, s.Calm) {
			return
		}
		do(now)
		s.often(now, every, do)
	})
}

// each does something in regular intervals.
func (s *simulation) each(now weir.Instant, every time.Duration, do func(weir.Instant)) {
	if every == 0 {
		return
	}
	s.at(now+weir.Instant(every/time.Microsecond), func(now weir.Instant) {
		if s.calm(now, s.Calm) {
			return
		}
		do(now)
		s.each(now, every, do)
	})
}

// behead kills the process that owns the first key, as some process that runs sees it.
func (s *simulation) behead(now weir.Instant) {
	key := s.keys[0].state
	for _, m := range s.machines {
		if !m.runs() {
			continue
		}
		if owner := m.node(key).Owner(key); owner != "" {
			s.crash(now, s.numbers[owner])
			return
		}
	}
}

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
