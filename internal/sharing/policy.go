package sharing

import "github.com/weir-limit/weir"

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
)

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
// said last: others may have used more since.
type Answer struct {
	ID       uint64
	Decision weir.Decision
}

// Member is one of the nodes that share.
type Member struct {
	Name        string
	Incarnation uint64 // more than that of every process that had the name before
	Silent      bool   // agreed, but not heard of
}
