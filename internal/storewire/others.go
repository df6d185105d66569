package storewire

import (
	"encoding/binary"
	"errors"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// SettleRequest is settlements of one take.
type SettleRequest struct {
	Limits      Limits // for Parse
	Settlements []weir.Settlement
}

// Append writes the request.
func (q *SettleRequest) Append(b []byte) []byte { return write(b, q) }

// Parse reads a request.
func (q *SettleRequest) Parse(b []byte) error {
	return parse(b, &coder{request: true, limits: q.Limits}, q)
}

func (q *SettleRequest) fields(c *coder) { list(c, 1, &q.Settlements, settlement) }

func settlement(c *coder, s *weir.Settlement) {
	optional(c, 1, &s.Receipt, receipt)
	number(c, 2, &s.Used)
	c.flag(3, &s.Renew)
	if c.ends() && s.Receipt == nil {
		c.fail(errors.New("a settlement without a receipt"))
	}
}

// SettleResponse is what stays charged of each settlement, or why nothing was settled.
type SettleResponse struct {
	Settlements []weir.Settlement // of the request; Parse fills in Charged
	Err         error
	told        int // how many of them Parse has filled in
}

// Append writes the response.
func (r *SettleResponse) Append(b []byte) []byte { return write(b, r) }

// Parse reads a response.
func (r *SettleResponse) Parse(b []byte) error { return parse(b, new(coder), r) }

func (r *SettleResponse) fields(c *coder) {
	c.fault(1, &r.Err)
	switch {
	case c.reads(2) && r.told < len(r.Settlements):
		r.Settlements[r.told].Charged = int64(c.value.number)
		r.told++
	case !c.reading && r.Err == nil:
		for i := range r.Settlements {
			c.out = binary.AppendUvarint(appendTag(c.out, 2, varint), uint64(r.Settlements[i].Charged))
		}
	}
}

// ResetRequest is keys whose use is to be forgotten.
type ResetRequest struct{ Keys []weir.StateKey }

// Append writes the request.
func (q *ResetRequest) Append(b []byte) []byte { return write(b, q) }

// Parse reads a request.
func (q *ResetRequest) Parse(b []byte) error { return parse(b, &coder{request: true}, q) }

func (q *ResetRequest) fields(c *coder) { list(c, 1, &q.Keys, key) }

// DescribeRequest asks about limits.
type DescribeRequest struct{ Limits []string }

// Append writes the request.
func (q *DescribeRequest) Append(b []byte) []byte { return write(b, q) }

// Parse reads a request.
func (q *DescribeRequest) Parse(b []byte) error { return parse(b, &coder{request: true}, q) }

func (q *DescribeRequest) fields(c *coder) { c.texts(1, &q.Limits) }

// DescribeResponse is what a store promises. Unfit has the answers of Traits.Unfit instead, for
// each limit of the request.
type DescribeResponse struct {
	Traits weir.Traits
	Unfit  []string
}

// Append writes the response.
func (r *DescribeResponse) Append(b []byte) []byte { return write(b, r) }

// Parse reads a response.
func (r *DescribeResponse) Parse(b []byte) error { return parse(b, new(coder), r) }

func (r *DescribeResponse) fields(c *coder) {
	c.flag(1, &r.Traits.Shared)
	c.flag(2, &r.Traits.Atomic)
	c.flag(3, &r.Traits.OwnClock)
	c.flag(4, &r.Traits.Forgets)
	c.texts(5, &r.Unfit)
}

// FaultResponse is whether a call has done what it was to do.
type FaultResponse struct{ Err error }

// Append writes the response.
func (r *FaultResponse) Append(b []byte) []byte { return write(b, r) }

// Parse reads a response.
func (r *FaultResponse) Parse(b []byte) error { return parse(b, new(coder), r) }

func (r *FaultResponse) fields(c *coder) { c.fault(1, &r.Err) }

// Code says what kind of error a Fault is. Codes keep their numbers.
type Code uint64

// The codes. One that a reader does not know is CodeAway to it.
const (
	CodeAway     Code = iota // weir.ErrAway, and all others: it may go better later
	CodeSettled              // weir.ErrSettled
	CodeExpired              // weir.ErrExpired
	CodeNoPermit             // weir.ErrNoPermit
	CodeFull                 // weir.ErrFull
	CodeBusy                 // weir.ErrBusy
	CodeAsk                  // record.AskError: the store never decides this
	CodeCount                // record.CountError: what the store has there is no count
)

// sentinels are the errors that codes stand for; nil for those that are types.
var sentinels = [...]error{
	CodeAway: weir.ErrAway, CodeSettled: weir.ErrSettled, CodeExpired: weir.ErrExpired, CodeNoPermit: weir.ErrNoPermit,
	CodeFull: weir.ErrFull, CodeBusy: weir.ErrBusy, CodeAsk: nil, CodeCount: nil,
}

func codeOf(err error) Code {
	if _, ok := errors.AsType[*record.AskError](err); ok {
		return CodeAsk
	}
	if _, ok := errors.AsType[*record.CountError](err); ok {
		return CodeCount
	}
	for c := CodeSettled; c <= CodeBusy; c++ {
		if errors.Is(err, sentinels[c]) {
			return c
		}
	}
	return CodeAway
}

// remote is an error that was told by the daemon: its text, and what it is.
type remote struct {
	text string
	is   error
}

func (e *remote) Error() string { return e.text }

func (e *remote) Unwrap() error { return e.is }

// fault is an error as it goes over the wire.
type fault struct {
	code Code
	text string
}

func faultFields(c *coder, f *fault) {
	number(c, 1, &f.code)
	c.text(2, &f.text)
}

// fault is an error, if there is one.
func (c *coder) fault(n int, err *error) {
	if c.reads(n) {
		var f fault
		message(c, n, &f, faultFields)
		*err = f.err()
	} else if !c.reading && *err != nil {
		f := fault{codeOf(*err), (*err).Error()}
		message(c, n, &f, faultFields)
	}
}

// err is the error on the other side.
func (f *fault) err() error {
	told := errors.New(f.text)
	switch {
	case f.code == CodeAsk:
		return &record.AskError{Err: told}
	case f.code == CodeCount:
		return &record.CountError{Err: told}
	case f.code < Code(len(sentinels)):
		return &remote{f.text, sentinels[f.code]}
	}
	return &remote{f.text, weir.ErrAway}
}
