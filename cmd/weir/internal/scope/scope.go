// Package scope says whose clients somebody may read of: which rules may tell them the names and
// counts of clients that they deny, explanations, and how candidates differ.
package scope

import (
	"slices"

	"github.com/weir-limit/weir/rules"
)

// Rule is a rule of a rule file: an item of the descriptors of a domain. ID is that of
// rules.Item.
type Rule struct{ Domain, ID string }

// Scope is the rules whose clients somebody may read of. Nil has none. It is made by All or New,
// and does not change.
type Scope struct {
	all     bool
	domains map[string]bool
	partly  map[string]bool // that have one of items
	items   map[Rule]bool
	names   map[Rule]bool // of rules that are active, by what rules.Rule calls them in place of their ID
}

// All is all rules.
func All() *Scope { return &Scope{all: true} }

// New is whole domains, and single rules of others. active is the rules that are active; nil: none are.
func New(domains []string, single []Rule, active *rules.Set) *Scope {
	s := &Scope{domains: map[string]bool{}, partly: map[string]bool{}, items: map[Rule]bool{}, names: map[Rule]bool{}}
	for _, d := range domains {
		s.domains[d] = true
	}
	for _, r := range single {
		s.items[r], s.partly[r.Domain] = true, true
	}
	if active == nil || len(single) == 0 {
		return s
	}
	foreign := map[Rule]bool{}
	for _, r := range active.Rules() {
		if !s.partly[r.Domain] {
			continue
		}
		named := Rule{r.Domain, r.Name}
		if s.items[itemOf(r)] {
			s.names[named] = true
		} else {
			foreign[named] = true
		}
	}
	for named := range foreign { // rules of one name are counted together
		delete(s.names, named)
	}
	return s
}

func itemOf(r *rules.Rule) Rule {
	if len(r.Path) == 0 {
		return Rule{Domain: r.Domain}
	}
	return Rule{r.Domain, r.Path[0].ID()}
}

// Whole is whether it has all rules there are.
func (s *Scope) Whole() bool { return s != nil && s.all }

// Domain is whether it has all of a domain.
func (s *Scope) Domain(domain string) bool { return s != nil && (s.all || s.domains[domain]) }

// Any is whether it has a rule of a domain.
func (s *Scope) Any(domain string) bool { return s.Domain(domain) || s != nil && s.partly[domain] }

// Item is whether it has the rule of an ID.
func (s *Scope) Item(domain, id string) bool {
	return s.Domain(domain) || s != nil && s.items[Rule{domain, id}]
}

// Named is whether it has all active rules of a name.
func (s *Scope) Named(domain, name string) bool {
	return s.Domain(domain) || s != nil && s.names[Rule{domain, name}]
}

// Explanation is whether it has all that an explanation tells of.
func (s *Scope) Explanation(x *rules.Explanation) bool {
	if s.Domain(x.Domain) {
		return true
	}
	met := 0
	for i := range x.Descriptors {
		met += len(x.Descriptors[i].Rules)
		if slices.ContainsFunc(x.Descriptors[i].Rules, func(r *rules.Rule) bool { return !s.Item(x.Domain, itemOf(r).ID) }) {
			return false
		}
	}
	return met > 0
}
