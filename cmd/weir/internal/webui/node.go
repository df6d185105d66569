package webui

import (
	"time"
)

// Node is what there is to say of this node, and of those that it knows.
type Node struct {
	Facts []Fact
	// Faults is what should not be as it is.
	Faults []string
	// Members are the nodes of its cluster, this one among them; none: it is in no
	// cluster.
	Members []Member
	// Settled is whether all counts of the cluster are with their owners.
	Settled bool
	// Sharers are the nodes of its rule database, this one among them; none: it has one
	// of its own, or none.
	Sharers []Sharer
	// Cluster is what else there is to say of its part in the cluster.
	Cluster []Fact
}

// Fact is something to say of a node. A name is there once.
type Fact struct{ Name, Value string }

// Member is a node of a cluster, as this node knows it.
type Member struct {
	Name    string
	State   string // self, heard or silent
	Silent  time.Duration
	GivenUp time.Duration // until it is no member any more; 0: nobody knows
	HTTP    string        // its listener; empty: it did not tell
	Version string        // likewise
	Started time.Time     // by its own clock
	Keys    int           // of those that this node is asked about, that it owns
}

// Sharer is a node that serves the same rule database.
type Sharer struct {
	Name, Version string
	State         string // self, heard or silent
	Silent        time.Duration
	Active        string // as revision 7
	Behind        bool   // that is not the last revision there is
}

// SilentMembers is how many members say nothing.
func (n Node) SilentMembers() int {
	silent := 0
	for _, m := range n.Members {
		if m.State == "silent" {
			silent++
		}
	}
	return silent
}
