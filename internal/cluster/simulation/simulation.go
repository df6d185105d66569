// Package simulation runs whole clusters of lease.Node in one goroutine: on a
// network that loses, doubles, delays, reorders and cuts, with clocks that drift and
// processes that are paused and killed, join and leave. All of it follows from a seed, so
// a run that found something is found again.
package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// Settings say what is simulated.
type Settings struct {
	Seed    uint64
	Nodes   int
	Spare   int // machines beside these, which may join
	Shards  int // nodes of each process, among which it divides the keys by a rule of its own; 0: 1
	Keys    int // 0: 1
	Limit   *weir.Limit
	Policy  protocol.Policy
	Leaders int           // that have the keys, in place of an owner for each; 0: none
	Load    int64         // events asked for per event that passes at the limit's pace, of each key
	Cost    int64         // requests cost from 1 to this; 0: 1
	Wave    time.Duration // Load for so long, then a fifth of the pace for as long, by turns; 0: always Load
	Rest    time.Duration // with Wave: a twentieth of the pace, and for so long
	Turn    time.Duration // one key is asked about for so long, then the next; 0: all are, always
	Skewed  bool          // some nodes get more than others, in each wave others
	For     time.Duration
	Found   bool                          // no process was there before the first ones
	Where   func(since time.Duration) int // who gets the request of a time, -1: there is none; nil: any
	Faults  Faults
	Parts   []Part
	Acts    []Act
	// Fence is how long a process by the name of another that may live has no vote.
	Fence time.Duration
	// Remember is whether processes keep a list of the members, by which the next one of their name begins.
	Remember bool
	GiveUp   time.Duration // who is not reached for so long is taken for gone by most of the others; 0: never
	Calm     time.Duration // in the end, nothing goes wrong for so long
	Links    bool          // each direction of each link goes on and off by itself
	Gossip   bool          // who the members are is told from one to another, as links allow
	Look     bool          // it looks who is the first of each key
	Mutant   Mutant
}

// Part is a time in which some don't hear others.
type Part struct {
	From, To time.Duration // since the start
	Deaf     func(from, to int) bool
}

// Act is what is done to a node at a time since the start.
type Act struct {
	At   time.Duration
	What What
	Node int
	Long time.Duration // of Pause
}

// What is a kind of event in the life of a node.
type What int

// The kinds of event.
const (
	Kill What = iota // its process ends, and none is started
	Leave
	Join
	Usurp   // a process on the machine after the last node takes its name
	Restart // its process is killed, and another knows of no member but those in its list
	Crash   // its process is killed, and another started
	Pause   // its process stands still
)

// Result is what happened. Its counts are of events, not of requests.
type Result struct {
	Offered, Passed      int64
	Ideal                int64 // what one node would have let pass of the same requests
	Last, LastIdeal      int64 // the same as Passed and Ideal, in the second half of Calm
	Over                 int64 // the most events of a key beyond the limit
	Price                int64 // of those, how many may be what was let pass by processes that were killed while they were cut off (I20)
	Messages, Heartbeats int64
	Dropped              int64         // of a kind that was not known
	LongestDeny          time.Duration // how long a node denied by itself, without asking the owner
	Series               []Step
	Looks, Led           int64  // how often it looked who is the first of a key, and there was one
	Firsts               int64  // there were two
	FirstFirsts          string // which these were the first time
}

// Step is what happened in StepLength.
type Step struct{ Passed, Ideal int64 }

// StepLength is how long a Step is.
const StepLength = 100 * time.Millisecond

func (r *Result) String() string {
	return fmt.Sprintf("%d of %d events passed, %d on one node; %d over; %d messages", r.Passed, r.Offered, r.Ideal, r.Over, r.Messages)
}

// Between is what passed from one time after the start to another, and would have on one
// node.
func (r *Result) Between(from, to time.Duration) (sum Step) {
	for _, s := range r.Series[from/StepLength : to/StepLength] {
		sum.Passed, sum.Ideal = sum.Passed+s.Passed, sum.Ideal+s.Ideal
	}
	return sum
}

