package rules

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

// parted refuses policies for partitions that make no sense; key and at are where the
// word and its value stand. A policy says what a node does that can't reach the owner of a key, so it
// means nothing where keys have no owners.
func (f *file) parted(key, at *yaml.Node, base *Rule, made []*Rule) {
	switch {
	case base.Sharing == weir.SharingDivided:
		f.add(key, SeverityWarning, base.Name, "partition has no effect beside sharing: divided: nodes tell each other nothing, and miss nothing")
	case base.replicated() && (base.Partition == weir.PartitionClosed || base.Partition == weir.PartitionReserve):
		f.add(at, SeverityError, base.Name, "partition: %s is for limits whose keys have owners; with sharing: %s each node goes on by itself: take partition: proportional or share, or sharing: lease", base.Partition, base.Sharing)
	case base.Partition == weir.PartitionOpen:
		for _, r := range made {
			if r.Limit.NeverOver() {
				mode := r.Limit.Spec().Mode
				f.add(at, SeverityError, r.Name, "partition: open is impossible for %q: all would pass while nodes can't reach each other, which is what %s is to prevent; take partition: closed, or leave out %s", r.Limit, mode, mode)
			}
		}
	}
}

// messageTime is how long messages between nodes are taken to travel, where it is told
// how far nodes may be apart. Nodes of one data centre need less than a millisecond, and those of two
// that are 1,000 km apart about ten.
const messageTime = 10 * time.Millisecond

// apart says in words how far the nodes of a cluster may be apart about a count;
// empty when they are not. It is a note of an explanation: the count that a node shows may lack what
// others have let pass since they last told. Of a rule with a leader it says who decided.
func (r *Rule) apart() string {
	nodes := max(r.Nodes, 2)
	switch r.Sharing {
	case weir.SharingDivided:
		return "in a cluster this is one node's part: it is divided, and each node knows of its own only"
	case weir.SharingMesh, weir.SharingGossip, weir.SharingHub:
		delay := bounds.Delay(r.Sharing, nodes, messageTime)
		ahead := bounds.Ahead(r.Limit, r.Sharing, nodes, delay, 1)
		if r.Nodes > 1 {
			return fmt.Sprintf("in a cluster %d nodes share this count by %s: what they have let pass in the last %v, %d events at most, may be unknown here", r.Nodes, r.Sharing, delay, ahead)
		}
		return fmt.Sprintf("in a cluster nodes share this count by %s: what each other node has let pass in the last %v, %d events at most, may be unknown here", r.Sharing, delay, ahead)
	case weir.SharingLeader:
		return "in a cluster the leader of this rule decided, or this node by a lease of its leader; weir cluster leader names it"
	case weir.SharingLease, weir.SharingSticky:
	}
	return ""
}

// unread is apart for daemons that share by an event log, whatever the rule says of a cluster.
func (r *Rule) unread() string {
	others, nodes := "each other daemon", 2
	if r.Nodes > 1 {
		others, nodes = fmt.Sprintf("the others of %d daemons", r.Nodes), r.Nodes
	}
	return fmt.Sprintf("daemons share this count by an event log: what %s let pass that this one has not read yet, %d events at most where the log is %v late, is missing here",
		others, bounds.Ahead(r.Limit, bounds.Log, nodes, bounds.LogUsual, 1), bounds.LogUsual)
}

