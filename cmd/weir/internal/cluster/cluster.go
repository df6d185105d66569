// Package cluster is a weir.Store that nodes keep together without any other: each
// key has an owner among them, which leases events to the other nodes or decides for them (package
// sharing).
//
// Plain asks are decided by leases: an ask on a lease that is held is one locked
// call, and makes no message. All others (with a receipt, to wait, to peek, to take what
// fits, to report, to charge once, and limits that leases do not suit) go whole to
// the key's owner, which decides them by the same state.
//
// The caller that makes the Store carries the messages between nodes.
//
// In the code, take.go says which asks a lease can answer, shard.go asks a node under its
// lock, several.go several at a time, call.go asks owners for the rest, distance.go finds
// out how far these are, owner.go answers, others.go keeps the heartbeat, notes.go remembers
// what works once, wire.go is how questions travel, led.go names the counts of rules with leaders. replicas.go is for rules by which each
// node decides by itself. clock.go goes on while the machine sleeps (package boottime,
// which package gossip asks, too), begin.go finds out whether a node founds the cluster.
// internal/daemon/cluster.go hands it what carries its messages.
package cluster

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/counter"
	"github.com/weir-limit/weir/internal/cluster/lease"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/table"
	"github.com/weir-limit/weir/internal/limittext"
	"github.com/weir-limit/weir/internal/record"
)

// The bounds of a node.
const (
	// DefaultKeys is how many keys a node asks about, and how many it owns, where
	// Options say nothing: 300 MB of memory when full. Newcomers beyond are denied until
	// an old one is as never used.
	DefaultKeys = 1 << 18
	// MaxWaiting is how many takes wait for owners; more fail with weir.ErrBusy.
	MaxWaiting = 1 << 14
	// shards is how many parts a node has, each with a lock of its own.
	shards = protocol.MaxShards
)

// Options of a Store.
type Options struct {
	// Keys is how many keys the node asks about, and how many it owns, at a time. 0:
	// DefaultKeys.
	Keys int
	// now is the node's time; nil: its own clock. patience is how long a question
	// waits for its owner; 0: protocol.Patience. Tests have their own.
	now      func() weir.Instant
	patience time.Duration
}

// Self is who a node is among the others.
type Self struct {
	// Name is the node's among the members.
	Name string
	// Incarnation is more than that of every process that had the name before.
	Incarnation uint64
	// Send carries a message to a member, whose Store gets it by Receive. It keeps
	// nothing of message, does not wait, and says whether it will try.
	Send func(to string, message []byte) bool
	// Resumes are the other members that the last process of the name knew, and Counted is
	// whether all of them counted its vote.
	Resumes []string
	Counted bool
}

// Store is one node. It must be made by New and closed. Its methods may be called
// from many goroutines.
type Store struct {
	self   Self
	joined atomic.Bool // set when all of the node is there
	keys   int
	now    func() weir.Instant
	waits  time.Duration // for owners
	seed   maphash.Seed
	shards [shards]shard
	others others
	led    led
	// replicas decide the asks of rules by which each node decides by itself.
	replicas [len(replicated)]replica
	calls    calls
	texts    limittext.Cache // of other nodes
	receipts record.Receipts // settled here
	counts   counts
	born     weir.Instant // when it joined
	ages     ages

	waiting atomic.Int64
	wake    chan struct{}
	armed   atomic.Int64 // when run wakes up by itself, as an Instant
	done    chan struct{}
	running sync.WaitGroup
}

type counts struct {
	whole, unanswered, asked, served, unknown atomic.Int64
}

// New makes a node that takes no part yet: until Join its takes fail with
// weir.ErrAway.
func New(o Options) *Store {
	s := &Store{keys: o.Keys, now: o.now, waits: cmp.Or(o.patience, protocol.Patience), seed: maphash.MakeSeed(), wake: make(chan struct{}, 1), done: make(chan struct{})}
	if s.keys == 0 {
		s.keys = DefaultKeys
	}
	if s.now == nil {
		s.now = newClock().now
	}
	s.calls.init()
	for i := range s.shards {
		s.shards[i].store, s.shards[i].waiting = s, map[uint64]chan weir.Decision{}
	}
	for i := range s.replicas {
		s.replicas[i].store, s.replicas[i].sharing = s, replicated[i]
	}
	return s
}

