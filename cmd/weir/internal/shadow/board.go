package shadow

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/rules"
)

// MaxCandidates is how many candidates run at a time. Those beyond, by their domains and rules, don't.
const MaxCandidates = 1000

// Candidate is an item that may take the place of the active one.
type Candidate struct {
	Item *rules.Item
	// Version is that of the rule in a rule database, and Over the version that is active, 0: none. Both are 0 for an
	// item of a file.
	Version, Over int64
}

// Key tells a candidate from others, and from itself beside other active rules.
type Key struct {
	Domain, Rule  string // Rule is rules.Item.ID
	Version, Over int64
}

// Key is that of c.
func (c *Candidate) Key() Key { return Key{c.Item.Domain(), c.Item.ID(), c.Version, c.Over} }

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Domain, o.Domain), cmp.Compare(k.Rule, o.Rule))
}

// Board has how candidates differ, each from the active rules. The zero value has none.
// Its methods may be called from many goroutines.
type Board struct {
	running atomic.Pointer[map[*rules.Item]*comparison]

	mu sync.Mutex // held to change what runs
}

// Run begins to compare candidates with those that are active, and ends what is not among them. A comparison goes on where
// the candidate is the same as it was, and the active item of its key and value, too. tried is the items that run, for
// rules.Limiter.Try.
func (b *Board) Run(active *rules.Set, candidates []Candidate, now time.Time) (tried []*rules.Item, left int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	candidates = slices.Clone(candidates)
	slices.SortFunc(candidates, func(a, b Candidate) int { return a.Key().compare(b.Key()) })
	left = max(len(candidates)-MaxCandidates, 0)
	before := map[Key]*comparison{}
	for _, c := range b.all() {
		before[c.key] = c
	}
	all := map[*rules.Item]*comparison{}
	for _, x := range candidates[:len(candidates)-left] {
		stands := active.Item(x.Item.Domain(), x.Item.Entry())
		c := before[x.Key()]
		if c == nil || !x.Item.Same(c.item) || !stands.Same(c.stands) {
			c = newComparison(&x, stands, now)
		}
		all[x.Item] = c
		tried = append(tried, x.Item)
	}
	b.running.Store(&all)
	return tried, left
}

func (b *Board) all() map[*rules.Item]*comparison {
	if all := b.running.Load(); all != nil {
		return *all
	}
	return nil
}

// Told counts a trial, for rules.Limiter.Try.
func (b *Board) Told(x rules.Trial) {
	if c := b.all()[x.Item]; c != nil {
		c.add(x)
	}
}

// Tick lets what is recent go on. Call it each offenders.Step.
func (b *Board) Tick(now time.Time) {
	for _, c := range b.all() {
		c.tick(now)
	}
}

// Reports is how the candidates of a domain differ, by their rules, with so many clients of each kind at most; "": of all domains.
func (b *Board) Reports(domain string, clients int, now time.Time) []*Report {
	var all []*Report
	for _, c := range b.all() {
		if domain == "" || domain == c.key.Domain {
			all = append(all, c.report(now, clients))
		}
	}
	slices.SortFunc(all, func(a, b *Report) int { return a.Key.compare(b.Key) })
	return all
}

// Tally is what a node has counted of one candidate, for others.
type Tally struct {
	Key Key
	// Counts is those since the last that was taken.
	Counts Counts
	// ClientsSince is since when this node has counted clients.
	ClientsSince time.Time
	// Denied and Passed are the clients that the candidate alone denied most, and those that it alone let pass, since
	// ClientsSince. Names are as record has them.
	Denied, Passed offenders.Summary
}

// Tallies is what was counted of candidates of a rule database and not taken yet. Call Taken with those that somebody keeps, from
// one goroutine at a time.
func (b *Board) Tallies(clients int) []Tally {
	var all []Tally
	for _, c := range b.all() {
		if t, ok := c.tally(clients); ok && c.key.Version > 0 {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b Tally) int { return a.Key.compare(b.Key) })
	return all
}

// Taken notes that tallies are kept, and need not be told again.
func (b *Board) Taken(tallies []Tally) {
	taken := map[Key]*Tally{}
	for i := range tallies {
		taken[tallies[i].Key] = &tallies[i]
	}
	for _, c := range b.all() {
		if t := taken[c.key]; t != nil {
			c.took(&t.Counts)
		}
	}
}
