package cluster

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/packing"
)

// Nodes that start together begin with limits as never used. One that joins others
// takes what it does not know for used: they may have let it pass before. So a
// node that starts asks each member how long it has been there.
const (
	// young is how much longer than this node another node may have been there to have started with
	// it.
	young = 2 * time.Second
	// askAge is how often they are asked until they answer.
	askAge = 50 * time.Millisecond
	// meeting is how long nodes that start together have to meet.
	meeting = 400 * time.Millisecond
	// patience is how long a start waits until the node may decide.
	patience = 1500 * time.Millisecond
)

// ages are how long members have been there, as they said.
type ages struct {
	mu    sync.Mutex
	known map[string]time.Duration // longer than this node
}

// Begin waits for a moment in which nodes that start together meet, finds out whether
// this one founds the cluster with them, and waits a little until it may decide. It is
// done when ctx is. members are who is known.
func (s *Store) Begin(ctx context.Context, members func() []string) {
	tick := time.NewTicker(askAge)
	defer tick.Stop()
	for founds := true; s.age() < patience && !s.others.converged(); {
		for _, name := range s.strangers(members()) {
			s.self.Send(name, []byte{howOld})
		}
		if founds && s.age() >= meeting {
			founds = false
			if len(s.strangers(members())) == 0 && s.eldest() {
				s.others.found()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// strangers are members whose age is not known.
func (s *Store) strangers(members []string) (unknown []string) {
	s.ages.mu.Lock()
	defer s.ages.mu.Unlock()
	for _, name := range members {
		if _, ok := s.ages.known[name]; !ok && name != s.self.Name {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// eldest is whether no member was there before this node and those that started with
// it.
func (s *Store) eldest() bool {
	s.ages.mu.Lock()
	defer s.ages.mu.Unlock()
	for _, longer := range s.ages.known {
		if longer > young {
			return false
		}
	}
	return true
}

func (s *Store) age() time.Duration { return (s.now() - s.born).Duration() }

// sayAge answers a member that asks.
func (s *Store) sayAge(to string) {
	s.self.Send(to, binary.AppendUvarint([]byte{soOld}, uint64(s.age())))
}

// hearAge hears how long a member has been there. The first answer counts.
func (s *Store) hearAge(from string, b []byte) {
	r := packing.Reader{Rest: b}
	age := r.Below(1 << 62)
	if r.Bad {
		return
	}
	s.ages.mu.Lock()
	defer s.ages.mu.Unlock()
	if len(s.ages.known) >= member.MaxMembers {
		return // of so many, no one founds anything
	}
	if _, ok := s.ages.known[from]; !ok {
		s.ages.known[from] = time.Duration(age) - s.age()
	}
}
