package lease

import (
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
)

// Policy is what a node does with a limit while it hears only part of the members.
type Policy uint8

// The policies.
const (
	// Proportional gives each side as much of the limit as it has members.
	Proportional Policy = iota
	// Closed denies where the owner is not heard.
	Closed
	// Reserve is Closed, but a tenth of the limit is Proportional.
	Reserve
	// Share lets each node that does not hear the owner pass its part of the limit by
	// itself, beside what the owner lets pass.
	Share
	// Open lets all pass where the owner is not heard.
	Open

	policies
)

// PolicyOf is the policy of a rule's partition.
func PolicyOf(p weir.Partition) Policy {
	switch p {
	case weir.PartitionClosed:
		return Closed
	case weir.PartitionReserve:
		return Reserve
	case weir.PartitionShare:
		return Share
	case weir.PartitionOpen:
		return Open
	case weir.PartitionProportional:
	}
	return Proportional
}

// owns is whether a node is the first of all members by the policy.
func (p Policy) owns(at *member.Place) bool { return at.Owns && (at.Most || p == Open) }

// entitlement is the part of a limit that a ledger may grant.
type entitlement struct{ part, of int64 }

func (e entitlement) whole() bool { return e.part == e.of }

func (e entitlement) less(o entitlement) bool { return e.part*o.of < o.part*e.of }

// times is e·part/of, rounded down, and no more than e.
func (e entitlement) times(part, of entitlement) entitlement {
	if !part.less(of) || e.part == 0 {
		return e
	}
	const parts = reserved * member.MaxMembers
	return entitlement{parts * e.part * part.part * of.of / (e.of * part.of * of.part), parts}
}

// reserved is the divisor of what Reserve divides among the members.
const reserved = 10

// entitled is what policy gives to a node that has so many votes of all, and is the first of the
// members or not.
func entitled(policy Policy, votes, all int64, first bool) entitlement {
	whole := int64(0)
	if first {
		whole = 1
	}
	switch policy {
	case Closed, Open:
		return entitlement{whole, 1}
	case Reserve:
		return entitlement{whole*(reserved-1)*all + votes, reserved * all}
	case Share:
		if first {
			return entitlement{1, 1}
		}
	case Proportional, policies:
	}
	return entitlement{votes, all}
}

// Request is a request for one limit to decide about.
type Request struct {
	ID     uint64 // tells it from all that wait
	State  weir.StateKey
	Limit  *weir.Limit
	Cost   int64 // 1…weir.MaxCount
	Policy Policy
	Sticky bool // its owner is asked each time, and lends nothing ahead
}

// Answer is the decision about a request. It knows of the limit what its owner has
// said last: other nodes may have used more since.
type Answer struct {
	ID       uint64
	Decision weir.Decision
}
