package storewire

import (
	"encoding/binary"
	"errors"

	"github.com/weir-limit/weir"
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
