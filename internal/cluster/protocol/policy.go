package protocol

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

	// Policies is how many there are.
	Policies
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

// Owns is whether a node is the first of all members by the policy.
func (p Policy) Owns(at *member.Place) bool { return at.Owns && (at.Most || p == Open) }

// Reserved is the divisor of what Reserve divides among the members.
const Reserved = 10

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

// Effects is what a node wants done: requests answered and messages sent. The caller
// empties it.
type Effects struct {
	Answers  []Answer
	Messages []Envelope
}

// Answer has a request answered.
func (fx *Effects) Answer(id uint64, d weir.Decision) {
	fx.Answers = append(fx.Answers, Answer{id, d})
}

// Send has a message sent.
func (fx *Effects) Send(to string, m Message) {
	fx.Messages = append(fx.Messages, Envelope{to, m})
}
