package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// Part is how much of their limits keys have now at this node, of the rules with a partition policy.
type Part struct {
	Partition string `json:"partition"`
	// Has is how much, in words: all, 2/3, nothing.
	Has string `json:"has"`
	// Until and Why are empty where keys have all.
	Until string `json:"until,omitempty"`
	Why   string `json:"why,omitempty"`
}

// String says so in a line.
func (p *Part) String() string { return fmt.Sprintf("partition: %s: %s", p.Partition, p.Told()) }

// Told is String without the policy.
func (p *Part) Told() string {
	s := "keys have " + p.Has
	if p.Until != "" {
		s += " until " + p.Until
	}
	if p.Why != "" {
		s += ", because " + p.Why
	}
	return s
}

// PartsOf works out what keys have now by the policies of a set's rules, as this node sees the members. Rules by
// which each node decides by itself have no part in it.
func PartsOf(set *rules.Set, s *Status) (parts []Part) {
	if set == nil || len(s.Members) == 0 {
		return nil
	}
	used := map[weir.Partition]bool{}
	for _, r := range set.Rules() {
		used[partitionOf(r)] = true
	}
	for _, p := range []weir.Partition{weir.PartitionProportional, weir.PartitionClosed, weir.PartitionReserve, weir.PartitionShare, weir.PartitionOpen} {
		if used[p] {
			parts = append(parts, s.part(p))
		}
	}
	return parts
}

// PartOf is what keys of a rule have now, where that is not all.
func PartOf(r *rules.Rule, s *Status) (part Part, short bool) {
	p := partitionOf(r)
	if p == "" || len(s.Members) == 0 {
		return Part{}, false
	}
	part = s.part(p)
	return part, part.Why != ""
}

// partitionOf is what a rule says about a cluster of which a part is not heard; empty where its keys have no owner.
func partitionOf(r *rules.Rule) weir.Partition {
	switch r.Sharing {
	case "", weir.SharingLease, weir.SharingSticky, weir.SharingLeader:
		if !r.Unlimited {
			return cmp.Or(r.Partition, weir.PartitionProportional)
		}
	case weir.SharingMesh, weir.SharingGossip, weir.SharingHub, weir.SharingDivided:
	}
	return ""
}

// part is what keys of rules with that policy have.
func (s *Status) part(policy weir.Partition) Part {
	p := Part{Partition: string(policy), Has: "all of each limit"}
	all, gone, heard := len(s.Members), s.silent(), 0
	if heard = all - len(gone); len(gone) == 0 {
		if !s.Settled {
			p.Has += ", but for keys that are on their way to another owner, which have nothing"
			p.Until, p.Why = "all counts are with their owners: a second, as a rule", "members have changed"
		}
		return p
	}
	theirs := "keys that " + strings.Join(gone, ", ") + " owns"
	p.Until, p.Why = s.until(gone), fmt.Sprintf("this node does not hear %d of %d members", len(gone), all)
	switch policy {
	case weir.PartitionClosed:
		if p.Has += ", and " + theirs + " nothing"; s.Minority {
			p.Has, p.Why = "nothing", "this node has not heard most of the members for 25 s"
		}
	case weir.PartitionReserve:
		part := fmt.Sprintf("%d/%d of each limit", 9*all+heard, 10*all)
		p.Has = fmt.Sprintf("%s, and %s %d/%d", part, theirs, heard, 10*all)
		if s.Minority {
			p.Has = fmt.Sprintf("%d/%d of each limit", heard, 10*all)
		}
	case weir.PartitionShare:
		p.Has += fmt.Sprintf(", and %s %d/%d", theirs, heard, all)
	case weir.PartitionOpen:
		p.Has += ", and " + theirs + " pass without a limit"
	case weir.PartitionProportional:
		p.Has = fmt.Sprintf("%d/%d of each limit", heard, all)
	}
	return p
}

// silent is the members that this node does not hear.
func (s *Status) silent() (names []string) {
	for _, m := range s.Members {
		if m.State == "silent" {
			names = append(names, m.Name)
		}
	}
	return names
}

// until is when keys have all again.
func (s *Status) until(gone []string) string {
	are := " is"
	if len(gone) > 1 {
		are = " are"
	}
	heard := strings.Join(gone, ", ") + are + " heard again"
	first := s.Members[0].State != "silent" // by name
	if most := 2*len(gone) < len(s.Members) || 2*len(gone) == len(s.Members) && first; !most {
		return heard + ", or weir cluster forget NAME if they are gone for good"
	}
	longest := slices.MaxFunc(s.Members, func(a, b Member) int { return cmp.Compare(a.GivenUpSeconds, b.GivenUpSeconds) })
	if longest.GivenUpSeconds > 0 {
		return fmt.Sprintf("%s, or given up in %.0f s", heard, longest.GivenUpSeconds)
	}
	return heard + ", or given up"
}
