package ledger

import (
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// Entitlement is the part of a limit that a ledger may grant: Part/Of.
type Entitlement struct{ Part, Of int64 }

func (e Entitlement) whole() bool { return e.Part == e.Of }

func (e Entitlement) less(o Entitlement) bool { return e.Part*o.Of < o.Part*e.Of }

// times is e·part/of, rounded down, and no more than e.
func (e Entitlement) times(part, of Entitlement) Entitlement {
	if !part.less(of) || e.Part == 0 {
		return e
	}
	const parts = protocol.Reserved * member.MaxMembers
	return Entitlement{parts * e.Part * part.Part * of.Of / (e.Of * part.Of * of.Part), parts}
}

// Entitled is what policy gives to a node that has so many votes of all, and is the first of the
// members or not.
func Entitled(policy protocol.Policy, votes, all int64, first bool) Entitlement {
	whole := int64(0)
	if first {
		whole = 1
	}
	switch policy {
	case protocol.Closed, protocol.Open:
		return Entitlement{whole, 1}
	case protocol.Reserve:
		return Entitlement{whole*(protocol.Reserved-1)*all + votes, protocol.Reserved * all}
	case protocol.Share:
		if first {
			return Entitlement{1, 1}
		}
	case protocol.Proportional, protocol.Policies:
	}
	return Entitlement{votes, all}
}
