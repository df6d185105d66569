package cluster

import (
	"maps"
	"sync/atomic"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/lease"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/rank"
	"github.com/weir-limit/weir/internal/cluster/table"
)

// led knows the names of rules whose counts are with leaders.
type led struct {
	names atomic.Pointer[map[seated]string] // at most table.MaxRules, so that a decision makes none; beyond, each does
	rules atomic.Pointer[map[string]int]    // how many leaders, by placement
}

// seated is a rule, and the seat of one of its leaders.
type seated struct {
	rule string
	seat int
}

// known is the key by which nodes know the count of an ask.
func (l *led) known(a *weir.Ask) weir.StateKey {
	k := short(a.State)
	if a.Policy.Sharing == weir.SharingLeader {
		k.Rule = l.name(seated{k.Rule, rank.Seat(k.Key, a.Policy.Leaders)})
	}
	return k
}

// all is asks with the keys by which nodes know them.
func (l *led) all(asks []weir.Ask) []weir.Ask {
	all := make([]weir.Ask, len(asks))
	for i := range asks {
		all[i] = asks[i]
		all[i].State, all[i].Evidence = l.known(&asks[i]), nil
	}
	return all
}

// count is the key by which nodes know a count of the rules that the store was told of.
func (l *led) count(k weir.StateKey) weir.StateKey {
	rules := l.rules.Load()
	if rules == nil {
		return short(k)
	}
	leaders, ok := (*rules)[k.Placement()]
	if !ok {
		return short(k)
	}
	return rank.Led(short(k), leaders)
}

// name is that of a rule with the mark of a seat.
func (l *led) name(n seated) string {
	before := l.names.Load()
	if before == nil {
		before = &map[seated]string{}
		l.names.CompareAndSwap(nil, before)
	}
	if name, ok := (*before)[n]; ok {
		return name
	}
	name := rank.Mark(n.seat) + n.rule
	if len(*before) < table.MaxRules {
		after := maps.Clone(*before)
		after[n] = name
		l.names.CompareAndSwap(before, &after) // else the next one tries again
	}
	return name
}

// Lead tells the store which rules have leaders, and how many, by their placements: a reset does not say so.
func (s *Store) Lead(rules map[string]int) {
	s.led.rules.Store(&rules)
	s.led.names.Store(nil) // of earlier rules
}

// Leads are those who lead each seat of a rule with that policy, as this node sees it; empty before View.
// state is any count of the rule.
func (s *Store) Leads(state weir.StateKey, p *weir.Policy) [][]lease.Lead {
	view := s.others.seen()
	if view == nil {
		return nil
	}
	return leadsOf(view, state, p)
}

// Hub is the hub of a rule, as this node sees it; empty where it knows of none. state is any count of the rule.
func (s *Store) Hub(state weir.StateKey) string {
	view := s.others.seen()
	if view == nil {
		return ""
	}
	return view.Hub(short(state).Placement())
}

func leadsOf(view *member.View, state weir.StateKey, p *weir.Policy) [][]lease.Lead {
	seats := make([][]lease.Lead, max(p.Leaders, 1))
	for i := range seats {
		seats[i] = lease.Leads(view, short(state).Placement(), i, protocol.PolicyOf(p.Partition))
	}
	return seats
}
