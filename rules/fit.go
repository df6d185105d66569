package rules

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weir-limit/weir"
)

// Fits fails with an *Error when a store with these traits can't keep a limit of
// s, or does not have what a rule of s asks for. Ask before the rules become active, and keep the old
// ones then: the error has a finding for each rule, with its place, as those of Parse.
//
// It is asked apart from Parse because a file is right or wrong by itself, whichever store it is used
// with: weir lint knows none.
func (s *Set) Fits(store weir.Traits) error {
	bad := &Error{}
	of := &findings{}
	flush := func() { bad.Findings = append(bad.Findings, of.sorted()...) }
	for _, r := range s.rules {
		if r.File != of.file {
			flush()
			of = &findings{file: r.File}
		}
		if r.Unlimited {
			continue
		}
		at := r.at.node()
		if why := r.Limit.Unfit(store); why != "" {
			of.add(at, SeverityError, r.Name, "the store can't keep %q: %s", r.Limit, why)
		}
		if why := r.Policy.Unfit(store); why != "" {
			of.add(at, SeverityError, r.Name, "%s", why)
		}
	}
	flush()
	if len(bad.Findings) > 0 {
		return bad
	}
	return nil
}

// Serves fails when the active rules can't decide requests of a domain: they have no such
// domain, or the store can't keep one of their limits, which Fits tells. Before there are
// rules it is nil. A program asks once, before the requests of that domain come.
func (l *Limiter) Serves(domain string) error {
	set := l.Set()
	switch {
	case set == nil:
		return nil
	case !slices.Contains(set.names, domain):
		return errors.New(set.noDomain(domain))
	}
	return set.Fits(l.store.Traits())
}

// Idle warns, MaxFindings times at most, of rules with words that have no effect with a store, and so may not mean what
// they seem to: about the nodes of a cluster where the store is none, and about others where
// it is one, or has such traits.
func (s *Set) Idle(cluster bool, store weir.Traits) []Finding {
	var all []Finding
	for _, r := range s.rules {
		why := r.idle(cluster, store)
		if why == "" {
			continue
		}
		all = append(all, Finding{File: r.File, Line: r.Line, Column: r.Column, Severity: SeverityWarning, Rule: r.Name, Text: why})
		if len(all) == MaxFindings {
			break
		}
	}
	return all
}

// idle says what has no effect; empty when all has.
func (r *Rule) idle(cluster bool, store weir.Traits) string {
	const elsewhere = " has no effect with this store: it is for the nodes of --store cluster:"
	owned := r.Sharing != weir.SharingDivided && !r.replicated()
	switch {
	case r.Unlimited:
		return ""
	case !cluster && r.Sharing != "":
		return "sharing: " + string(r.Sharing) + elsewhere
	case !cluster && r.Partition != "":
		return "partition: " + string(r.Partition) + elsewhere
	case store.Late && r.Sync > 0:
		return fmt.Sprintf("sync: %v gives nothing with an event log, by which each daemon decides itself, and others hear of its events later; leave it out", r.Sync)
	case store.Late && r.Lease > 0:
		return fmt.Sprintf("lease: %v gives nothing with an event log, by which each daemon decides itself, and portions that are not spent are missing elsewhere; leave it out", r.Lease)
	case cluster && r.Sync > 0:
		return fmt.Sprintf("sync: %v has no effect with --store cluster:, whose nodes need no server; sharing says how they go on by themselves", r.Sync)
	case cluster && r.Lease > 0:
		return fmt.Sprintf("lease: %v has no effect with --store cluster:, whose nodes need no server; sharing: lease, which is the default, keeps the same promise there", r.Lease)
	case cluster && r.Nodes > 0 && owned:
		return fmt.Sprintf("nodes: %d does not divide the limit with --store cluster:, whose nodes know how many they are; write sharing: divided too, or leave it out", r.Nodes)
	}
	return ""
}

// fits fails with a *RequestError when r brings a limit that a store with these
// traits can't keep. The limits of rules were asked about before they became active, by Set.Fits.
func (r *Request) fits(store weir.Store) error {
	for i := range r.Descriptors {
		l := r.Descriptors[i].Override
		if l == nil {
			continue
		}
		if why := l.Unfit(store.Traits()); why != "" {
			return &RequestError{fmt.Sprintf("descriptors[%d].limit", i), fmt.Sprintf("is %q, which the store can't keep: %s", l, why)}
		}
	}
	return nil
}
