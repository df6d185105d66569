package weir

import (
	"fmt"
	"time"
)

// Policy says what a process may do about a limit without its store. A rule carries
// it, or a Limiter, and each of their asks brings it along for the code between the rule
// and the store: packages edge and client, and the cluster of a daemon.
// A store decides each ask in the same way under every policy.
type Policy struct {
	// Fallback is what decides when the store can't be asked; empty is
	// FallbackLocal.
	Fallback Fallback
	// Nodes is how many processes share the limit: FallbackLocal gives each its
	// part. 0 and 1: this one alone.
	Nodes int
	// Sync lets a process decide by what it last knew of the store, and tell it
	// within that time; Limit.Unsynced says how much it may let pass meanwhile. 0:
	// the store decides.
	Sync time.Duration
	// Lease lets a process take a portion of the limit beforehand, which the store charges, and
	// spend it without the store: so nothing ever passes beyond the limit. A key that is asked
	// for all the time costs the store a call within that time. What a process has not spent is
	// missing elsewhere until it gives that back. 0: none is taken.
	Lease time.Duration
	// Sharing and Partition say how the nodes of a cluster keep the limit together,
	// and what they do while they do not hear each other. Empty: SharingLease and
	// PartitionProportional.
	Sharing   Sharing
	Partition Partition
	// Leaders is among how many leaders SharingLeader divides the keys of the rule; 0: one.
	Leaders int
}

// Unfit says why p has no effect with a store of these traits, and what to do; empty when
// it has what it asks for, or asks for nothing.
func (p *Policy) Unfit(store Traits) string {
	const bare = " has no effect: this store has nothing around it that decides when it is away; open it by its URL, or with edge.New"
	switch {
	case !store.Bare:
		return ""
	case p.Fallback == FallbackOpen || p.Fallback == FallbackClosed:
		return "fallback: " + string(p.Fallback) + bare
	case p.Sync > 0:
		return fmt.Sprintf("sync: %v%s", p.Sync, bare)
	case p.Lease > 0:
		return fmt.Sprintf("lease: %v%s", p.Lease, bare)
	case p.Nodes > 1:
		return fmt.Sprintf("nodes: %d%s", p.Nodes, bare)
	}
	return ""
}

// UnfitFor says why l can't follow p, whatever the store, and what to do instead; empty when it
// can.
func (p *Policy) UnfitFor(l *Limit) string {
	if why := l.Unsyncable(); p.Sync > 0 && why != "" {
		return "sync is impossible for " + why
	}
	if why := l.Unleasable(); p.Lease > 0 && why != "" {
		return "lease is impossible for " + why
	}
	return p.contradicts()
}

// contradicts says which words of p exclude each other; empty when none do.
func (p *Policy) contradicts() string {
	switch {
	case p.Lease > 0 && p.Sync > 0:
		return "lease and sync exclude each other: lease takes events beforehand and never passes more, sync tells of them afterwards; leave one of them out"
	case p.Lease > 0 && p.Sharing != "":
		return "lease and sharing exclude each other: lease is for a store that all share; with --store cluster: write sharing: lease"
	}
	return ""
}

// MaxNodes is how many processes may share a limit.
const MaxNodes = 1 << 16

// MaxLeaders is among how many leaders the keys of a rule may be divided.
const MaxLeaders = 64

// Fallback is what decides in place of a limit whose store can't be asked.
type Fallback string

// The fallbacks.
const (
	FallbackLocal  Fallback = "local"  // a limit in this process
	FallbackOpen   Fallback = "open"   // all pass
	FallbackClosed Fallback = "closed" // none pass
)

func (f Fallback) known() bool {
	return f == "" || f == FallbackLocal || f == FallbackOpen || f == FallbackClosed
}

// Sharing is how the nodes of a cluster keep a limit together. Stores that are no
// cluster have no use for it.
type Sharing string

// The ways to share. Empty is SharingLease.
const (
	SharingLease   Sharing = "lease"   // the key's owner lends events to the nodes that ask
	SharingMesh    Sharing = "mesh"    // each node tells all others what it let pass
	SharingGossip  Sharing = "gossip"  // each node tells some others, and they pass it on
	SharingDivided Sharing = "divided" // each node has its part of the limit, and tells nobody
	SharingSticky  Sharing = "sticky"  // the key's owner decides each request
	SharingLeader  Sharing = "leader"  // as SharingLease, with one owner for all keys of the rule
	SharingHub     Sharing = "hub"     // each node tells one what it let pass, and that one tells all others
)

// Partition is what becomes of a limit while a node hears only some of the others.
type Partition string

// The policies. Empty is PartitionProportional.
const (
	PartitionProportional Partition = "proportional" // nodes that hear each other have their part of the limit by their number
	PartitionClosed       Partition = "closed"       // keys whose owner is not heard are denied
	PartitionReserve      Partition = "reserve"      // the same, but for a tenth of the limit that is set aside for it
	PartitionShare        Partition = "share"        // each node has its part of the limit by itself
	PartitionOpen         Partition = "open"         // keys whose owner is not heard pass
)