// Join begins to take part, once. The node decides nothing until View has told it who
// the members are, and for a while after that: what it lent before it was started
// again may still be used.
func (s *Store) Join(self Self) error {
	s.self, s.born, s.ages.known = self, s.now(), map[string]time.Duration{}
	if err := s.open(self.Incarnation); err != nil {
		return err
	}
	s.joined.Store(true)
	s.running.Go(s.run)
	return nil
}

// Rejoin goes on after Join with a later incarnation, as if the process had been started
// again: a member that knows of a later one than its own believes nothing of what it says.
func (s *Store) Rejoin(incarnation uint64) error {
	s.part()
	return s.open(incarnation)
}

// open makes the node, which knows nothing yet.
func (s *Store) open(incarnation uint64) error {
	name := s.self.Name
	s.others.init(s, name, incarnation)
	for i := range s.shards {
		node, err := lease.NewNode(lease.Settings{Name: name, Incarnation: incarnation, Shard: uint64(i), Keys: max(s.keys/shards, 1), Seed: s.seed})
		if err != nil {
			return fmt.Errorf("cluster: %w", err)
		}
		s.shards[i].open(node)
	}
	for i := range s.replicas {
		o := counter.Settings{Name: name, Incarnation: incarnation, Sharing: replicated[i], Keys: max(s.keys/len(replicated), 1)}
		if err := s.replicas[i].open(o); err != nil {
			return fmt.Errorf("cluster: %w", err)
		}
	}
	return nil
}

// part ends what the node is to the others, without a word to them.
func (s *Store) part() {
	s.others.part()
	for i := range s.shards {
		s.shards[i].close()
	}
	for i := range s.replicas {
		s.replicas[i].close()
	}
}

// Close ends the node without a word to the others. Takes that wait for owners fail
// with weir.ErrAway, and no calls may come after it.
func (s *Store) Close() error {
	close(s.done)
	s.running.Wait()
	s.part()
	return nil
}

// Traits are: the counts are those of all nodes; asks of one placement and key are
// decided at one moment; a count goes by the clock of its owner, whichever node asks.
func (s *Store) Traits() weir.Traits {
	return weir.Traits{Shared: true, OwnClock: true, Evidence: true}
}

// View tells who the members are, in any order. A node that is not one of them, because
// another has its name, takes no part any more: its takes fail with weir.ErrAway.
func (s *Store) View(members []member.Member) {
	if !slices.ContainsFunc(members, func(m member.Member) bool { return m.Name == s.self.Name }) {
		s.part()
		return
	}
	s.others.agree(members)
	s.hurry(0)
}

// Fence tells for how long an earlier process of this node's name may live and decide elsewhere: until then
// this one has no part of any limit. 0: none may.
func (s *Store) Fence(d time.Duration) { s.others.fence(d) }

// Owner is who keeps the state of a key of a rule with that policy, as this node sees it; empty before View.
func (s *Store) Owner(key weir.StateKey, p *weir.Policy) string {
	key = s.led.known(&weir.Ask{State: key, Policy: *p})
	name, _ := s.shard(key).owner(key)
	return name
}

// shard is the part of the node that has a key. Keys of one placement are in one.
func (s *Store) shard(key weir.StateKey) *shard {
	_, place := table.Hash(s.seed, key)
	return &s.shards[place%shards]
}

// tickEvery is how close to each other the node looks at what is due.
const tickEvery = time.Millisecond

// run does what is due, until Close.
func (s *Store) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.wake:
		case <-timer.C:
		}
		s.armed.Store(0) // a call with something due meanwhile wakes this goroutine
		next, now := s.others.tick(), s.now()
		for i := range s.shards {
			if at := s.shards[i].tick(now); at != 0 && (next == 0 || at < next) {
				next = at
			}
		}
		for i := range s.replicas {
			if at := s.replicas[i].tick(); at != 0 && (next == 0 || at < next) {
				next = at
			}
		}
		if next == 0 {
			timer.Stop()
			s.arm(never)
			continue
		}
		timer.Reset(max((next - s.now()).Duration(), tickEvery))
		s.arm(next)
	}
}

const never = weir.Instant(1 << 60)

// arm says when run wakes up, unless somebody has asked for earlier.
func (s *Store) arm(at weir.Instant) { s.armed.CompareAndSwap(0, int64(at)) }

// hurry wakes run up if it would sleep beyond at.
func (s *Store) hurry(at weir.Instant) {
	if armed := weir.Instant(s.armed.Load()); armed != 0 && armed <= at {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}
