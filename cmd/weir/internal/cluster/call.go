package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/rank"
	"github.com/weir-limit/weir/internal/packing"
	"github.com/weir-limit/weir/internal/record"
)

// calls are the questions of this node that wait for owners.
type calls struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan reply // at most MaxWaiting
}

// reply is an owner's answer.
type reply struct {
	is   status
	body []byte
}

func (c *calls) init() { c.last, c.waiting = rand.Uint64()>>2, map[uint64]chan reply{} }

// begin numbers a call. It has room for one answer.
func (c *calls) begin() (id uint64, answer chan reply, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) >= MaxWaiting {
		return 0, nil, false
	}
	c.last++
	answer = make(chan reply, 1)
	c.waiting[c.last] = answer
	return c.last, answer, true
}

func (c *calls) end(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

func (c *calls) len() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.waiting))
}

// hear hands an answer to the goroutine that waits for it.
func (c *calls) hear(b []byte) {
	r := packing.Reader{Rest: b}
	id := r.Number()
	if len(r.Rest) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, waits := c.waiting[id]
	if !waits || len(answer) > 0 {
		return
	}
	answer <- reply{status(r.Rest[0]), append([]byte(nil), r.Rest[1:]...)}
}

// errSilent is why a question was not answered.
var errSilent = errors.New("the owner of the key does not answer")

// ask asks the owner of a key until it answers, for as long as it waits. q has
// the answer then.
func (s *Store) ask(ctx context.Context, q *question) error {
	sh, place := s.shard(q.place()), q.place()
	owner, far := sh.owner(place)
	if owner == "" {
		return weir.ErrAway
	}
	ctx, cancel := context.WithTimeoutCause(ctx, max(s.waits, far.Patience()), errSilent)
	defer cancel()
	id, answer, ok := s.calls.begin()
	if !ok {
		return weir.ErrBusy
	}
	defer s.calls.end(id)
	again, soon := time.NewTimer(0), time.Millisecond
	defer again.Stop()
	for {
		is, wait := elsewhere, far.Retry()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.done:
			return weir.ErrAway
		case r := <-answer:
			if r.is == done {
				return q.parseReply(r.body, s.texts.Get)
			}
			is, wait = r.is, protocol.Retry // another node is about to own the key
		case <-again.C:
			if is = s.askOnce(sh, place, q, id); is == done {
				return nil
			}
		}
		if is == unsaved { // the owner waits for a backup
			wait, soon = soon, min(2*soon, far.Retry())
		}
		again.Reset(wait)
	}
}

// askOnce asks the owner, and is what it says where that is this node; else it is elsewhere.
func (s *Store) askOnce(sh *shard, place weir.StateKey, q *question, id uint64) status {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.node == nil {
		return elsewhere
	}
	owner := sh.node.Owner(place)
	if owner == s.self.Name {
		return sh.decide(q)
	}
	if owner != "" {
		sh.packet = q.appendCall(sh.packet[:0], id)
		s.counts.asked.Add(1)
		s.self.Send(owner, sh.packet)
	}
	return elsewhere
}

// takeWhole has the owner decide asks of one placement and key. While it does not
// answer they are denied, without evidence: the next owner will know what was let pass.
func (s *Store) takeWhole(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	s.counts.whole.Add(1)
	q := question{verb: take, asks: s.led.all(asks), out: make([]weir.Decision, len(out))}
	err := s.ask(ctx, &q)
	switch {
	case errors.Is(err, errSilent):
		s.counts.unanswered.Add(1)
		for i := range asks {
			out[i] = weir.Decision{Cost: asks[i].Cost, RetryAfter: protocol.Retry}
		}
		return nil
	case err != nil:
		return err
	case q.err != nil:
		return q.err
	}
	copy(out, q.out)
	for i := range out {
		record.Own(&out[i], &asks[i])
		if mark, _ := rank.CutMark(q.asks[i].State.Rule); mark != "" && out[i].Receipt != nil {
			out[i].Receipt.State.Rule = mark + out[i].Receipt.State.Rule
		}
	}
	if len(q.states) == len(asks) && weir.WantsEvidence(asks, weir.Resolve(asks, q.out)) {
		for i, state := range q.states {
			asks[i].Evidence.Tell(q.now, state)
		}
	}
	return nil
}

// Settle settles receipts with the owners of their keys. It is done when some of them
// were settled now, and the others before.
func (s *Store) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := record.NoRefunds(settlements); err != nil {
		return err
	}
	return record.SettleApart(settlements, s.partOf, func(part []weir.Settlement) error { return s.settlePart(ctx, part) })
}

func (s *Store) settlePart(ctx context.Context, part []weir.Settlement) error {
	if r := s.marked(part[0].Receipt.State); r != nil {
		return r.settle(part)
	}
	q := question{verb: settle}
	for _, st := range part {
		r := *st.Receipt
		r.State = short(r.State)
		st.Receipt = &r
		q.settlements = append(q.settlements, st)
	}
	if err := s.tell(ctx, &q); err != nil {
		return err
	}
	for i := range part {
		part[i].Charged = q.settlements[i].Charged
	}
	return nil
}

// tell is ask for what has no other answer: it fails with weir.ErrAway.
func (s *Store) tell(ctx context.Context, q *question) error {
	err := s.ask(ctx, q)
	if errors.Is(err, errSilent) {
		return errors.Join(err, weir.ErrAway)
	}
	return errors.Join(err, q.err)
}

// Reset forgets what was used of the keys. Nodes keep the leases that they have of them.
func (s *Store) Reset(ctx context.Context, keys []weir.StateKey) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for len(keys) > 0 {
		var part []weir.StateKey
		part, keys = record.Cut(keys, record.Place)
		q := question{verb: reset}
		for _, k := range part {
			q.keys = append(q.keys, s.led.count(k))
			for i := range s.replicas {
				s.replicas[i].reset(short(k))
			}
		}
		if err := s.tell(ctx, &q); err != nil {
			return err
		}
	}
	return nil
}

// Look is the states of asks at the owners of their keys, each by its owner's clock,
// with all that nodes hold taken for used. now is that of the last.
func (s *Store) Look(ctx context.Context, asks []weir.Ask) (now weir.Instant, states []weir.State, err error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	now, states = s.now(), make([]weir.State, len(asks))
	for i := range asks {
		if r := s.replica(asks[i].Policy.Sharing); r != nil {
			now, states[i] = r.look(&asks[i])
			continue
		}
		q := question{verb: look, asks: s.led.all(asks[i : i+1])}
		if err := s.tell(ctx, &q); err != nil {
			return 0, nil, err
		}
		now, states[i] = q.now, q.states[0]
	}
	return now, states, nil
}