type simulation struct {
	Settings
	random   *rand.Rand
	machines []*machine
	names    []string
	numbers  map[string]int   // by their names
	cut      [][]weir.Instant // [from][to]: nothing arrives until then
	watchers watchers
	links    links
	news     news
	events   events
	planted  event
	seq      uint64
	letters  []*letter // that have arrived
	fx       protocol.Effects
	beats    []member.HeartbeatTo
	keys     []subject
	requests map[uint64]asked
	alone    map[asker]weir.Instant // since when it denies by itself, by its clock
	end      weir.Instant
	id       uint64
	again    uint64
	Result
}

// subject is a key that is asked about.
type subject struct {
	state weir.StateKey
	audit auditor
	ideal weir.State
}

// asked is a request that is not answered yet.
type asked struct {
	key  int
	cost int64
}

// asker is a machine, and a key that it is asked about.
type asker struct{ machine, key int }

const (
	start = weir.Instant(1_000_000_000)
	// settling is how long it takes until processes that start have votes.
	settling = time.Second
)

// Run simulates.
func Run(s Settings) (Result, error) {
	s.Keys, s.Cost = max(s.Keys, 1), max(s.Cost, 1)
	end := start + weir.Instant(s.For/time.Microsecond)
	sim := &simulation{end: end, Settings: s, random: rand.New(rand.NewPCG(s.Seed, 1)), numbers: map[string]int{}, requests: map[uint64]asked{}, alone: map[asker]weir.Instant{}}
	sim.Series = make([]Step, s.For/StepLength+1)
	for i := range s.Keys {
		sim.keys = append(sim.keys, subject{state: s.key(i), audit: audit(s.Limit, int64(s.Faults.Drift))})
	}
	for i := range s.Nodes + s.Spare {
		name := fmt.Sprintf("node%d", i)
		sim.names, sim.numbers[name] = append(sim.names, name), i
		sim.cut = append(sim.cut, make([]weir.Instant, s.Nodes+s.Spare))
		m := &machine{name: name, member: i < s.Nodes}
		if s.Limit.Algorithm() != weir.FixedWindow { // which goes by the clock of its owner
			m.offset = sim.random.Int64N(int64(time.Hour / time.Microsecond))
			m.ppm = int64(sim.random.IntN(2*s.Faults.Drift+1) - s.Faults.Drift)
		}
		sim.machines = append(sim.machines, m)
	}
	sim.watch()
	sim.link()
	sim.begins()
	if s.Look {
		sim.at(start, sim.lookFirsts)
	}
	for i := range s.Nodes {
		if err := sim.boot(start, i, s.Found); err != nil {
			return Result{}, err
		}
	}
	for i := range s.Nodes {
		sim.tell(start, i)
	}
	sim.plan()
	sim.run()
	for i := range sim.keys {
		sim.Over = max(sim.Over, sim.keys[i].audit.over())
	}
	return sim.Result, nil
}

// key is the i-th that is asked about.
func (s *Settings) key(i int) weir.StateKey {
	key := weir.StateKey{Rule: "api", Key: fmt.Sprint("k", i)}
	if s.Leaders > 0 {
		return member.Led(key, s.Leaders)
	}
	return key
}

// run makes requests, and lets happen before each what is due.
func (s *simulation) run() {
	spec := s.Limit.Spec()
	pace := float64(spec.Period.Microseconds()) / float64(spec.Count) / float64(s.asked()) * float64(s.Cost+1) / 2
	begin := start + weir.Instant(settling/time.Microsecond)
	all, _ := s.Limit.Standing(nil, begin)
	for i := range s.keys {
		var d weir.Decision
		s.keys[i].ideal = s.Limit.Take(nil, begin, all, &d)
	}
	if s.Found {
		for i := range s.keys {
			s.keys[i].ideal = nil
		}
	}
	for now := begin; now < s.end; now += 1 + weir.Instant(s.random.ExpFloat64()*pace*s.gap(now)) {
		s.until(now)
		if i := s.pick(now); i >= 0 {
			s.request(now, i)
		}
	}
	s.until(s.end)
}

// calm is whether now lies in the last part of the run.
func (s *simulation) calm(now weir.Instant, part time.Duration) bool {
	return now >= s.end-weir.Instant(part/time.Microsecond)
}

