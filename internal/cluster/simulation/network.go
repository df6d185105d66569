package simulation

import (
	"container/heap"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// letter is a message or a heartbeat on its way.
type letter struct {
	from, to    int
	isHeartbeat bool
	message     protocol.Message
	heartbeat   member.Heartbeat
}

// event is what happens at a time: a letter arrives, a machine has something due, or
// something else.
type event struct {
	at     weir.Instant
	seq    uint64
	to     int // the machine that it happens to, when it is not paused; -1: none
	letter *letter
	ring   *shard        // whose timer it is
	pulse  *member.Peers // whose heartbeats are due
	do     func(now weir.Instant)
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, *x.(*event)) }
func (e *events) Pop() any     { last := len(*e) - 1; *e = (*e)[:last]; return nil }

func (s *simulation) plant(e event) {
	s.seq++
	e.seq = s.seq
	s.planted = e
	heap.Push(&s.events, &s.planted)
}

func (s *simulation) at(at weir.Instant, do func(weir.Instant)) {
	s.plant(event{at: at, to: -1, do: do})
}

// until lets happen what is due until now.
func (s *simulation) until(now weir.Instant) {
	for len(s.events) > 0 && s.events[0].at <= now {
		e := s.events[0]
		heap.Pop(&s.events)
		if e.to >= 0 && s.machines[e.to].away > e.at {
			e.at = s.machines[e.to].away
			s.plant(e)
			continue
		}
		switch {
		case e.letter != nil:
			s.deliver(e.at, e.letter)
		case e.ring != nil:
			s.ring(e.at, e.to, e.ring)
		case e.pulse != nil:
			s.pulse(e.at, e.to, e.pulse)
		default:
			e.do(e.at)
		}
	}
}

// post sends a letter, with what goes wrong on the way.
func (s *simulation) post(now weir.Instant, l letter) {
	copies, faults := 1, s.Faults
	if s.calm(now, s.Calm) {
		faults = Faults{}
	} else if s.cut[l.from][l.to] > now {
		return
	}
	lost := s.parted(now, l.from, l.to)
	switch n := s.random.IntN(1000); {
	case n < faults.Loss || lost:
		copies = 0
	case faults.Double > 0 && s.random.IntN(1000) < faults.Double:
		copies = 2
	}
	if copies > 0 && faults.Newer > 0 && s.random.IntN(1000) < faults.Newer && !s.renew(&l) {
		return
	}
	for range copies {
		took := weir.Instant(1000)
		if faults.Delay > 0 {
			took = 500 + weir.Instant(s.random.Int64N(max(faults.Delay.Microseconds()-500, 1)))
		}
		at := s.take()
		*at = l
		s.plant(event{at: now + took, to: l.to, letter: at})
	}
}

// take is a letter to write, perhaps one that has arrived.
func (s *simulation) take() *letter {
	if last := len(s.letters) - 1; last >= 0 {
		l := s.letters[last]
		s.letters = s.letters[:last]
		return l
	}
	return new(letter)
}

// renew makes a letter as a later version would: with more fields, or of a kind that is
// not known yet; then it does not arrive.
func (s *simulation) renew(l *letter) bool {
	var b []byte
	if l.isHeartbeat {
		b = l.heartbeat.Append(nil)
	} else {
		b = l.message.Append(nil)
	}
	size := 1
	for b[size-1] >= 0x80 {
		size++
	}
	if s.random.IntN(4) == 0 {
		b[size] = 99 // the version
	} else if b[0] < 0x70 {
		b[0] += 2
		b = append(b, 7, 7)
	}
	var err error
	if l.isHeartbeat {
		l.heartbeat, _, err = member.ParseHeartbeat(b)
	} else {
		l.message, _, err = protocol.Parse(b)
	}
	s.Dropped += count(err != nil)
	return err == nil
}

func count(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (s *simulation) deliver(now weir.Instant, l *letter) {
	m := s.machines[l.to]
	if m.runs() {
		s.tamper(now, l)
		if l.isHeartbeat {
			if by := s.watchers; s.Gossip && !by.gone[l.to][l.from] {
				by.reached[l.to][l.from] = now
			}
			m.peers.Receive(m.clock(now), s.names[l.from], &l.heartbeat)
		} else {
			m.node(l.message.State).Receive(m.clock(now), s.names[l.from], &l.message, &s.fx)
		}
		s.effects(now, l.to)
	}
	s.letters = append(s.letters, l)
}
