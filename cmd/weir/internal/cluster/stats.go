package cluster

import (
	"github.com/weir-limit/weir/internal/cluster/lease"
	"github.com/weir-limit/weir/internal/cluster/member"
)

// Stats are counts of a Store since it was made, and how it stands.
type Stats struct {
	Whole      int64 // takes that owners decided whole
	Unanswered int64 // of these, denied because the owner did not answer
	Asked      int64 // questions sent to owners, those sent again included
	Served     int64 // questions of others answered as owner
	Unknown    int64 // messages that this version does not understand
	Waiting    int64 // takes that wait for owners, now
	Unclean    int64 // unclean departures that this node has noticed itself
}

// Stats are the node's counts.
func (s *Store) Stats() Stats {
	c := &s.counts
	return Stats{
		Whole: c.whole.Load(), Unanswered: c.unanswered.Load(), Asked: c.asked.Load(), Served: c.served.Load(),
		Unknown: c.unknown.Load(), Waiting: s.waiting.Load() + s.calls.len(),
		Unclean: s.others.departed(),
	}
}

// Count looks at all keys of the node, one shard after the other.
func (s *Store) Count() (all lease.Counts) {
	all.By = map[string]int{}
	for i := range s.shards {
		c := s.shards[i].count()
		for owner, n := range c.By {
			all.By[owner] += n
		}
		all.Asked += c.Asked
		all.Leases += c.Leases
		all.Owned += c.Owned
		all.Backup += c.Backup
	}
	return all
}

func (sh *shard) count() lease.Counts {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.node == nil {
		return lease.Counts{}
	}
	return sh.node.Count(sh.store.now())
}

// Minority is whether the node has not heard most of the members for so long that it
// gives nothing by rules that are closed.
func (s *Store) Minority() bool { return s.others.minority() }

// Counted is whether all members count the vote of this node.
func (s *Store) Counted() bool { return s.others.counted() }

// Lost is the nodes that have gone without a word, with what they knew.
func (s *Store) Lost() []member.Loss { return s.others.lost() }

// BackedUp is whether other nodes have backups of all that the node has granted of keys that come back slowly: a crash
// would cost these nothing.
func (s *Store) BackedUp() bool { return s.others.backedUp() }

// Converged is whether the node decides, and all counts are with their owners.
func (s *Store) Converged() bool { return s.others.converged() }
