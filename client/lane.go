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
	// are; a larger one travels alone.
	maxTakes = 64
	maxBytes = 256 << 10
	// patience is how long takes that travel together may take, whichever caller waits.
	patience = 2 * time.Second
)

// call is a take on its way, as it is written.
type call struct {
	lane.Call

	take   []byte
	parts  int // of storewire.MaxParts
	answer storewire.Answer
}

// together is how many of the first calls travel together.
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
