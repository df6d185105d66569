package cluster

import (
	"slices"
	"strings"
	"sync"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/counter"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/record"
)

// replicated are the ways to share where each node decides by itself.
var replicated = [...]weir.Sharing{weir.SharingMesh, weir.SharingGossip, weir.SharingDivided, weir.SharingHub}

// replica decides the asks of one of these ways. It has one lock: what it tells others
// packs many keys.
type replica struct {
	store   *Store
	sharing weir.Sharing

	mu    sync.Mutex
	node  *counter.Replica // nil: it takes no part, or does not any more
	posts []counter.Post
	due   weir.Instant // when it is to be ticked, as run knows; 0: never
	notes notes
}

func (r *replica) open(o counter.Settings) error {
	node, err := counter.New(r.store.now(), o)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.node = node
	return err
}

func (r *replica) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.node = nil
}

// replica is what decides asks that are shared in this way; nil: owners do.
func (s *Store) replica(by weir.Sharing) *replica {
	switch by {
	case weir.SharingMesh:
		return &s.replicas[0]
	case weir.SharingGossip:
		return &s.replicas[1]
	case weir.SharingDivided:
		return &s.replicas[2]
	case weir.SharingHub:
		return &s.replicas[3]
	case weir.SharingLease, weir.SharingSticky, weir.SharingLeader:
	}
	return nil
}

// together is the replica that decides all asks; nil where there is none.
func (s *Store) together(asks []weir.Ask) *replica {
	r := s.replica(asks[0].Policy.Sharing)
	for i := range asks {
		if s.replica(asks[i].Policy.Sharing) != r {
			return nil
		}
	}
	return r
}

// take decides asks that were checked.
func (r *replica) take(asks []weir.Ask, out []weir.Decision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.node == nil {
		return weir.ErrAway
	}
	now := r.store.now()
	id, once := r.store.receiptID(asks[0].Receipt, asks[0].State), asks[0].ChargesOnce()
	if once {
		if again, err := r.notes.once.Answered(now, id, out); again || err != nil {
			return err
		}
	}
	short := r.store.led.all(asks)
	r.node.Take(now, short, out)
	if weir.WantsEvidence(asks, false) && !weir.Resolve(asks, slices.Clone(out)) {
		for i := range short {
			asks[i].Evidence.Tell(now, r.node.Look(now, short[i].Limit, short[i].State))
		}
	}
	for i := range out {
		if d := &out[i]; d.Receipt != nil {
			record.Own(d, &asks[i])
			d.Receipt.State.Rule = r.mark() + d.Receipt.State.Rule
		}
	}
	if once {
		r.notes.once.Remember(id, out)
	}
	r.plan()
	return nil
}

// mark stands before the rule in receipts of this node's own count.
func (r *replica) mark() string { return string(r.sharing) + "\x00" }

// marked is whose receipts of k are; nil: those of owners.
func (s *Store) marked(k weir.StateKey) *replica { return s.replica(wayOf(k)) }

// wayOf is the way to share that a receipt of k is marked with; none: those of owners.
func wayOf(k weir.StateKey) weir.Sharing {
	way, _, ok := strings.Cut(k.Rule, "\x00")
	if !ok {
		return ""
	}
	return weir.Sharing(way)
}

// Alone is whether a receipt of k is of a node that decides by itself, and knows nothing at
// the others.
func Alone(k weir.StateKey) bool { return slices.Contains(replicated[:], wayOf(k)) }

// settle settles receipts of one take, once.
func (r *replica) settle(settlements []weir.Settlement) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.node == nil {
		return weir.ErrAway
	}
	now := r.store.now()
	if err := r.store.receipts.Settle(now, settlements); err != nil {
		return err
	}
	done, failed := false, error(nil)
	for i, st := range settlements {
		receipt := *st.Receipt
		receipt.State.Rule = strings.TrimPrefix(receipt.State.Rule, r.mark())
		receipt.State = short(receipt.State)
		st.Receipt = &receipt
		if err := r.node.Settle(now, &st); err != nil {
			failed = err
		} else {
			done, settlements[i].Charged = true, st.Charged
		}
	}
	r.plan()
	if done {
		return nil
	}
	return failed
}

func (r *replica) reset(key weir.StateKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.node != nil {
		r.node.Reset(r.store.now(), key)
	}
}

// look is the state of an ask, as this node knows it.
func (r *replica) look(a *weir.Ask) (now weir.Instant, state weir.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now = r.store.now()
	if r.node != nil {
		state = r.node.Look(now, a.Limit, short(a.State))
	}
	return now, state
}

func (r *replica) show(members []member.Presence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.node != nil {
		r.node.View(r.store.now(), members)
		r.plan()
	}
}

func (r *replica) receive(from string, message []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.node == nil {
		return
	}
	if r.node.Receive(r.store.now(), from, message, &r.posts) != nil {
		r.store.counts.unknown.Add(1)
	}
	r.plan()
}

// tick does what is due, and says when there is more; 0: never.
func (r *replica) tick() weir.Instant {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.store.now(); r.node != nil && r.due != 0 && now >= r.due {
		r.due = 0
		r.node.Tick(now, &r.posts)
		r.plan()
	}
	return r.due
}

// plan sends what is to be sent, and says when there is more.
func (r *replica) plan() {
	for i := range r.posts {
		p := &r.posts[i]
		packet := append([]byte{posts}, p.Message...)
		for _, to := range p.Peers {
			r.store.self.Send(to, packet)
		}
	}
	clear(r.posts)
	r.posts = r.posts[:0]
	if at, ok := r.node.Next(); ok && (r.due == 0 || at < r.due) {
		r.due = at
		r.store.hurry(at)
	}
}

// hearPost hands what another node tells to the replica of its way to share.
func (s *Store) hearPost(from string, b []byte) {
	way, ok := counter.IsPost(b)
	if r := s.replica(way); ok && r != nil {
		r.receive(from, b)
		return
	}
	s.counts.unknown.Add(1)
}

// partOf is what is settled together: receipts of one placement and key, or of a
// replica.
func (s *Store) partOf(st weir.Settlement) weir.StateKey {
	if r := s.marked(st.Receipt.State); r != nil {
		return weir.StateKey{Rule: r.mark()}
	}
	return record.PlaceOf(st)
}
