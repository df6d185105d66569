// Package member is what a process knows of the other members of its cluster: which of them it hears, whose votes it
// has, and whether all is well. It is below package lease, which shares limits by that.
//
// Peers is a state machine without clock, network and goroutine: its caller tells it what happens and when, and sends the
// heartbeats that it wants sent. A View is its knowledge at a time, and never changes.
//
// In the code, peers.go hears heartbeats (heartbeat.go) and sees how this process stands to each member, view.go is what
// it knows then, and place.go what a process is to a key: who owns it, and who lends its vote. places.go has keys share that. loss.go is who went with
// what it had granted, and believe.go whose backups are believed. lasting.go is which leases heartbeats prolong.
// clear.go is who is clear of whose keys. presence.go is which members are heard, for nodes that decide by themselves: package counter. begin.go is how a process begins that others know.
//
// docs/cluster-protocol.md has the invariants by their numbers, and the proof.
package member

import "time"

// The times that all members go by.
const (
	// Life is how long a holder may use a lease, from when it sent the ask.
	Life = 400 * time.Millisecond
	// MaxLife is the longest life that a holder believes.
	MaxLife = time.Hour
	// Margin is how much longer the owner holds a lease than its holder does: the
	// clocks of two nodes may run 1 % apart.
	Margin = Life / 100
)

// MaxMembers is the largest number of nodes that share.
const MaxMembers = 1024

// Member is one of the nodes that share.
type Member struct {
	Name        string
	Incarnation uint64 // more than that of every process that had the name before
}
