package cluster

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/lease"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/here"
)

// shard is one part of the node's keys. Its node is asked under its lock.
type shard struct {
	store *Store

	mu      sync.Mutex
	node    *lease.Node      // nil: it takes no part, or does not any more
	fx      protocol.Effects // of one call; used again by the next
	packet  []byte           // likewise
	due     atomic.Int64     // when the node is to be ticked, as run knows, an Instant; 0: never
	asks    uint64           // so far; their numbers tell them apart
	waiting map[uint64]chan weir.Decision
	limits  limits
	notes   notes
	_       [64]byte // the next one's lock is another line of the cache
}

func (sh *shard) open(node *lease.Node) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.node = node
}

// close lets those go that wait.
func (sh *shard) close() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.node = nil
	for _, done := range sh.waiting {
		close(done)
	}
	clear(sh.waiting)
}

// take decides a plain ask about a key, unless leases can't answer it: then it is not lent.
func (sh *shard) take(ctx context.Context, hash uint64, key weir.StateKey, a *weir.Ask, d *weir.Decision) (lent bool, err error) {
	id, done, lent, err := sh.ask(ctx, hash, key, a, d)
	if done == nil {
		return lent, err
	}
	defer sh.store.waiting.Add(-1)
	select {
	case told, ok := <-done:
		if !ok {
			return true, weir.ErrAway
		}
		*d = told
		return true, nil
	case <-ctx.Done():
		sh.mu.Lock()
		defer sh.mu.Unlock()
		delete(sh.waiting, id)
		return true, ctx.Err()
	}
}

// ask is take up to where the owner has to answer: then done tells what it said.
func (sh *shard) ask(ctx context.Context, hash uint64, key weir.StateKey, a *weir.Ask, d *weir.Decision) (id uint64, done chan weir.Decision, lent bool, err error) {
	s := sh.store
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.node == nil {
		return 0, nil, false, nil
	}
	now := s.now()
	r := want(key, a)
	if sh.node.Spend(now, hash, &r, d, &sh.fx) {
		if len(sh.fx.Messages) > 0 {
			sh.deliver(0, nil)
		}
		return 0, nil, true, nil
	}
	if a.Cost > sh.limits.most(a.Limit) {
		return 0, nil, false, nil
	}
	if here.Only(ctx) && !sh.node.Decides(now, hash, &r) {
		return 0, nil, true, here.ErrWaits
	}
	sh.asks++
	id = sh.asks
	r.ID = id
	sh.node.Ask(now, &r, &sh.fx)
	if sh.deliver(id, d) {
		return 0, nil, true, nil
	}
	if s.waiting.Add(1) > MaxWaiting {
		s.waiting.Add(-1)
		return 0, nil, true, weir.ErrBusy // when it is decided after all, nobody waits for it
	}
	done = make(chan weir.Decision, 1)
	sh.waiting[id] = done
	return id, done, true, nil
}

// witness fills in what a denial of a key stood on, if that is known.
func (sh *shard) witness(hash uint64, key weir.StateKey, e *weir.Evidence) {
	sh.mu.Lock()
	if sh.node == nil {
		sh.mu.Unlock()
		return
	}
	at, state, ok := sh.node.Sight(sh.store.now(), hash, key)
	sh.mu.Unlock()
	if ok {
		e.Tell(at, state)
	}
}

// want is a plain ask as its node gets it.
func want(key weir.StateKey, a *weir.Ask) protocol.Request {
	return protocol.Request{
		State: key, Limit: a.Limit, Cost: a.Cost,
		Policy: protocol.PolicyOf(a.Policy.Partition), Sticky: a.Policy.Sharing == weir.SharingSticky,
	}
}

// deliver does what the node wants done. It is whether that has the answer to an
// ask, and writes it to d.
func (sh *shard) deliver(id uint64, d *weir.Decision) (mine bool) {
	for i := range sh.fx.Answers {
		a := &sh.fx.Answers[i]
		if a.ID == id {
			*d, mine = a.Decision, true
		} else if done, ok := sh.waiting[a.ID]; ok {
			delete(sh.waiting, a.ID)
			done <- a.Decision // it has room
		}
	}
	sh.fx.Answers = sh.fx.Answers[:0]
	if len(sh.fx.Messages) > 0 {
		sh.post()
	}
	if at, ok := sh.node.Next(); ok {
		if due := weir.Instant(sh.due.Load()); due == 0 || at < due {
			sh.due.Store(int64(at))
			sh.store.hurry(at)
		}
	}
	return mine
}

// post sends the messages of the node. The node sends a message again that is lost on the way.
func (sh *shard) post() {
	for i := range sh.fx.Messages {
		m := &sh.fx.Messages[i]
		sh.packet = m.Append(append(sh.packet[:0], shares))
		sh.store.self.Send(m.Peer, sh.packet)
	}
	clear(sh.fx.Messages)
	sh.fx.Messages = sh.fx.Messages[:0]
}

func (sh *shard) show(v *member.View) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.node == nil {
		return
	}
	sh.node.View(sh.store.now(), v, &sh.fx)
	sh.deliver(0, nil)
}

// owner is who keeps the state of a key, and how far away.
func (sh *shard) owner(key weir.StateKey) (name string, far protocol.Distance) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.node == nil {
		return "", 0
	}
	name = sh.node.Owner(key)
	return name, sh.node.Distance(name)
}

// is is whether its node is so; without a node it is not.
func (sh *shard) is(so func(*lease.Node) bool) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.node != nil && so(sh.node)
}

func (sh *shard) left() int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.node == nil {
		return 0
	}
	return sh.node.Left()
}

func (sh *shard) receive(from string, m *protocol.Message) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.node == nil {
		return
	}
	sh.node.Receive(sh.store.now(), from, m, &sh.fx)
	sh.deliver(0, nil)
}

// tick does what is due, and says when there is more; 0: never.
func (sh *shard) tick(now weir.Instant) weir.Instant {
	if due := weir.Instant(sh.due.Load()); due == 0 || now < due {
		return due
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.node == nil {
		return 0
	}
	sh.node.Tick(sh.store.now(), &sh.fx)
	sh.deliver(0, nil)
	at, _ := sh.node.Next()
	sh.due.Store(int64(at))
	return at
}