// wave numbers the waves, from 0; odd ones are low.
func (s *simulation) wave(now weir.Instant) int {
	if s.Wave == 0 {
		return 0
	}
	since, rest := (now - start).Duration(), cmp.Or(s.Rest, s.Wave)
	n := 2 * int(since/(s.Wave+rest))
	if since%(s.Wave+rest) >= s.Wave {
		n++
	}
	return n
}

// gap is how much longer than at the limit's pace it is to the next request.
func (s *simulation) gap(now weir.Instant) float64 {
	switch {
	case s.wave(now)%2 == 1 && s.Rest > 0:
		return 20
	case s.wave(now)%2 == 1:
		return 5
	}
	return 1 / float64(s.Load)
}

func (s *simulation) step(now weir.Instant) *Step {
	return &s.Series[(now-start).Duration()/StepLength]
}

func (s *simulation) request(now weir.Instant, i int) {
	ask := asked{s.subject(now), 1 + s.random.Int64N(s.Cost)}
	key := &s.keys[ask.key]
	var d weir.Decision
	key.ideal = s.Limit.Take(key.ideal, now, ask.cost, &d)
	if d.Outcome == weir.Allowed {
		s.Ideal += ask.cost
		s.step(now).Ideal += ask.cost
		if s.calm(now, s.Calm/2) {
			s.LastIdeal += ask.cost
		}
	}
	s.Offered += ask.cost
	m := s.machines[i]
	if !m.runs() || m.away > now {
		return
	}
	s.id++
	s.requests[s.id] = ask
	m.node(key.state).Ask(m.clock(now), &protocol.Request{ID: s.id, State: key.state, Limit: s.Limit, Cost: ask.cost, Policy: s.Policy}, &s.fx)
	s.notice(m.clock(now), asker{i, ask.key})
	s.effects(now, i)
}

// asked is how many keys are asked about at a time.
func (s *Settings) asked() int {
	if s.Turn > 0 {
		return 1
	}
	return s.Keys
}

// subject is the key that is asked about: of keys that take turns, now and then one whose turn
// was before.
func (s *simulation) subject(now weir.Instant) int {
	if s.Turn == 0 {
		return s.random.IntN(s.Keys)
	}
	turn := int((now - start).Duration() / s.Turn)
	if s.random.IntN(20) == 0 {
		turn = s.random.IntN(turn + 1)
	}
	return turn % s.Keys
}

// pick is the machine that gets the next request, -1 if there is none.
func (s *simulation) pick(now weir.Instant) int {
	if s.Where != nil {
		return s.Where((now - start).Duration())
	}
	if s.up() == 0 {
		return -1
	}
	up := s.random.IntN(len(s.machines))
	for !s.machines[up].member || !s.machines[up].runs() {
		up = (up + 1) % len(s.machines)
	}
	if s.Skewed {
		other := (min(up, s.random.IntN(len(s.machines))) + s.wave(now)) % len(s.machines)
		if s.machines[other].member && s.machines[other].runs() {
			return other
		}
	}
	return up
}

// notice sees for how long a node denies by itself what another owns.
func (s *simulation) notice(now weir.Instant, by asker) {
	m, key := s.machines[by.machine], s.keys[by.key].state
	denies := len(s.fx.Messages) == 0 && len(s.fx.Answers) == 1 && s.fx.Answers[0].Decision.Outcome == weir.Denied && s.fx.Answers[0].Decision.Degraded == ""
	if owner := m.node(key).Owner(key); !denies || owner == m.name || owner == "" {
		delete(s.alone, by)
		return
	}
	awake := now - m.stood // a pause is no denial
	since, ok := s.alone[by]
	if !ok {
		since = awake
		s.alone[by] = awake
	}
	s.LongestDeny = max(s.LongestDeny, (awake - since).Duration())
}

func (s *simulation) answered(now weir.Instant, a *protocol.Answer) {
	ask := s.requests[a.ID]
	delete(s.requests, a.ID)
	if a.Decision.Outcome != weir.Allowed {
		return
	}
	s.Passed += ask.cost
	if now < s.end {
		s.step(now).Passed += ask.cost
	}
	if s.calm(now, s.Calm/2) {
		s.Last += ask.cost
	}
	if s.Policy != protocol.Open && s.Policy != protocol.Share { // which let more pass on purpose
		s.keys[ask.key].audit.pass(now, ask.cost)
	}
}
