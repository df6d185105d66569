package webui

import (
	"fmt"
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

// Words are what is said of its state.
func (s Sharer) Words() string {
	return Member{State: s.State, Silent: s.Silent}.Words()
}

// Words are what is said of a member's state.
func (m Member) Words() string {
	switch {
	case m.State != "silent":
		return map[string]string{"self": "this node", "heard": "heard"}[m.State]
	case m.GivenUp > 0:
		return fmt.Sprintf("silent for %.0f s, given up in %.0f s", m.Silent.Seconds(), m.GivenUp.Seconds())
	}
	return fmt.Sprintf("silent for %.0f s", m.Silent.Seconds())
}

// Summary says how many members there are, and whether all is well.
func (n Node) Summary() string {
	silent := 0
	for _, m := range n.Members {
		if m.State == "silent" {
			silent++
		}
	}
	said := fmt.Sprintf("%d nodes, and all reach each other.", len(n.Members))
	switch {
	case silent > 0:
		said = fmt.Sprintf("%d nodes, of which %d %s silent: each rule's partition decides.", len(n.Members), silent, areOrIs(silent))
	case len(n.Members) == 1:
		said = "This node alone. Other nodes join it with --join."
	}
	if !n.Settled {
		said += " Members have changed, and not all counts are with their owners yet."
	}
	return said
}

func areOrIs(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