// Together says in words, for weir lint, what so many nodes of a cluster let pass together, beyond
// what the limit lets one pass, and what more while they don't hear each other; nodes is 0 when it
// is not known. exact is whether that is nothing, but for cuts that last until one side has
// given up the other.
//
//	nothing more, on any number of nodes
//	divided: each of 3 nodes passes 1/3 of it; each start of a node, … adds at most 33
//	mesh: at most 12 more, for each of 3 nodes learns of the other nodes' events up to 30ms late
func (r *Rule) Together(nodes int) (words string, exact bool) {
	if r.Nodes > 0 {
		nodes = r.Nodes
	}
	words = "nothing more, on any number of nodes that reach each other"
	switch r.Sharing {
	case weir.SharingDivided:
		return r.divided(nodes), false
	case weir.SharingMesh, weir.SharingGossip, weir.SharingHub:
		words = r.late(nodes)
	case "", weir.SharingLease, weir.SharingSticky, weir.SharingLeader:
		switch r.Partition {
		case "", weir.PartitionProportional:
			words += ", and beside it the smaller side's part in a cut longer than 35s"
			if bounds.BackedUp(r.Limit) {
				words += ", or " + r.own(nodes) + " when a node crashes that was cut off before"
			}
		case weir.PartitionReserve:
			words += ", and beside it the smaller side's tenth in a cut longer than 35s"
		case weir.PartitionClosed:
			words = "nothing more, on any number of nodes"
		case weir.PartitionShare, weir.PartitionOpen: // as below
		}
	}
	more := r.whileCut(nodes)
	if more != "" {
		words += "; " + more
	}
	return words, more == "" && !r.replicated()
}

// own is the part of one node.
func (r *Rule) own(nodes int) string {
	if nodes < 2 {
		return "a node's part"
	}
	all, _ := r.Limit.Standing(nil, 0)
	return fmt.Sprintf("a node's part, %d,", (all+int64(nodes)-1)/int64(nodes))
}

// replicated is whether each node of a cluster keeps the counts of r: then no key has an owner.
func (r *Rule) replicated() bool {
	return r.Sharing == weir.SharingMesh || r.Sharing == weir.SharingGossip || r.Sharing == weir.SharingHub
}

// divided says what nodes pass that know of their own part only. No other node remembers what one of them
// let pass: when it starts again, it passes its part again, and when it has left, each of the other nodes
// has a larger one, unless the rule says how many nodes there are.
func (r *Rule) divided(nodes int) string {
	if nodes == 0 {
		return "divided: each node passes its part of it by the number of members; " +
			"each start of a node, and each leave, adds its part once more"
	}
	all, _ := r.Limit.Standing(nil, 0)
	when := fmt.Sprintf("each start of a node, new or again, and each leave of one of %d", nodes)
	if r.Nodes > 0 {
		when = "each node more, and each start of one again,"
	}
	return fmt.Sprintf("divided: each of %d nodes passes 1/%d of it; %s adds at most %d", nodes, nodes, when, all/int64(nodes))
}

// late says what more nodes pass because they hear late of each other: package bounds has the
// formula, and simulated clusters are held to it.
func (r *Rule) late(nodes int) string {
	period, known := r.Limit.Spec().Period, max(nodes, 2)
	delay := bounds.Delay(r.Sharing, known, messageTime)
	more := bounds.Shared(r.Limit, r.Sharing, known, delay, period, 1) - r.Limit.Bound(period, 1)
	if nodes == 0 {
		return fmt.Sprintf("%s: at most %d more for each other node; write nodes: N for the sum", r.Sharing, more)
	}
	if nodes == 1 {
		return fmt.Sprintf("%s: nothing more on one node, at most %d with each other", r.Sharing, more)
	}
	return fmt.Sprintf("%s: at most %d more, for each of %d nodes learns of the other nodes' events up to %v late", r.Sharing, more, nodes, delay)
}

// whileCut says what passes while nodes can't reach each other, where that is more. nodes is 0 when it
// is not known how many there are.
func (r *Rule) whileCut(nodes int) string {
	switch {
	case r.replicated() && r.Partition == weir.PartitionOpen:
		return "as much on each side while nodes can't reach each other"
	case r.replicated():
		return ""
	case r.Partition == weir.PartitionOpen:
		return "all while a key's owner can't be reached"
	case r.Partition == weir.PartitionShare && nodes > 0:
		return fmt.Sprintf("while a key's owner can't be reached each node passes 1/%d of it beside that", nodes)
	case r.Partition == weir.PartitionShare:
		return "while a key's owner can't be reached each node passes its part of it beside that"
	}
	return ""
}
