package size

import (
	"fmt"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

// Nodes are the daemons themselves, which share counts without a store.
const Nodes Store = "cluster"

// Share is what a way to share takes of each node, and what it lets pass too much.
type Share struct {
	Sharing  weir.Sharing `json:"sharing"`
	Messages int64        `json:"messages_per_second"`                  // that a node sends, about; at most so many
	Leader   int64        `json:"leader_messages_per_second,omitempty"` // that the leader or the hub of a rule sends in place of that
	Bytes    int64        `json:"bytes_per_second"`                     // of them, without what packets add
	Memory   int64        `json:"memory_bytes"`                         // of all keys on each node
	Every    int64        `json:"told_every_ms"`                        // how often others hear of a key that changes, at most; 0: each request asks, or nobody hears
	Over     int64        `json:"over"`                                 // events of a key that may pass beyond the limit
	Unfit    string       `json:"unfit,omitempty"`                      // why it is impossible
}

// The sizes and bounds of messages between nodes. Keys are as long as an IPv4 address, rules as
// shop/user.
const (
	askBudget    = 25      // asks a second of a node about a key; above, it takes leases: holder.AskBudget
	callBytes    = 60      // an ask, an answer, or a report
	entryBytes   = 18      // a key in a message of replicas
	lineBytes    = 10      // what one process has let pass of it
	headBytes    = 30      // a rule and its limit, once in a message
	nameBytes    = 25      // a process, once in a message
	postBytes    = 1200    // a message, unless it has one key only: counter.MaxPost
	postsAtOnce  = 64      // in bounds.TellEvery: counter.MaxPosts
	leaseMemory  = 1100    // go test ./internal/cluster/lease -run '^$' -bench Memory -benchtime 3x
	tallyMemory  = 470     // the same, with what one other node has let pass
	lineMemory   = 80      // of each more
	mostKeys     = 1 << 18 // that a node is asked about, and owns: cluster.DefaultKeys
	logKeys      = 1 << 18 // that a node keeps with an event log: logstore.MaxKeys
	mostTallies  = 1 << 16 // that a node keeps by each way in which it decides by itself: a quarter of that
	maxShare     = 1024    // nodes of a cluster: member.MaxMembers
	messageDelay = 10 * time.Millisecond
)

// most is how many keys a node keeps that nodes share so.
func most(how weir.Sharing) int64 {
	switch how {
	case weir.SharingMesh, weir.SharingGossip, weir.SharingHub, weir.SharingDivided:
		return mostTallies
	case weir.SharingLease, weir.SharingLeader, weir.SharingSticky:
	}
	return mostKeys
}

// tells is how often a second a node tells others.
const tells = int64(time.Second / bounds.TellEvery)

// shares is what each way to share takes.
func (n *Need) shares() []Share {
	var all []Share
	for _, how := range []weir.Sharing{weir.SharingLease, weir.SharingLeader, weir.SharingSticky, weir.SharingMesh, weir.SharingGossip, weir.SharingHub, weir.SharingDivided} {
		s := Share{Sharing: how, Unfit: bounds.Unfit(how, n.Limit, int(n.Nodes))}
		if s.Unfit == "" {
			n.share(&s)
		}
		all = append(all, s)
	}
	return all
}

// rate is how often a second a node is asked for one key, in thousandths.
func (n *Need) rate() int64 { return up(times(times(n.Rate, n.Limits), 1000), times(n.Keys, n.Nodes)) }

// passing is how often a second a node lets pass an event of one key, in thousandths: as
// often as it is asked, but no more than half as much again as its part of the limit.
func (n *Need) passing() int64 {
	spec := n.Limit.Spec()
	if spec.Period == 0 { // permits: they bound no rate
		return n.rate()
	}
	pace := up(times(spec.Count, 1_000_000_000), spec.Period.Microseconds())
	return min(n.rate(), up(times(pace, 3), 2*n.Nodes))
}

func (n *Need) share(s *Share) {
	keys, rate, passing := times(n.Keys, n.Limits), n.rate(), n.passing()
	switch s.Sharing {
	case weir.SharingLeader: // a node asks and reports, and its leader answers
		asks := min(rate, askBudget*1000)
		s.Messages, s.Leader = up(times(2*keys, asks), 1000), up(times(times(keys, asks), n.Nodes-1), 1000)
		s.Bytes, s.Memory = times(s.Messages, callBytes), times(keys, leaseMemory)
	case weir.SharingLease, weir.SharingSticky:
		asks := rate
		if s.Sharing == weir.SharingLease {
			asks = min(asks, askBudget*1000)
		}
		// Its own asks, now and then a report, and the answers of keys that it owns: all nodes are alike.
		s.Messages = up(times(times(3*keys, asks), n.Nodes-1), times(n.Nodes, 1000))
		s.Bytes, s.Memory = times(s.Messages, callBytes), times(keys, leaseMemory)
	case weir.SharingMesh:
		s.posts(keys, 2*passing, n.Nodes-1, 1)
		s.Memory = n.tallies(keys)
	case weir.SharingGossip:
		s.posts(keys, times(2*passing, n.Nodes), min(bounds.TellSome, n.Nodes-1), n.Nodes)
		s.Memory = n.tallies(keys)
	case weir.SharingHub:
		hub := *s
		hub.posts(keys, times(2*passing, n.Nodes), n.Nodes-1, n.Nodes)
		s.posts(keys, 2*passing, min(n.Nodes-1, 1), 1)
		s.Leader, s.Every, s.Memory = hub.Messages, max(s.Every, hub.Every), n.tallies(keys)
	case weir.SharingDivided:
		s.Memory = times(keys, tallyMemory)
	}
	delay := bounds.Delay(s.Sharing, int(n.Nodes), messageDelay)
	if late := time.Duration(s.Every)*time.Millisecond - bounds.TellEvery; late > 0 {
		delay += late
	}
	s.Over = bounds.Ahead(n.Limit, s.Sharing, int(n.Nodes), delay, 1)
}

func (n *Need) tallies(keys int64) int64 {
	return times(keys, tallyMemory+times(lineMemory, max(n.Nodes-2, 0)))
}

// posts is what a replica sends to so many others, when each key is to be told so often
// a second, in thousandths, with what so many processes let pass. Once a second it tells
// one other of what has not changed.
func (s *Share) posts(keys, rate, others, processes int64) {
	if others == 0 {
		return
	}
	size, head := entryBytes+times(lineBytes, processes), headBytes+times(nameBytes, processes)
	postBytes := max(postBytes-head, size)
	told := up(times(keys, min(rate, tells*1000)), tells) // keys at a time, in thousandths
	made := up(times(told, size), postBytes*1000)
	s.Every = up(made, postsAtOnce) * bounds.TellEvery.Milliseconds() // what is over waits
	if made > postsAtOnce {
		made, told = postsAtOnce, postsAtOnce*postBytes/size*1000
	}
	turns := min(told, 1000) // of a thousand in which there is something to tell
	s.Messages = up(times(times(made, others), times(tells, turns)), 1000) + 1
	s.Bytes = up(times(times(told, size), times(others, tells)), 1000) + times(s.Messages, head)
}

// writeShares writes what each way takes, for people.
func writeShares(b *strings.Builder, shares []Share, n *needLine) {
	fmt.Fprintf(b, "with %s, on each of %s\n", Nodes, many(n.Nodes, "node"))
	if keys := times(n.Keys, n.Limits); keys > mostKeys {
		wrap(b, "but", fmt.Sprintf("a node decides about %s keys at most, and denies further ones: send each key to its owner (GET /v1/route, redirect=true) on %s or more, or take redis",
			Count(mostKeys), many(up(keys, mostKeys), "node")))
	}
	for i := range shares {
		s := &shares[i]
		if s.Unfit != "" {
			fmt.Fprintf(b, "  %-8s impossible: %s\n", s.Sharing, s.Unfit)
			continue
		}
		over := "nothing more than the limit while nodes reach each other"
		switch {
		case s.Over > 0:
			over = fmt.Sprintf("up to %s events more of a key", Count(s.Over))
		case s.Sharing == weir.SharingDivided:
			over = fmt.Sprintf("nothing more than the limit, and 1/%d of it for each start or leave of a node", n.Nodes)
		}
		late, leads := "", ""
		if s.Leader > 0 {
			leads = fmt.Sprintf(" (the %s of a rule %s)", s.Sharing, Count(s.Leader))
		}
		if every := time.Duration(s.Every) * time.Millisecond; every > bounds.TellEvery {
			late = fmt.Sprintf("; so many keys that other nodes learn of each every %v", every)
		}
		if times(n.Keys, n.Limits) > most(s.Sharing) {
			late += full(s.Sharing)
		}
		fmt.Fprintf(b, "  %-8s %s of keys; sends %s a second%s, %s; %s%s\n", s.Sharing, Bytes(s.Memory), many(s.Messages, "message"), leads, Bytes(s.Bytes), over, late)
	}
}

// full says what becomes of more keys than a node keeps.
func full(how weir.Sharing) string {
	switch how {
	case weir.SharingLeader:
		return fmt.Sprintf("; a leader keeps %s keys, and denies further ones: leaders: K divides them", Count(most(how)))
	case weir.SharingMesh, weir.SharingGossip, weir.SharingHub, weir.SharingDivided:
		return fmt.Sprintf("; each node keeps %s keys, and denies further ones", Count(most(how)))
	case weir.SharingLease, weir.SharingSticky:
	}
	return ""
}
