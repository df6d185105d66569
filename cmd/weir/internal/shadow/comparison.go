package shadow

import (
	"strings"
	"sync"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/rules"
)

// Counts are requests, by what the active rules and a candidate said to them.
type Counts struct {
	BothPass      int64 `json:"both_pass"`
	BothDeny      int64 `json:"both_deny"`
	OnlyCandidate int64 `json:"only_candidate_denies"` // the candidate alone denies
	OnlyActive    int64 `json:"only_in_force_denies"`  // the active rules alone deny
	// Unknown is those that are not compared: a fallback decided for one of them, or
	// nobody.
	Unknown int64 `json:"unknown"`
}

// Compared is how many requests both have decided.
func (c *Counts) Compared() int64 { return c.BothPass + c.BothDeny + c.OnlyCandidate + c.OnlyActive }

// Plus is the sum of c and o.
func (c *Counts) Plus(o *Counts) Counts {
	return Counts{
		c.BothPass + o.BothPass, c.BothDeny + o.BothDeny, c.OnlyCandidate + o.OnlyCandidate, c.OnlyActive + o.OnlyActive,
		c.Unknown + o.Unknown,
	}
}

func (c *Counts) minus(o *Counts) Counts {
	return Counts{
		c.BothPass - o.BothPass, c.BothDeny - o.BothDeny, c.OnlyCandidate - o.OnlyCandidate, c.OnlyActive - o.OnlyActive,
		c.Unknown - o.Unknown,
	}
}

// count adds a request, and tells which count has it.
func (c *Counts) count(x *rules.Trial) *int64 {
	n := &c.BothPass
	switch {
	case x.Candidate == nil || degraded(x.Active) || degraded(x.Candidate):
		n = &c.Unknown
	case !x.Active.Allowed && !x.Candidate.Allowed:
		n = &c.BothDeny
	case !x.Active.Allowed:
		n = &c.OnlyActive
	case !x.Candidate.Allowed:
		n = &c.OnlyCandidate
	}
	*n++
	return n
}

// degraded is whether a fallback decided anything of a.
func degraded(a *rules.Answer) bool {
	for i := range a.Decisions {
		if a.Decisions[i].Degraded != "" {
			return true
		}
	}
	return false
}

// Recent is how long ago what a Report tells of recent traffic began.
const Recent = 10 * time.Minute

const recentSteps = int(Recent / offenders.Step)

// ClientLife is how long clients are recorded to one sketch. A Report names those
// of the one in use and the one before: of twice as long at most.
const ClientLife = 24 * time.Hour

// differing is sketches of clients, as record has them, by the side that alone denied them.
type differing struct {
	since             time.Time
	candidate, active *offenders.Sketch
}

func newDiffering(now time.Time) *differing {
	return &differing{now, offenders.NewSketch(offenders.Names), offenders.NewSketch(offenders.Names)}
}

// comparison is how one candidate differs.
type comparison struct {
	key          Key
	item, stands *rules.Item // the candidate, and the active one; nil: there is none
	since        time.Time
	period       time.Duration // the longest of the candidate's limits
	looser       bool          // the candidate covers the active one

	mu     sync.Mutex
	counts Counts
	taken  Counts // of them, those that others have
	// clients are those that were treated differently; earlier is those of the day
	// before, or nil.
	clients, earlier *differing
	steps            [recentSteps]struct {
		at     time.Time
		counts Counts
	}
	step int
}

func newComparison(x *Candidate, stands *rules.Item, now time.Time) *comparison {
	c := &comparison{key: x.Key(), item: x.Item, stands: stands, since: now, period: longest(x.Item), looser: x.Item.Covers(stands), clients: newDiffering(now)}
	for i := range c.steps {
		c.steps[i].at = now
	}
	return c
}

// longest is the longest period of an item's limits.
func longest(item *rules.Item) time.Duration {
	most := time.Duration(0)
	for _, r := range item.Rules() {
		if !r.Unlimited {
			most = max(most, r.Limit.Spec().Period)
		}
	}
	return most
}

