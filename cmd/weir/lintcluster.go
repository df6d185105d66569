package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/daemon"
	"github.com/weir-limit/weir/internal/sharing"
	"github.com/weir-limit/weir/rules"
)

// lintedStore is the store that rules are held against.
type lintedStore struct {
	traits  weir.Traits
	cluster bool // it is the nodes themselves
	said    bool // by the one who asks
	nodes   int  // of a cluster, 0 when it is not known
}

func lintStore(flags *pflag.FlagSet, url string, nodes int) (*lintedStore, error) {
	in := &lintedStore{cluster: strings.HasPrefix(url, "cluster:"), said: flags.Changed("store"), nodes: nodes}
	switch {
	case flags.Changed("nodes") && !in.cluster:
		return nil, usagef("--nodes is for a cluster; add --store cluster:")
	case flags.Changed("nodes") && (nodes < 1 || nodes > sharing.MaxMembers):
		return nil, usagef("--nodes is %d; it must be 1…%d", nodes, sharing.MaxMembers)
	}
	var err error
	in.traits, err = daemon.StoreTraits(url)
	return in, err
}

// shares fails with a *rules.Error where so many nodes can't share a limit.
func (in *lintedStore) shares(set *rules.Set) error {
	bad := &rules.Error{}
	for _, r := range set.Rules() {
		if !in.cluster || in.nodes == 0 || r.Unlimited || r.Nodes > 0 {
			continue
		}
		if why := r.Sharing.Unfit(r.Limit, in.nodes); why != "" {
			bad.Findings = append(bad.Findings, rules.Finding{
				File: r.File, Line: r.Line, Column: r.Column, Severity: rules.SeverityError, Rule: r.Name,
				Text: fmt.Sprintf("sharing: %s is impossible for %q: %s", r.Sharing, r.Limit, why),
			})
		}
	}
	if len(bad.Findings) > 0 {
		return bad
	}
	return nil
}

// unshared warns of what has no effect with a store that was named and is no cluster.
func (in *lintedStore) unshared(set *rules.Set) []rules.Finding {
	if in.cluster || !in.said {
		return nil
	}
	return set.Unshared()
}

// words says what may pass beyond what the rule's limit promises.
func (in *lintedStore) words(r *rules.Rule) string {
	if in.cluster {
		return together(r, in.nodes) + cut(r, in.nodes)
	}
	return loose(r.Limit, in.traits) + ahead(r) + without(r, in.traits)
}

// lintDelay is how long messages between nodes are taken to travel.
const lintDelay = 10 * time.Millisecond

// together says in words what nodes let pass together beyond what one lets pass. nodes
// is how many there are where the rule does not say it; 0: not known.
func together(r *rules.Rule, nodes int) string {
	if r.Nodes > 0 {
		nodes = r.Nodes
	}
	switch r.Sharing {
	case weir.SharingDivided:
		if nodes == 0 {
			return "; divided: each node passes its part of it by the number of members"
		}
		return fmt.Sprintf("; divided: each of %d nodes passes 1/%d of it; each node more would add as much", nodes, nodes)
	case weir.SharingMesh, weir.SharingGossip:
	default:
		return "; nothing more, on any number of nodes"
	}
	period, known := r.Limit.Spec().Period, max(nodes, 2)
	delay := r.Sharing.Delay(known, lintDelay)
	more := r.Limit.BoundShared(r.Sharing, known, delay, period, 1) - r.Limit.Bound(period, 1)
	if nodes == 0 {
		return fmt.Sprintf("; %s: at most %d more for each other node; write nodes: N for the sum", r.Sharing, more)
	}
	return fmt.Sprintf("; %s: at most %d more, for each of %d nodes hears of the others up to %v late", r.Sharing, more, nodes, delay)
}

// cut says in words what passes while nodes don't hear each other, where that is more.
func cut(r *rules.Rule, nodes int) string {
	if r.Nodes > 0 {
		nodes = r.Nodes
	}
	of := "each node passes its part of it beside that"
	if nodes > 0 {
		of = fmt.Sprintf("each node passes 1/%d of it beside that", nodes)
	}
	switch {
	case r.Sharing == weir.SharingDivided:
		return ""
	case r.Sharing == weir.SharingMesh || r.Sharing == weir.SharingGossip:
		if r.Partition == weir.PartitionOpen {
			return "; as much on each side while nodes don't hear each other"
		}
		return ""
	case r.Partition == weir.PartitionOpen:
		return "; all while a key's owner is not heard"
	case r.Partition == weir.PartitionShare:
		return "; while a key's owner is not heard " + of
	}
	return ""
}
