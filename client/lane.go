package client

import (
	"context"
	"time"

	"github.com/weir-limit/weir/internal/lane"
	"github.com/weir-limit/weir/internal/storewire"
)

// The bounds of a lane.
const (
	// maxTakes and maxBytes are how many takes travel together, and how large they
	// are; a larger one travels alone. Those beyond wait for the next message.
	maxTakes = 64
	maxBytes = 256 << 10
	// patience is how long takes that travel together may take, whichever caller waits. It is
	// longer than any deadline of the edge, so it ends only calls that nobody waits for.
	patience = 2 * time.Second
)

// call is a take on its way, as it is written. It has no pointer to the caller's asks or decisions: the
// caller may leave and use them again while the message is still on its way.
type call struct {
	lane.Call

	take   []byte           // a part of a storewire.Batch; not changed once the call is in the lane
	parts  int              // of storewire.MaxParts: one for the take, and one for each ask
	answer storewire.Answer // set by run, unless Err is; for take, when the lane is done with it
}

// together is how many of the first calls travel together: as many as stay within maxTakes, maxBytes and
// MaxParts. The first always goes, however large: daemon.take has refused what fits in no message.
func together(calls []*call) (n int) {
	size, parts := 0, 0
	for n < len(calls) && n < maxTakes {
		size, parts = size+len(calls[n].take), parts+calls[n].parts
		if n > 0 && (size > maxBytes || parts > storewire.MaxParts) {
			break
		}
		n++
	}
	return n
}

// alone is yes: gRPC lets a caller go that leaves.
func alone(context.Context) bool { return true }
