package lease

import (
	"cmp"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/ledger"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/rank"
)

// Lead is one of those who lead a seat, as a process sees it.
type Lead struct {
	Leader string // empty: members that are not heard, and may have a leader of their own
	Part   int64  // of each limit it may let pass Part/Of
	Of     int64
}

// Leads are those who lead a seat of a rule now, the one that may let pass most of each limit first. There are
// several while some members don't reach each other, and for the moment in which one takes over from another.
func Leads(v *member.View, rule string, seat int, policy protocol.Policy) []Lead {
	followed, first, all := v.Followed(weir.StateKey{Rule: rank.Mark(seat) + rule})
	return leadsOf(followed, first, all, v.Quorum > 0, policy)
}

// leadsOf is Leads where so many of all votes follow each leader, and most tells that most members are heard.
func leadsOf(followed map[string]int64, first string, all int64, most bool, policy protocol.Policy) []Lead {
	leads := make([]Lead, 0, len(followed))
	for leader, votes := range followed {
		e := ledger.Entitled(policy, votes, all, leader == first && (most || leader == ""))
		if policy == protocol.Open {
			e = ledger.Entitlement{Part: 1, Of: 1} // or more: all, where the first is not reached
		}
		leads = append(leads, Lead{leader, e.Part, e.Of})
	}
	slices.SortFunc(leads, func(a, b Lead) int {
		return cmp.Or(cmp.Compare(b.Part*a.Of, a.Part*b.Of), cmp.Compare(a.Leader, b.Leader))
	})
	return leads
}
