// Package storewire is what a program and the store of a daemon say to each other:
// the messages of store.proto, as the types of package weir.
package storewire

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// The names of the service and its methods.
const (
	Service  = "weir.store.v1.Store"
	Take     = "/" + Service + "/Take"
	Settle   = "/" + Service + "/Settle"
	Reset    = "/" + Service + "/Reset"
	Describe = "/" + Service + "/Describe"
)

// The bounds of a message. A message beyond them is not read.
const (
	// MaxMessage is how many bytes it may have.
	MaxMessage = 2 << 20
	// MaxParts is how many asks, settlements, keys or limits it may have in all.
	MaxParts = 1 << 12
)

// Written is a message of store.proto that is sent.
type Written interface{ Append(b []byte) []byte }

// Read is a message of store.proto that was received. Parse keeps nothing of b.
type Read interface{ Parse(b []byte) error }

// Limits gives the limits of texts. Its caller may remember some, and refuse more.
type Limits func(text string) (*weir.Limit, error)

// AppendTake appends a take to what will be a TakeRequest.
func AppendTake(b []byte, asks []weir.Ask) []byte {
	return write(b, &TakeRequest{Takes: [][]weir.Ask{asks}})
}

// Batch is a TakeRequest of what AppendTake has written, a take each.
type Batch [][]byte

// Append writes the request.
func (q Batch) Append(b []byte) []byte { return append(b, slices.Concat(q...)...) }

// TakeRequest is takes as they are read, each with its asks.
type TakeRequest struct {
	Limits Limits
	Takes  [][]weir.Ask
	Errs   []error // by take: why its limits can't be meant; nil: all can
}

// Parse reads a request.
func (q *TakeRequest) Parse(b []byte) error {
	return parse(b, &coder{request: true, limits: q.Limits}, q)
}

func (q *TakeRequest) fields(c *coder) {
	list(c, 1, &q.Takes, take)
	if len(q.Errs) < len(q.Takes) {
		q.Errs, c.odd = append(q.Errs, c.odd), nil
	}
}

func take(c *coder, asks *[]weir.Ask) { list(c, 1, asks, ask) }

func ask(c *coder, a *weir.Ask) {
	message(c, 1, &a.State, key)
	if err := c.limit(2, &a.Limit); c.odd == nil {
		c.odd = err
	}
	number(c, 3, &a.Cost)
	number(c, 4, &a.AtLeast)
	c.micros(5, &a.MaxHold)
	c.flag(6, &a.Peek)
	c.flag(7, &a.Shadow)
	c.flag(8, &a.Quota)
	c.flag(9, &a.After)
	number(c, 10, &a.Receipt)
	c.flag(11, &a.Once)
	evidence := a.Evidence != nil && a.Evidence.Always
	c.flag(12, &evidence)
	if evidence && a.Evidence == nil {
		a.Evidence = &weir.Evidence{Always: true}
	}
}

func key(c *coder, k *weir.StateKey) {
	c.text(1, &k.Rule)
	c.text(2, &k.Key)
}

// TakeResponse is the answers to takes, in their order.
type TakeResponse struct {
	Limits  Limits // for Parse
	Answers []Answer
}

// Answer is what became of one take: its decisions, or why there are none.
type Answer struct {
	Decisions []weir.Decision
	Err       error
	// Now and States are what a denial stood on, by which its program can deny the
	// same by itself for a while, or any take that asks for its evidence. States is empty
	// where that is not told.
	Now    weir.Instant
	States []weir.State
}

// MaxWords is how many words the states of an answer may have in all, so that the
// answers to a message of takes are no larger than a message.
const MaxWords = 64

// Append writes the response.
func (r *TakeResponse) Append(b []byte) []byte { return write(b, r) }

// Parse reads a response.
func (r *TakeResponse) Parse(b []byte) error { return parse(b, &coder{limits: r.Limits}, r) }

func (r *TakeResponse) fields(c *coder) { list(c, 1, &r.Answers, answer) }

func answer(c *coder, a *Answer) {
	if c.fault(2, &a.Err); a.Err != nil && !c.reading {
		return
	}
	list(c, 1, &a.Decisions, decision)
	number(c, 3, &a.Now)
	list(c, 4, &a.States, state)
}

// state is the words of a state. Those of a long one may come in several fields.
func state(c *coder, s *weir.State) {
	if c.reads(1) {
		if len(c.value.bytes)%8 != 0 {
			c.fail(errMalformed)
		}
		*s = append(*s, record.Words(c.value.bytes)...)
	} else if !c.reading {
		c.out = binary.AppendUvarint(appendTag(c.out, 1, length), uint64(8*len(*s)))
		for _, word := range *s {
			c.out = binary.LittleEndian.AppendUint64(c.out, word)
		}
	}
}

func decision(c *coder, d *weir.Decision) {
	outcome := uint64(d.Outcome)
	if number(c, 1, &outcome); outcome > uint64(weir.Impossible) {
		c.fail(fmt.Errorf("%d is no outcome", outcome))
	} else if c.reads(1) {
		d.Outcome = weir.Outcome(outcome)
	}
	c.flag(2, &d.Charged)
	number(c, 3, &d.Cost)
	number(c, 4, &d.Remaining)
	c.micros(5, &d.RetryAfter)
	c.micros(6, &d.NextAfter)
	c.micros(7, &d.ResetAfter)
	c.micros(8, &d.Hold)
	optional(c, 9, &d.Receipt, receipt)
}

func receipt(c *coder, r *weir.Receipt) {
	number(c, 1, &r.ID)
	message(c, 2, &r.State, key)
	c.fail(c.limit(3, &r.Limit))
	number(c, 4, &r.Cost)
	number(c, 5, &r.Taken)
	number(c, 6, &r.Expires)
	number(c, 7, &r.Mark[0])
	number(c, 8, &r.Mark[1])
}
