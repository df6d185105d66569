package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/rank"
)

// Result is what happened. Its counts are of events, not of requests.
type Result struct {
	Stats

	Offered, Passed int64
	Ideal           int64         // what one node would have let pass of the same requests
	Last, LastIdeal int64         // the same as Passed and Ideal, in the second half of Calm
	Over            int64         // the most events of a key beyond the limit
	LongestDeny     time.Duration // how long a node denied by itself, without asking the owner
	Series          []Step
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

// load is the requests to a cluster, and what comes of them.
type load struct {
	*Cluster

	keys   []subject
	result Result
}

// subject is a key that is asked about.
type subject struct {
	state    weir.StateKey
	audit    auditor
	ideal    weir.State
	answered func(weir.Instant, weir.Decision)
	owners   []owner // as each machine sees it
}

// owner is that of a key in all views of a version.
type owner struct {
	by      *member.Peers
	version uint64
	name    string
}

const (
	start = weir.Instant(1_000_000_000)
	// settling is how long it takes until processes that start have votes.
	settling = time.Second
)

// Run simulates a cluster and requests to it. The network takes from half a millisecond to Faults.Delay;
// 0: a millisecond.
func Run(s Settings) (Result, error) {
	s.Cost = max(s.Cost, 1)
	n := network{least: 1000, most: 1000, loss: s.Faults.Loss, double: s.Faults.Double, newer: s.Faults.Newer}
	if n.double == 0 {
		n.double = -1
	}
	if s.Faults.Delay > 0 {
		n.least, n.most = 500, max(weir.Instant(s.Faults.Delay/time.Microsecond), 501)
	}
	skew := time.Hour
	if s.Limit.Algorithm() == weir.FixedWindow { // which goes by the clock of its owner
		skew = 0
	}
	c, err := newCluster(start, s, rand.New(rand.NewPCG(s.Seed, 1)), int64(skew/time.Microsecond), n)
	if err != nil {
		return Result{}, err
	}
	l := &load{Cluster: c, result: Result{Series: make([]Step, s.For/StepLength+1)}}
	for i := range c.Keys {
		audit := audit(s.Limit, int64(s.Faults.Drift))
		l.keys = append(l.keys, subject{state: s.key(i), audit: audit, answered: l.answered(audit), owners: make([]owner, len(c.machines))})
	}
	l.run()
	for i := range l.keys {
		l.result.Over = max(l.result.Over, l.keys[i].audit.over())
	}
	l.result.Stats = c.Stats
	return l.result, nil
}

// key is the i-th that is asked about.
func (s *Settings) key(i int) weir.StateKey {
	key := weir.StateKey{Rule: "api", Key: fmt.Sprint("k", i)}
	if s.Leaders > 0 {
		return rank.Led(key, s.Leaders)
	}
	return key
}

// run makes requests, and lets happen before each what is due.
func (s *load) run() {
	spec := s.Limit.Spec()
	pace := float64(spec.Period.Microseconds()) / float64(spec.Count) / float64(s.asked()) * float64(s.Cost+1) / 2
	begin := start + weir.Instant(settling/time.Microsecond)
	all, _ := s.Limit.Standing(nil, begin)
	for i := range s.keys {
		if !s.Found {
			s.keys[i].ideal = s.Limit.Take(nil, begin, all, new(weir.Decision))
		}
	}
	for now := begin; now < s.end; now += 1 + weir.Instant(s.random.ExpFloat64()*pace*s.gap(now)) {
		s.Until(now)
		if i := s.pick(now); i >= 0 {
			s.request(now, i)
		}
	}
	s.Until(s.end)
}

// wave numbers the waves, from 0; odd ones are low.
func (s *load) wave(now weir.Instant) int {
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
func (s *load) gap(now weir.Instant) float64 {
	switch {
	case s.wave(now)%2 == 1 && s.Rest > 0:
		return 20
	case s.wave(now)%2 == 1:
		return 5
	}
	return 1 / float64(s.Load)
}

func (s *load) step(now weir.Instant) *Step {
	return &s.result.Series[(now-start).Duration()/StepLength]
}

func (s *load) request(now weir.Instant, i int) {
	key, cost := &s.keys[s.subject(now)], 1+s.random.Int64N(s.Cost)
	var d weir.Decision
	key.ideal = s.Limit.Take(key.ideal, now, cost, &d)
	if d.Outcome == weir.Allowed {
		s.result.Ideal += cost
		s.step(now).Ideal += cost
		if s.calm(now, s.Calm/2) {
			s.result.LastIdeal += cost
		}
	}
	s.result.Offered += cost
	if m := s.machines[i]; m.runs() && m.away <= now {
		s.ask(now, m, &protocol.Request{State: key.state, Limit: s.Limit, Cost: cost, Policy: s.Policy}, key.answered)
		s.notice(now, m, key, &key.owners[i])
		s.effects(now, i)
	}
}

// asked is how many keys are asked about at a time.
func (s *Settings) asked() int {
	if s.Turn > 0 {
		return 1
	}
	return max(s.Keys, 1)
}

// subject is the key that is asked about: of keys that take turns, now and then one whose turn
// was before.
func (s *load) subject(now weir.Instant) int {
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
func (s *load) pick(now weir.Instant) int {
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
func (s *load) notice(now weir.Instant, m *machine, key *subject, of *owner) {
	denies := len(s.fx.Messages) == 0 && len(s.fx.Answers) == 1 && s.fx.Answers[0].Decision.Outcome == weir.Denied && s.fx.Answers[0].Decision.Degraded == ""
	if denies && (of.by != m.peers || of.version != m.view.Version) {
		*of = owner{m.peers, m.view.Version, m.node(key.state).Owner(key.state)}
	}
	if !denies || of.name == m.name || of.name == "" {
		delete(m.alone, key.state)
		return
	}
	awake := m.clock(now) - m.stood // a pause is no denial
	since, ok := m.alone[key.state]
	if !ok {
		since = awake
		m.alone[key.state] = awake
	}
	s.result.LongestDeny = max(s.result.LongestDeny, (awake - since).Duration())
}

// answered is what hears the answers about a key.
func (s *load) answered(by auditor) func(now weir.Instant, d weir.Decision) {
	return func(now weir.Instant, d weir.Decision) {
		if d.Outcome != weir.Allowed {
			return
		}
		s.result.Passed += d.Cost
		if now < s.end {
			s.step(now).Passed += d.Cost
		}
		if s.calm(now, s.Calm/2) {
			s.result.Last += d.Cost
		}
		if s.Policy != protocol.Open && s.Policy != protocol.Share { // which let more pass on purpose
			by.pass(now, d.Cost)
		}
	}
}
