// Package storewire is what a program and the store of a daemon say to each other:
// the messages of store.proto, as the types of package weir.
package storewire

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

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
	return appendMessage(b, 1, func(b []byte) []byte {
		for i := range asks {
			b = appendMessage(b, 1, func(b []byte) []byte { return appendAsk(b, &asks[i]) })
		}
		return b
	})
}

// Batch is a TakeRequest of what AppendTake has written, a take each.
type Batch [][]byte

// Append writes the request.
func (q Batch) Append(b []byte) []byte {
	for _, take := range q {
		b = append(b, take...)
	}
	return b
}

// TakeRequest is takes as they are read, each with its asks.
type TakeRequest struct {
	Limits Limits
	Takes  [][]weir.Ask
	Errs   []error // by take: why its limits can't be meant; nil: all can
}

// Parse reads a request.
func (q *TakeRequest) Parse(b []byte) error {
	parts := 0
	return eachField(b, func(n int, take value) error {
		if n != 1 {
			return nil
		}
		if parts++; parts > MaxParts {
			return tooMany("takes", MaxParts)
		}
		var asks []weir.Ask
		var bad error
		err := eachField(take.bytes, func(n int, v value) error {
			if n != 1 {
				return nil
			}
			if parts++; parts > MaxParts {
				return tooMany("asks", MaxParts)
			}
			a, limit, err := parseAsk(v.bytes)
			if err != nil {
				return err
			}
			if a.Limit, err = q.Limits(limit); err != nil && bad == nil {
				bad = err
			}
			asks = append(asks, a)
			return nil
		})
		q.Takes, q.Errs = append(q.Takes, asks), append(q.Errs, bad)
		return err
	})
}

func appendAsk(b []byte, a *weir.Ask) []byte {
	b = appendMessage(b, 1, func(b []byte) []byte { return appendKey(b, a.State) })
	b = appendText(b, 2, a.Limit.String())
	b = appendNumber(b, 3, uint64(a.Cost))
	b = appendNumber(b, 4, uint64(a.AtLeast))
	b = appendNumber(b, 5, uint64(micros(a.MaxHold)))
	b = appendFlag(b, 6, a.Peek)
	b = appendFlag(b, 7, a.Shadow)
	b = appendFlag(b, 8, a.Quota)
	b = appendFlag(b, 9, a.After)
	b = appendNumber(b, 10, a.Receipt)
	b = appendFlag(b, 11, a.Once)
	return appendFlag(b, 12, a.Evidence != nil && a.Evidence.Always)
}

func parseAsk(b []byte) (a weir.Ask, limit string, err error) {
	err = eachField(b, func(n int, v value) (err error) {
		switch n {
		case 1:
			a.State, err = parseKey(v.bytes)
		case 2:
			limit = string(v.bytes)
		case 3:
			a.Cost = v.signed()
		case 4:
			a.AtLeast = v.signed()
		case 5:
			a.MaxHold = duration(v.signed())
		case 6:
			a.Peek = v.flag()
		case 7:
			a.Shadow = v.flag()
		case 8:
			a.Quota = v.flag()
		case 9:
			a.After = v.flag()
		case 10:
			a.Receipt = v.number
		case 11:
			a.Once = v.flag()
		case 12:
			if v.flag() {
				a.Evidence = &weir.Evidence{Always: true}
			}
		}
		return err
	})
	return a, limit, err
}

func appendKey(b []byte, k weir.StateKey) []byte {
	return appendText(appendText(b, 1, k.Rule), 2, k.Key)
}

func parseKey(b []byte) (k weir.StateKey, err error) {
	err = eachField(b, func(n int, v value) error {
		switch n {
		case 1:
			k.Rule = string(v.bytes)
		case 2:
			k.Key = string(v.bytes)
		}
		return nil
	})
	return k, err
}

// micros is d in whole microseconds, rounded up.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

