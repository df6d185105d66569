package storewire

import (
	"errors"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

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
