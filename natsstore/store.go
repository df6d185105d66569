// Package natsstore keeps the states of limits in a key-value bucket of NATS (2.11 or later, with
// JetStream), so that many processes share one count.
//
// Package cas in internal decides: one key of the bucket keeps all limits of a descriptor, is read,
// decided on by the same functions as in memory, and written if its last sequence is still the one
// that was read. The server that leads the bucket compares and writes, and answers when most of its
// replicas have the write.
//
// A bucket evicts nothing: when it is full, a new count is refused, and the error says so. What it
// can lose is what its storage can: one of one replica loses its counts with that server's disk, one
// in memory with that server's process. Each then begins anew, and may pass its limit again.
//
// NATS has no clock that could decide, so each process brings its own. When these differ by up to s,
// a limit lets through in any interval what it promises for one that is longer by s:
// Limit.Bound(width + s), for an s of up to 2 s. That is why strict limits are refused. The clocks of
// servers say when a count that is over goes; they must not be further apart either.
//
// Open puts the edge around the store that a URL names: see package edge. A Store of Dial is
// without it. Its calls take the time of their context, and about 2 s for each round trip at
// most; Ask.Policy has no effect.
//
// In the code, servers.go reads URLs and connects, link.go keeps the connection and pairs answers with
// calls, bucket.go makes the bucket or refuses one that is not fit, cells.go is what the engine is given.
package natsstore

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cas"
)

// Options of a store, beside those of its URL.
type Options struct {
	// Connect are options of the client, such as nats.UserJWT. They come after those that the URL
	// sets. Those of connecting again, of pings and of handlers have no effect: they are this package's.
	Connect []nats.Option
}

// Store is a weir.Store in NATS. It must be made by Dial and closed. Its methods may be called
// from many goroutines.
type Store struct {
	*decides

	link *link
}

// decides has the methods of a weir.Store, Stats and Close.
type decides = cas.Engine

// Stats are counts of a store since it was made.
type Stats = cas.Stats

// TraitsOf are those of a store of Open: the counts are those of all processes; asks of one
// placement and key are decided at one moment; each process has its own clock; a bucket of one
// replica in memory forgets when its server restarts.
func TraitsOf(address string) (weir.Traits, error) {
	t, err := parse(address)
	if err != nil {
		return weir.Traits{}, fmt.Errorf("natsstore: %w", err)
	}
	return t.traits(), nil
}

func (t *target) traits() weir.Traits {
	return weir.Traits{Shared: true, Forgets: t.memory && t.replicas == 1, Evidence: true, Unfit: unfit}
}

// unfit says of limits that a bucket can't keep why, and what to take instead. A limit that promises
// that no window ever holds more needs one clock for all who decide. For all other limits only the
// bound grows, by how far clocks are apart. Permits are fit, for a bucket evicts nothing.
func unfit(l *weir.Limit) string {
	s := l.Spec()
	const clocks = "promises that no window ever holds more, and NATS has no clock that all share; take "
	switch {
	case s.Algorithm == weir.SlidingLog:
		return "sliding-log " + clocks + "sliding-window 60, or a Redis store"
	case s.Algorithm == weir.WarmUp:
		return "warm-up works in memory only; take leaky-queue, or keep counts with memory:"
	case s.Algorithm == weir.SlidingWindow && s.Mode == weir.Conservative:
		return "conservative " + clocks + "sliding-window without it, or a Redis store"
	case s.Algorithm != weir.SlidingWindow && s.Mode == weir.Strict:
		return "strict " + clocks + "a smaller burst without it, or a Redis store"
	}
	return ""
}