// duration is so many microseconds, at most 292 years of them.
func duration(us int64) time.Duration {
	return time.Duration(min(max(us, 0), math.MaxInt64/int64(time.Microsecond))) * time.Microsecond
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
func (r *TakeResponse) Append(b []byte) []byte {
	for _, answer := range r.Answers {
		b = appendMessage(b, 1, func(b []byte) []byte {
			if answer.Err != nil {
				return appendFault(b, 2, answer.Err)
			}
			for i := range answer.Decisions {
				b = appendMessage(b, 1, func(b []byte) []byte { return appendDecision(b, &answer.Decisions[i]) })
			}
			b = appendNumber(b, 3, uint64(answer.Now))
			for _, s := range answer.States {
				b = appendMessage(b, 4, func(b []byte) []byte { return appendState(b, s) })
			}
			return b
		})
	}
	return b
}

// Parse reads a response.
func (r *TakeResponse) Parse(b []byte) error {
	return eachField(b, func(n int, v value) error {
		if n != 1 {
			return nil
		}
		var answer Answer
		err := eachField(v.bytes, func(n int, v value) (err error) {
			switch n {
			case 1:
				var d weir.Decision
				d, err = parseDecision(v.bytes, r.Limits)
				answer.Decisions = append(answer.Decisions, d)
			case 2:
				answer.Err, err = parseFault(v.bytes)
			case 3:
				answer.Now = weir.Instant(v.signed())
			case 4:
				var s weir.State
				s, err = parseState(v.bytes)
				answer.States = append(answer.States, s)
			}
			return err
		})
		r.Answers = append(r.Answers, answer)
		return err
	})
}

func appendState(b []byte, s weir.State) []byte {
	return appendMessage(b, 1, func(b []byte) []byte {
		for _, word := range s {
			b = binary.LittleEndian.AppendUint64(b, word)
		}
		return b
	})
}

func parseState(b []byte) (s weir.State, err error) {
	err = eachField(b, func(n int, v value) error {
		if n == 1 && len(v.bytes)%8 != 0 {
			return errMalformed
		}
		if n == 1 {
			s = append(s, record.Words(v.bytes)...)
		}
		return nil
	})
	return s, err
}

func appendDecision(b []byte, d *weir.Decision) []byte {
	b = appendNumber(b, 1, uint64(d.Outcome))
	b = appendFlag(b, 2, d.Charged)
	b = appendNumber(b, 3, uint64(d.Cost))
	b = appendNumber(b, 4, uint64(d.Remaining))
	b = appendNumber(b, 5, uint64(micros(d.RetryAfter)))
	b = appendNumber(b, 6, uint64(micros(d.NextAfter)))
	b = appendNumber(b, 7, uint64(micros(d.ResetAfter)))
	b = appendNumber(b, 8, uint64(micros(d.Hold)))
	if d.Receipt != nil {
		b = appendMessage(b, 9, func(b []byte) []byte { return appendReceipt(b, d.Receipt) })
	}
	return b
}

func parseDecision(b []byte, limits Limits) (d weir.Decision, err error) {
	err = eachField(b, func(n int, v value) (err error) {
		switch n {
		case 1:
			if v.number > uint64(weir.Impossible) {
				return fmt.Errorf("%d is no outcome", v.number)
			}
			d.Outcome = weir.Outcome(v.number)
		case 2:
			d.Charged = v.flag()
		case 3:
			d.Cost = v.signed()
		case 4:
			d.Remaining = v.signed()
		case 5:
			d.RetryAfter = duration(v.signed())
		case 6:
			d.NextAfter = duration(v.signed())
		case 7:
			d.ResetAfter = duration(v.signed())
		case 8:
			d.Hold = duration(v.signed())
		case 9:
			d.Receipt, err = parseReceipt(v.bytes, limits)
		}
		return err
	})
	return d, err
}

func appendReceipt(b []byte, r *weir.Receipt) []byte {
	b = appendNumber(b, 1, r.ID)
	b = appendMessage(b, 2, func(b []byte) []byte { return appendKey(b, r.State) })
	b = appendText(b, 3, r.Limit.String())
	b = appendNumber(b, 4, uint64(r.Cost))
	b = appendNumber(b, 5, uint64(r.Taken))
	b = appendNumber(b, 6, uint64(r.Expires))
	b = appendNumber(b, 7, r.Mark[0])
	return appendNumber(b, 8, r.Mark[1])
}

func parseReceipt(b []byte, limits Limits) (*weir.Receipt, error) {
	r, limit := new(weir.Receipt), ""
	err := eachField(b, func(n int, v value) (err error) {
		switch n {
		case 1:
			r.ID = v.number
		case 2:
			r.State, err = parseKey(v.bytes)
		case 3:
			limit = string(v.bytes)
		case 4:
			r.Cost = v.signed()
		case 5:
			r.Taken = weir.Instant(v.signed())
		case 6:
			r.Expires = weir.Instant(v.signed())
		case 7:
			r.Mark[0] = v.number
		case 8:
			r.Mark[1] = v.number
		}
		return err
	})
	if err == nil {
		r.Limit, err = limits(limit)
	}
	return r, err
}
