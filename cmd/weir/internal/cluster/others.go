package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/lease"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// others is what the node knows of the other members.
type others struct {
	store *Store

	mu         sync.Mutex
	peers      *member.Peers // nil before Join
	unclean    int64         // unclean departures that peers before these have noticed
	view       *member.View  // that the shards have
	beats      []member.HeartbeatTo
	packet     []byte
	fenced     weir.Instant // until then an earlier process of the name may decide; 0: none may
	agreed     bool         // it has been told who the members are
	heartbeats int          // rounds of them
	far        map[string]protocol.Distance
	told       map[string]protocol.Distance // to the shards
}

func (o *others) init(s *Store, name string, incarnation uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.peers != nil {
		o.unclean += o.peers.Unclean()
	}
	o.far, o.told = map[string]protocol.Distance{}, nil
	o.store, o.peers = s, member.NewPeers(s.now(), name, incarnation)
	o.peers.Resume(s.self.Resumes, s.self.Counted)
	o.peers.Fence(s.now(), o.fenced)
}

// part has the node say nothing, and hear nobody, until it is told who the members are.
func (o *others) part() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.agreed = false
}

func (o *others) found() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.peers.Found()
}

// fence tells for how long an earlier process of the name may yet decide.
func (o *others) fence(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.store.now()
	if o.fenced = 0; d > 0 {
		o.fenced = now + weir.Instant(d/time.Microsecond)
	}
	o.peers.Fence(now, o.fenced)
	o.deliver()
}

func (o *others) agree(members []member.Member) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.agreed = true
	o.peers.Agree(o.store.now(), members, &o.beats)
	o.hurry()
}

func (o *others) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.agreed {
		o.peers.Leave(o.store.now(), &o.beats)
		o.hurry()
	}
}

func (o *others) converged() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.agreed && o.peers.View().Converged()
}

func (o *others) backedUp() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.agreed && o.peers.BackedUp()
}

// parted is whether the other nodes know that this node goes with nothing of theirs.
func (o *others) parted() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.agreed || o.peers.Parted(o.store.now())
}

func (o *others) last() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.peers.View().Last()
}

// seen is the view of this moment; nil: it has not been told who the members are.
func (o *others) seen() *member.View {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.agreed {
		return nil
	}
	return o.peers.View()
}

func (o *others) lost() []member.Loss {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.agreed {
		return nil
	}
	return o.peers.Lost(o.store.now())
}

// departed is how many unclean departures the node has noticed since it was made.
func (o *others) departed() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.peers == nil {
		return 0
	}
	return o.unclean + o.peers.Unclean()
}

func (o *others) counted() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.agreed && o.peers.View().Counted()
}

func (o *others) minority() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.agreed && o.peers.View().Minority()
}

func (o *others) receive(from string, b *member.Heartbeat) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.agreed {
		o.peers.Receive(o.store.now(), from, b)
		o.hurry()
	}
}

// tick sends heartbeats when they are due, and says when the next ones are; 0: never.
func (o *others) tick() weir.Instant {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.agreed {
		return 0
	}
	if now := o.store.now(); now >= o.peers.Next() {
		o.peers.Tick(now, o.store.moving(), o.store.saved(), &o.beats)
		o.deliver()
	}
	return o.peers.Next()
}

// hurry delivers, and sees to it that what there is to tell then is told soon.
func (o *others) hurry() {
	o.deliver()
	o.store.hurry(o.peers.Next())
}

// deliver shows the shards what has changed, and sends heartbeats: what these prolong, all have
// to know of before.
func (o *others) deliver() {
	if v := o.peers.View(); v != o.view {
		o.view = v
		o.store.show(v)
	}
	for i := range o.beats {
		b := &o.beats[i]
		o.packet = b.Append(append(o.packet[:0], shares))
		o.store.self.Send(b.Peer, o.packet)
		if o.heartbeats%pingEvery == 0 {
			o.ping(b.Peer)
		}
	}
	if len(o.beats) > 0 {
		o.heartbeats++
	}
	clear(o.beats)
	o.beats = o.beats[:0]
}

// leaveEvery is how often Leave looks whether all is handed over, and leavePatience, for how long it
// waits while nobody takes anything.
const (
	leaveEvery    = 5 * time.Millisecond
	leavePatience = 2 * time.Second
)

var errNotTaken = errors.New("the other nodes do not take over the keys of this one")

// Leave tells the other members that this one goes, and hands over to them what it owns.
// It waits until they have it, but for those that leave, too, and fails when they take nothing for
// leavePatience, or with ctx's error: then they take what they did not get for used up. The node goes
// on to ask the others, and is to be closed.
func (s *Store) Leave(ctx context.Context) error {
	s.others.leave()
	s.hurry(0)
	every := time.NewTicker(leaveEvery)
	defer every.Stop()
	left, took := s.left(), time.Now()
	for !s.others.last() && (s.moving() || !s.others.parted()) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
		if now := s.left(); now < left {
			left, took = now, time.Now()
		} else if time.Since(took) >= leavePatience {
			return errNotTaken
		}
	}
	return nil
}

// left is how many ledgers the node has.
func (s *Store) left() (n int) {
	for i := range s.shards {
		n += s.shards[i].left()
	}
	return n
}

func (s *Store) show(v *member.View) {
	for i := range s.shards {
		s.shards[i].show(v)
	}
	members := v.Presence()
	for i := range s.replicas {
		s.replicas[i].show(members)
	}
}

// moving is whether ledgers are on their way to other nodes.
func (s *Store) moving() bool { return s.some((*lease.Node).Moving) }

// saved is whether backups have all that the node has granted of slow keys.
func (s *Store) saved() bool { return !s.some(func(n *lease.Node) bool { return !n.Saved() }) }

// some is whether a shard's node is so.
func (s *Store) some(is func(*lease.Node) bool) bool {
	for i := range s.shards {
		if s.shards[i].is(is) {
			return true
		}
	}
	return false
}
