package cluster

import (
	"math/bits"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/table"
)

// maxSeveral is how many asks of one take leases answer together; more go whole.
const maxSeveral = 16

// several is plain asks of one take, as their nodes get them.
type several struct {
	asks   [maxSeveral]protocol.Request
	hashes [maxSeveral]uint64
	shards [maxSeveral]uint8
	locks  uint64 // a bit for each of their shards
}

// gather is whether leases may answer all of the asks, and no two are about one count.
func (s *Store) gather(asks []weir.Ask, all *several) bool {
	if len(asks) > maxSeveral {
		return false
	}
	for i := range asks {
		a := &asks[i]
		if !plain(a) || s.replica(a.Policy.Sharing) != nil {
			return false
		}
		key := s.led.known(a)
		hash, place := table.Hash(s.seed, key)
		if slices.Contains(all.hashes[:i], hash) {
			return false
		}
		all.asks[i], all.hashes[i], all.shards[i] = want(key, a), hash, uint8(place%shards)
		all.locks |= 1 << all.shards[i]
	}
	return true
}

// lock holds all the shards. A goroutine that holds several takes them in this order.
func (s *Store) lock(shards uint64) {
	for ; shards != 0; shards &= shards - 1 {
		s.shards[bits.TrailingZeros64(shards)].mu.Lock()
	}
}

func (s *Store) unlock(shards uint64) {
	for ; shards != 0; shards &= shards - 1 {
		s.shards[bits.TrailingZeros64(shards)].mu.Unlock()
	}
}

// spend answers the asks of a take by leases that are held, all at one moment, if each
// is covered. Else it takes nothing, and is false.
func (s *Store) spend(asks []weir.Ask, out []weir.Decision) bool {
	var all several
	if len(asks) != len(out) || !s.gather(asks, &all) {
		return false
	}
	s.lock(all.locks)
	defer s.unlock(all.locks)
	now := s.now()
	for i := range asks {
		node := s.shards[all.shards[i]].node
		if node == nil || !node.Covers(now, all.hashes[i], &all.asks[i]) {
			return false
		}
	}
	for i := range asks {
		sh := &s.shards[all.shards[i]]
		sh.node.Spend(now, all.hashes[i], &all.asks[i], &out[i], &sh.fx)
		if len(sh.fx.Messages) > 0 {
			sh.deliver(0, nil)
		}
	}
	return true
}

// expect tells the nodes of asks that owners decide, so that leases are there for those
// that come.
func (s *Store) expect(asks []weir.Ask) {
	var all several
	if !s.gather(asks, &all) {
		return
	}
	for i := range asks {
		sh := &s.shards[all.shards[i]]
		sh.mu.Lock()
		if sh.node != nil && asks[i].Cost <= sh.limits.most(asks[i].Limit) {
			sh.node.Expect(s.now(), &all.asks[i], &sh.fx)
			sh.deliver(0, nil)
		}
		sh.mu.Unlock()
	}
}
