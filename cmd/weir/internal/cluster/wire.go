package cluster

import (
	"encoding/binary"
	"errors"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/rank"
	"github.com/weir-limit/weir/internal/packing"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/internal/storewire"
)

// The first byte of a message between nodes tells its kind. A message of another kind is dropped,
// and counted.
const (
	shares = 1 // messages of packages lease and member
	asks   = 2 // a call of an owner
	tells  = 3 // its answer
	howOld = 4 // asks how long a member has been there
	soOld  = 5 // its answer
	posts  = 6 // what a replica tells
	pings  = 7 // asks to be answered at once
	pongs  = 8 // its answer, with what was asked
)

// verb is what an owner is asked to do.
type verb byte

const (
	take verb = iota + 1
	settle
	reset
	look
)

// status is how an owner answers.
type status byte

const (
	done      status = iota + 1 // what was asked; the answer follows
	elsewhere                   // nothing: another node owns the key
	notYet                      // nothing: it can't decide yet
	unsaved                     // nothing: a backup is on its way
)

// question is what an owner is asked about one placement and key, and its answer.
type question struct {
	verb        verb
	asks        []weir.Ask // take, look
	out         []weir.Decision
	settlements []weir.Settlement
	keys        []weir.StateKey
	now         weir.Instant // of the owner, when it looked, or denied
	states      []weir.State
	err         error // of the answer
}

// place is whose count it is about.
func (q *question) place() weir.StateKey {
	switch {
	case len(q.asks) > 0:
		return q.asks[0].State
	case len(q.settlements) > 0:
		return q.settlements[0].Receipt.State
	case len(q.keys) > 0:
		return q.keys[0]
	}
	return weir.StateKey{}
}

var errMalformed = errors.New("malformed message")

// appendCall appends a question as it goes over the wire.
func (q *question) appendCall(b []byte, id uint64) []byte {
	b = append(binary.AppendUvarint(append(b, asks), id), byte(q.verb))
	switch q.verb {
	case take, look:
		b = storewire.AppendTake(b, q.asks)
	case settle:
		b = (&storewire.SettleRequest{Settlements: q.settlements}).Append(b)
	case reset:
		b = (&storewire.ResetRequest{Keys: q.keys}).Append(b)
	}
	return b
}

// parseCall reads what follows the first byte of a call.
func parseCall(b []byte, limits storewire.Limits) (id uint64, q *question, err error) {
	r := packing.Reader{Rest: b}
	id, first := r.Number(), r.Take(1)
	if r.Bad {
		return 0, nil, errMalformed
	}
	q, b = &question{verb: verb(first[0])}, r.Rest
	switch q.verb {
	case take, look:
		r := storewire.TakeRequest{Limits: limits}
		if err = r.Parse(b); err == nil && (len(r.Takes) != 1 || r.Errs[0] != nil) {
			err = errMalformed
		}
		if err == nil {
			q.asks, q.out = r.Takes[0], make([]weir.Decision, len(r.Takes[0]))
		}
	case settle:
		r := storewire.SettleRequest{Limits: limits}
		err = r.Parse(b)
		q.settlements = r.Settlements
	case reset:
		r := storewire.ResetRequest{}
		err = r.Parse(b)
		q.keys = r.Keys
	default:
		err = errMalformed
	}
	if err == nil && len(q.asks)+len(q.settlements)+len(q.keys) == 0 {
		err = errMalformed
	}
	return id, q, err
}

// check says what no node would ask.
func (q *question) check() error {
	place := record.Place(q.place())
	for i := range q.asks {
		if !named(q.asks[i].State) || record.Place(q.asks[i].State) != place {
			return errMalformed
		}
	}
	for i := range q.settlements {
		s, r := &q.settlements[i], q.settlements[i].Receipt
		if !named(r.State) || record.Place(r.State) != place || min(r.Cost, s.Used, int64(r.Taken), int64(r.Expires)) < 0 || max(r.Cost, s.Used) > weir.MaxCost {
			return errMalformed
		}
	}
	for _, k := range q.keys {
		if !named(k) || record.Place(k) != place {
			return errMalformed
		}
	}
	return record.Check("cluster", fits, q.asks, q.out)
}

// named is whether nodes know a count by this key.
func named(k weir.StateKey) bool {
	return len(k.Rule) <= maxName+rank.MaxMark && len(k.Key) <= maxName
}

// appendReply appends the answer to a question.
func (q *question) appendReply(b []byte, id uint64, s status) []byte {
	b = append(binary.AppendUvarint(append(b, tells), id), byte(s))
	if s != done {
		return b
	}
	switch q.verb {
	case take:
		answer := storewire.Answer{Decisions: q.out, Err: q.err}
		if q.now > 0 && words(q.states) <= storewire.MaxWords {
			answer.Now, answer.States = q.now, q.states
		}
		b = (&storewire.TakeResponse{Answers: []storewire.Answer{answer}}).Append(b)
	case settle:
		b = (&storewire.SettleResponse{Settlements: q.settlements, Err: q.err}).Append(b)
	case reset:
		b = (&storewire.FaultResponse{Err: q.err}).Append(b)
	case look:
		b = binary.AppendUvarint(b, uint64(q.now))
		for _, s := range q.states {
			b = binary.AppendUvarint(b, uint64(len(s)))
			for _, word := range s {
				b = binary.LittleEndian.AppendUint64(b, word)
			}
		}
	}
	return b
}

// words is how many these are in all.
func words(states []weir.State) (n int) {
	for _, s := range states {
		n += len(s)
	}
	return n
}

// parseReply reads what follows the status of an answer with done.
func (q *question) parseReply(b []byte, limits storewire.Limits) error {
	switch q.verb {
	case take:
		r := storewire.TakeResponse{Limits: limits}
		if err := r.Parse(b); err != nil {
			return err
		}
		if len(r.Answers) != 1 || r.Answers[0].Err == nil && len(r.Answers[0].Decisions) != len(q.out) {
			return errMalformed
		}
		copy(q.out, r.Answers[0].Decisions)
		q.err, q.now, q.states = r.Answers[0].Err, r.Answers[0].Now, r.Answers[0].States
	case settle:
		r := storewire.SettleResponse{Settlements: q.settlements}
		if err := r.Parse(b); err != nil {
			return err
		}
		q.err = r.Err
	case reset:
		r := storewire.FaultResponse{}
		if err := r.Parse(b); err != nil {
			return err
		}
		q.err = r.Err
	case look:
		return q.parseStates(b)
	}
	return nil
}

func (q *question) parseStates(b []byte) error {
	r := packing.Reader{Rest: b}
	q.now, q.states = weir.Instant(r.Number()), make([]weir.State, len(q.asks))
	for i := range q.states {
		for words := r.Take(8 * r.Length()); len(words) > 0; words = words[8:] {
			q.states[i] = append(q.states[i], binary.LittleEndian.Uint64(words))
		}
	}
	if r.Bad {
		return errMalformed
	}
	return nil
}