func (c *comparison) add(x rules.Trial) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.counts.count(&x) {
	case &c.counts.OnlyCandidate:
		record(c.clients.candidate, &x, x.Candidate)
	case &c.counts.OnlyActive:
		record(c.clients.active, &x, x.Active)
	}
}

// tick begins a new step of what is recent.
func (c *comparison) tick(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps[c.step].at, c.steps[c.step].counts = now, c.counts
	c.step = (c.step + 1) % recentSteps
	if now.Sub(c.clients.since) >= ClientLife {
		c.clients, c.earlier = newDiffering(now), c.clients
	}
}

// record counts whom denier denied, by which rule: the rule's name, 0, the key's. Where quotas of several rules deny only together,
// no rule does.
func record(to *offenders.Sketch, x *rules.Trial, denier *rules.Answer) {
	if denier.Decisive < 0 {
		return
	}
	d := &denier.Decisions[denier.Decisive]
	name := append([]byte(d.Rule.Name), 0)
	var room [offenders.MaxName]byte
	to.Add(append(name, offenders.Shorten(d.Rule.AppendKeyName(room[:0], x.Request.Descriptors[d.Descriptor].Entries))...), 1)
}

// Client is a client that was treated differently.
type Client struct {
	Rule     string `json:"rule"`
	Key      string `json:"key"`
	Requests int64  `json:"requests"` // at most
	Error    int64  `json:"error"`    // at least as many fewer
}

// Report is how a candidate differed from the active rules, by the requests that met it.
type Report struct {
	Key       Key
	Since, At time.Time // it ran from Since to At
	// Nodes is how many nodes have counted; 0: this one alone.
	Nodes int
	// Looser tells that the candidate can deny nothing more: rules.Item.Covers.
	Looser bool
	// Period is the longest of the candidate's limits. The candidate does not know the events
	// before Since, so for one Period it may deny less than it will.
	Period      time.Duration
	Counts      Counts
	Recent      Counts    // since RecentSince
	RecentSince time.Time // Recent before At, or Since
	// NewlyDenied are the clients that the candidate alone denied most since
	// ClientsSince, NewlyPassed those that it alone let pass.
	NewlyDenied, NewlyPassed []Client
	ClientsSince             time.Time
}

func (c *comparison) report(now time.Time, clients int) *Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest, differ := &c.steps[c.step], c.differ()
	return &Report{
		Key: c.key, Looser: c.looser, Since: c.since, At: now, Period: c.period,
		Counts: c.counts, Recent: c.counts.minus(&oldest.counts), RecentSince: oldest.at,
		NewlyDenied: ClientsOf(differ.candidate.Top(clients)), NewlyPassed: ClientsOf(differ.active.Top(clients)), ClientsSince: differ.since,
	}
}

// differ is the clients of the two days.
func (c *comparison) differ() differing {
	differ := *c.clients
	if e := c.earlier; e != nil {
		differ = differing{e.since, differ.candidate.Merge(e.candidate), differ.active.Merge(e.active)}
	}
	return differ
}

// tally is what others don't have yet; ok is false where that is nothing.
func (c *comparison) tally(clients int) (t Tally, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t = Tally{Key: c.key, Counts: c.counts.minus(&c.taken)}
	if t.Counts == (Counts{}) {
		return t, false
	}
	differ := c.differ()
	t.ClientsSince, t.Denied, t.Passed = differ.since, differ.candidate.Summary(clients), differ.active.Summary(clients)
	return t, true
}

func (c *comparison) took(counts *Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = c.taken.Plus(counts)
}

// ClientsOf is the clients that sketches of candidates have counted.
func ClientsOf(counts []offenders.Count) []Client {
	var all []Client
	for _, c := range counts {
		rule, key, _ := strings.Cut(c.Name, "\x00")
		all = append(all, Client{Rule: rule, Key: key, Requests: c.N, Error: c.Error})
	}
	return all
}
