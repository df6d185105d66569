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
func (q *SettleRequest) Append(b []byte) []byte {
	for i := range q.Settlements {
		s := &q.Settlements[i]
		b = appendMessage(b, 1, func(b []byte) []byte {
			b = appendMessage(b, 1, func(b []byte) []byte { return appendReceipt(b, s.Receipt) })
			return appendFlag(appendNumber(b, 2, uint64(s.Used)), 3, s.Renew)
		})
	}
	return b
}

// Parse reads a request.
func (q *SettleRequest) Parse(b []byte) error {
	return eachField(b, func(n int, v value) error {
		if n != 1 {
			return nil
		}
		if len(q.Settlements) >= MaxParts {
			return tooMany("settlements", MaxParts)
		}
		var s weir.Settlement
		err := eachField(v.bytes, func(n int, v value) (err error) {
			switch n {
			case 1:
				s.Receipt, err = parseReceipt(v.bytes, q.Limits)
			case 2:
				s.Used = v.signed()
			case 3:
				s.Renew = v.flag()
			}
			return err
		})
		if err == nil && s.Receipt == nil {
			err = errors.New("a settlement without a receipt")
		}
		q.Settlements = append(q.Settlements, s)
		return err
	})
}

// SettleResponse is what stays charged of each settlement, or why nothing was settled.
type SettleResponse struct {
	Settlements []weir.Settlement // of the request; Parse fills in Charged
	Err         error
}

// Append writes the response.
func (r *SettleResponse) Append(b []byte) []byte {
	if r.Err != nil {
		return appendFault(b, 1, r.Err)
	}
	for i := range r.Settlements {
		b = binary.AppendUvarint(appendTag(b, 2, varint), uint64(r.Settlements[i].Charged))
	}
	return b
}

// Parse reads a response. One that does not tell what was charged is of a writer that
// does not know of it: then it is what was used.
func (r *SettleResponse) Parse(b []byte) error {
	for i := range r.Settlements {
		r.Settlements[i].Charged = r.Settlements[i].Used
	}
	told := 0
	return eachField(b, func(n int, v value) (err error) {
		switch {
		case n == 1:
			r.Err, err = parseFault(v.bytes)
		case n == 2 && told < len(r.Settlements):
			r.Settlements[told].Charged = v.signed()
			told++
		}
		return err
	})
}

// ResetRequest is keys whose use is to be forgotten.
type ResetRequest struct{ Keys []weir.StateKey }

// Append writes the request.
func (q *ResetRequest) Append(b []byte) []byte {
	for _, k := range q.Keys {
		b = appendMessage(b, 1, func(b []byte) []byte { return appendKey(b, k) })
	}
	return b
}

// Parse reads a request.
func (q *ResetRequest) Parse(b []byte) error {
	return eachField(b, func(n int, v value) error {
		if n != 1 {
			return nil
		}
		if len(q.Keys) >= MaxParts {
			return tooMany("keys", MaxParts)
		}
		k, err := parseKey(v.bytes)
		q.Keys = append(q.Keys, k)
		return err
	})
}

// DescribeRequest asks about limits.
type DescribeRequest struct{ Limits []string }

// Append writes the request.
func (q *DescribeRequest) Append(b []byte) []byte {
	for _, text := range q.Limits {
		b = appendElement(b, 1, text)
	}
	return b
}

// Parse reads a request.
func (q *DescribeRequest) Parse(b []byte) error {
	return eachField(b, func(n int, v value) error {
		if n != 1 {
			return nil
		}
		if len(q.Limits) >= MaxParts {
			return tooMany("limits", MaxParts)
		}
		q.Limits = append(q.Limits, string(v.bytes))
		return nil
	})
}

// DescribeResponse is what a store promises. Unfit has the answers of Traits.Unfit instead, for
// each limit of the request.
type DescribeResponse struct {
	Traits weir.Traits
	Unfit  []string
}

// Append writes the response.
func (r *DescribeResponse) Append(b []byte) []byte {
	b = appendFlag(b, 1, r.Traits.Shared)
	b = appendFlag(b, 2, r.Traits.Atomic)
	b = appendFlag(b, 3, r.Traits.OwnClock)
	b = appendFlag(b, 4, r.Traits.Forgets)
	for _, why := range r.Unfit {
		b = appendElement(b, 5, why)
	}
	return b
}

// Parse reads a response.
func (r *DescribeResponse) Parse(b []byte) error {
	return eachField(b, func(n int, v value) error {
		switch n {
		case 1:
			r.Traits.Shared = v.flag()
		case 2:
			r.Traits.Atomic = v.flag()
		case 3:
			r.Traits.OwnClock = v.flag()
		case 4:
			r.Traits.Forgets = v.flag()
		case 5:
			r.Unfit = append(r.Unfit, string(v.bytes))
		}
		return nil
	})
}

// FaultResponse is whether a call has done what it was to do.
type FaultResponse struct{ Err error }

// Append writes the response.
func (r *FaultResponse) Append(b []byte) []byte {
	if r.Err == nil {
		return b
	}
	return appendFault(b, 1, r.Err)
}

// Parse reads a response.
func (r *FaultResponse) Parse(b []byte) error {
	return eachField(b, func(n int, v value) (err error) {
		if n == 1 {
			r.Err, err = parseFault(v.bytes)
		}
		return err
	})
}

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

// sentinel is the error that a code stands for; nil for those that are types.
func (c Code) sentinel() error {
	switch c {
	case CodeSettled:
		return weir.ErrSettled
	case CodeExpired:
		return weir.ErrExpired
	case CodeNoPermit:
		return weir.ErrNoPermit
	case CodeFull:
		return weir.ErrFull
	case CodeBusy:
		return weir.ErrBusy
	case CodeAsk, CodeCount:
		return nil
	case CodeAway:
	}
	return weir.ErrAway
}

func codeOf(err error) Code {
	if _, ok := errors.AsType[*record.AskError](err); ok {
		return CodeAsk
	}
	if _, ok := errors.AsType[*record.CountError](err); ok {
		return CodeCount
	}
	for c := CodeSettled; c <= CodeBusy; c++ {
		if errors.Is(err, c.sentinel()) {
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

func appendFault(b []byte, field int, err error) []byte {
	return appendMessage(b, field, func(b []byte) []byte {
		return appendText(appendNumber(b, 1, uint64(codeOf(err))), 2, err.Error())
	})
}

// parseFault reads an error, and says apart when it can't.
func parseFault(b []byte) (told, err error) {
	var code Code
	text := ""
	err = eachField(b, func(n int, v value) error {
		switch n {
		case 1:
			code = Code(v.number)
		case 2:
			text = string(v.bytes)
		}
		return nil
	})
	if code == CodeAsk {
		return &record.AskError{Err: errors.New(text)}, err
	}
	if code == CodeCount {
		return &record.CountError{Err: errors.New(text)}, err
	}
	return &remote{text, code.sentinel()}, err
}
