package gossip

import "sync/atomic"

// Reason is why something was dropped.
type Reason uint8

// The reasons. None is that of what was taken.
const (
	None         Reason = iota
	Truncated           // in: the packet ends too early
	Oversize            // in: the packet is too long; out: the message is
	Version             // in: of another version, or no packet at all
	UnknownKey          // in: sealed with a key that this node was not given, or not sealed
	Forged              // in: the key does not open it, or it is for another process
	Replayed            // in: it came before, or windowSize packets late
	Unknown             // in and out: no member of that name or number
	Old                 // in: of a process that has left, is gone, or was replaced
	OwnName             // in: of this process itself
	Garbled             // in: it was opened, and is no messages
	Budget              // in and out: more than maxPackets a second; out: the queue is full
	Unreachable         // out: the system did not send it
	Membership          // in: memberlist had no room for it
	OtherCluster        // in: of a node of another cluster, by its name
	reasons
)

var reasonNames = [reasons]string{
	"none", "truncated", "oversize", "version", "unknown-key", "forged", "replayed", "unknown-member", "old", "own-name",
	"garbled", "budget", "unreachable", "membership", "other-cluster",
}

func (r Reason) String() string { return reasonNames[r] }

// Reasons are all reasons but None, for metrics.
func Reasons() []Reason {
	all := make([]Reason, 0, reasons-1)
	for r := Truncated; r < reasons; r++ {
		all = append(all, r)
	}
	return all
}

// Traffic is what went one way since the start, on the data plane.
type Traffic struct {
	Packets  uint64 // datagrams and frames, heartbeats among them
	Bytes    uint64 // of packets
	Messages uint64
	Dropped  [reasons]uint64 // by Reason: packets that came, messages that were to go
}

// Stats are counts since the start.
type Stats struct {
	In, Out Traffic
	Streams int // that others have open to here
}

// traffic counts one way.
type traffic struct {
	packets, bytes, messages atomic.Uint64
	dropped                  [reasons]atomic.Uint64
}

func (t *traffic) drop(r Reason) { t.dropped[r].Add(1) }

func (t *traffic) read() Traffic {
	r := Traffic{Packets: t.packets.Load(), Bytes: t.bytes.Load(), Messages: t.messages.Load()}
	for i := range r.Dropped {
		r.Dropped[i] = t.dropped[i].Load()
	}
	return r
}
