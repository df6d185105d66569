package shadow

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir/rules"
)

// MaxDomains is how many domains have a candidate at a time. Candidates of domains beyond, by their
// names, don't run.
const MaxDomains = 1000

// Board has how the candidates of all domains differ. The zero value has none.
// Its methods may be called from many goroutines.
type Board struct {
	running atomic.Pointer[map[string]*comparison]

	mu                sync.Mutex // held to change what runs
	active, candidate *rules.Set
}

// Run begins to compare the domains of candidate with those that are active, and ends
// what is not among them. A comparison goes on where the domain's text is the
// same in both as it was. nil: none.
func (b *Board) Run(active, candidate *rules.Set, now time.Time) (left int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.all()
	all := map[string]*comparison{}
	if candidate != nil {
		domains := candidate.Domains()
		left = max(len(domains)-MaxDomains, 0)
		for _, domain := range domains[:len(domains)-left] {
			c := before[domain]
			if c == nil || !candidate.Same(b.candidate, domain) || !active.Same(b.active, domain) {
				c = newComparison(domain, candidate, now)
			}
			all[domain] = c
		}
	}
	b.active, b.candidate = active, candidate
	b.running.Store(&all)
	return left
}

func (b *Board) all() map[string]*comparison {
	if all := b.running.Load(); all != nil {
		return *all
	}
	return nil
}

// Told counts a trial, for rules.Limiter.Try.
func (b *Board) Told(x rules.Trial) {
	if c := b.all()[x.Request.Domain]; c != nil {
		c.add(x)
	}
}

// Tick lets what is recent go on. Call it each offenders.Step.
func (b *Board) Tick(now time.Time) {
	for _, c := range b.all() {
		c.tick(now)
	}
}

// Report is how a domain's candidate differs, with so many clients of each kind
// at most; nil when it has none.
func (b *Board) Report(domain string, clients int, now time.Time) *Report {
	c := b.all()[domain]
	if c == nil {
		return nil
	}
	return c.report(now, clients)
}

// Domains is those that have a candidate, sorted.
func (b *Board) Domains() []string {
	var all []string
	for domain := range b.all() {
		all = append(all, domain)
	}
	slices.Sort(all)
	return all
}
