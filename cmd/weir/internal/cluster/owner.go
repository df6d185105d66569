package cluster

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/maphash"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/frame"
	"github.com/weir-limit/weir/internal/cluster/lease"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/record"
)

// Receive is told a message of a member. One that no node would send does nothing.
// It keeps nothing of message, and waits for no other message. The node drops a message that comes
// before it takes part: the sender has a timer, and sends it again.
func (s *Store) Receive(from string, message []byte) {
	if len(message) == 0 || !s.joined.Load() {
		return
	}
	kind, rest := message[0], message[1:]
	switch kind {
	case shares:
		s.hear(from, rest)
	case asks:
		s.serve(from, rest)
	case tells:
		s.calls.hear(rest)
	case posts:
		s.hearPost(from, rest)
	case pings:
		s.self.Send(from, append([]byte{pongs}, rest[:min(len(rest), binary.MaxVarintLen64)]...))
	case pongs:
		s.others.hearPong(from, rest)
	case howOld:
		s.sayAge(from)
	case soOld:
		s.hearAge(from, rest)
	default:
		s.counts.unknown.Add(1)
	}
}

func (s *Store) hear(from string, b []byte) {
	for len(b) > 0 {
		if member.IsHeartbeat(b) {
			heartbeat, rest, err := member.ParseHeartbeat(b)
			if err == nil {
				s.others.receive(from, &heartbeat)
			}
			b = rest
			continue
		}
		m, rest, err := protocol.Parse(b)
		switch {
		case errors.Is(err, frame.ErrUnknown):
			s.counts.unknown.Add(1)
		case err != nil:
			s.counts.unknown.Add(1)
			return
		default:
			s.shard(m.State).receive(from, &m)
		}
		b = rest
	}
}

// serve answers a call, by the same answer when it comes again.
func (s *Store) serve(from string, b []byte) {
	id, q, err := parseCall(b, s.texts.Get)
	if err == nil {
		err = q.check()
	}
	if err != nil {
		s.counts.unknown.Add(1)
		return
	}
	s.counts.served.Add(1)
	sh := s.shard(q.place())
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.node == nil {
		return
	}
	call := callID{from, id}
	reply, again := sh.notes.replies[call]
	if !again {
		is := sh.decide(q)
		reply = q.appendReply(sh.packet[:0], id, is)
		sh.packet = reply
		if is == done && q.verb != look {
			sh.notes.answer(call, reply)
		}
	}
	s.self.Send(from, reply)
}

// decide answers a question as owner.
func (sh *shard) decide(q *question) status {
	now := sh.store.now()
	switch q.verb {
	case take:
		q.err = sh.decideTake(now, q)
	case settle:
		q.err = sh.settle(now, q.settlements)
	case reset:
		for _, k := range q.keys {
			if q.err = sh.node.Reset(now, k, &sh.fx); q.err != nil {
				break
			}
		}
		sh.deliver(0, nil)
	case look:
		q.now = now
		q.states, q.err = sh.node.Look(now, q.asks)
	}
	return statusOf(q.err)
}

// statusOf is how a node answers that fails so: done, unless nothing was decided.
func statusOf(err error) status {
	switch {
	case errors.Is(err, lease.ErrElsewhere):
		return elsewhere
	case errors.Is(err, lease.ErrNotYet):
		return notYet
	case errors.Is(err, lease.ErrUnsaved):
		return unsaved
	}
	return done
}

func (sh *shard) decideTake(now weir.Instant, q *question) (err error) {
	first := &q.asks[0]
	once, id := first.ChargesOnce(), record.OnceID{}
	if once {
		id = sh.store.receiptID(first.Receipt, first.State)
		if again, err := sh.notes.once.Answered(now, id, q.out); again || err != nil {
			return err
		}
	}
	q.now, q.states, err = sh.node.Take(now, q.asks, q.out, &sh.fx)
	sh.deliver(0, nil)
	if err == nil && once {
		sh.notes.once.Remember(id, q.out)
	}
	return err
}

// settle settles receipts of one placement and key, once.
func (sh *shard) settle(now weir.Instant, settlements []weir.Settlement) error {
	if err := sh.store.receipts.Check(now, settlements); err != nil {
		return err
	}
	err := sh.node.Settle(now, settlements, &sh.fx)
	sh.deliver(0, nil)
	if statusOf(err) != done {
		return err
	}
	return cmp.Or(sh.store.receipts.Settle(now, settlements), err)
}

func (s *Store) receiptID(id uint64, k weir.StateKey) record.OnceID {
	return record.OnceID{ID: id, Place: maphash.Comparable(s.seed, record.Place(k))}
}
