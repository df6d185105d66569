package rules

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-limit/weir"
)

// shared refuses ways to share a limit that can't be, or that another word of the
// descriptor makes senseless.
func (f *file) shared(m *mapping, base *Rule, made []*Rule) {
	if at := m.value("sharing"); at != nil {
		for _, r := range made {
			if r.Limit == nil {
				continue
			}
			if why := r.Sharing.Unfit(r.Limit, r.Nodes); why != "" {
				f.add(at, SeverityError, r.Name, "sharing: %s is impossible for %q: %s", r.Sharing, r.Limit, why)
			}
		}
	}
	if at := m.value("partition"); at != nil && base.Partition != "" {
		f.parted(m.members["partition"].key, at, base, made)
	}
}

// parted refuses policies for partitions that make no sense; key and at are where the
// word and its value stand.
func (f *file) parted(key, at *yaml.Node, base *Rule, made []*Rule) {
	replicated := base.Sharing == weir.SharingMesh || base.Sharing == weir.SharingGossip
	switch {
	case base.Sharing == weir.SharingDivided:
		f.add(key, SeverityWarning, base.Name, "partition has no effect beside sharing: divided: nodes tell each other nothing, and miss nothing")
	case replicated && (base.Partition == weir.PartitionClosed || base.Partition == weir.PartitionReserve):
		f.add(at, SeverityError, base.Name, "partition: %s is for limits whose keys have owners; with sharing: %s each node goes on by itself: take partition: proportional or share, or sharing: lease", base.Partition, base.Sharing)
	case base.Partition == weir.PartitionOpen:
		for _, r := range made {
			if r.Limit != nil && r.Limit.NeverOver() {
				mode := r.Limit.Spec().Mode
				f.add(at, SeverityError, r.Name, "partition: open is impossible for %q: all would pass while nodes don't hear each other, which is what %s is to prevent; take partition: closed, or leave out %s", r.Limit, mode, mode)
			}
		}
	}
}

// messageTime is how long messages between nodes are taken to travel, where it is told
// how far nodes may be apart.
const messageTime = 10 * time.Millisecond

// apart says in words how far the nodes of a cluster may be apart about a count;
// empty when they are not.
func (r *Rule) apart() string {
	nodes := max(r.Nodes, 2)
	switch r.Sharing {
	case weir.SharingDivided:
		return "in a cluster this is one node's part: it is divided, and each node knows of its own only"
	case weir.SharingMesh, weir.SharingGossip:
		delay := r.Sharing.Delay(nodes, messageTime)
		ahead := r.Limit.Ahead(r.Sharing, nodes, delay, 1)
		if r.Nodes > 1 {
			return fmt.Sprintf("in a cluster %d nodes share this count by %s: what they have let pass in the last %v, %d events at most, may be unknown here", r.Nodes, r.Sharing, delay, ahead)
		}
		return fmt.Sprintf("in a cluster nodes share this count by %s: what each other node has let pass in the last %v, %d events at most, may be unknown here", r.Sharing, delay, ahead)
	case weir.SharingLease, weir.SharingSticky:
	}
	return ""
}
