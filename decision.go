package weir

import (
	"math"
	"time"
)

// Outcome is what one limit says of one ask.
type Outcome uint8

// The outcomes. A denial is an answer, not an error.
const (
	Denied     Outcome = iota // not now
	Allowed                   // now, or after Decision.Hold
	Impossible                // never: the cost is more than the limit can ever pass
)

// String is "denied", "allowed" or "impossible".
func (o Outcome) String() string {
	return [...]string{"denied", "allowed", "impossible"}[o]
}

// Decision is the answer of one limit.
type Decision struct {
	// Outcome is what this limit alone says.
	Outcome Outcome
	// Charged tells that the limit counts the cost as used. A limit that allows
	// is not charged when another of the same take denies, by a peek, or by a
	// cost of 0. A report of work that is done is charged also when it is denied.
	Charged bool
	// Cost is the events that were asked for, or with Ask.AtLeast those granted.
	Cost int64
	// Remaining is how many more events would pass now, one by one. After
	// taking 3 of a fresh "10/min" it is 7.
	Remaining int64
	// RetryAfter is how long until the same ask is allowed if nobody else asks:
	// a microsecond earlier it is not. 0 when allowed, when impossible, and
	// when no time is known because a permit must come back first, or because
	// another limit of the take grants less than Ask.AtLeast.
	RetryAfter time.Duration
	// NextAfter is how long until one event passes, when none remains and that is
	// known; else 0. It is RetryAfter for a cost of 1: a client that is told it need not
	// know its own cost.
	NextAfter time.Duration
	// ResetAfter is how long until the limit is as if never used, if nobody asks any
	// more. A store may drop the state then, and has lost nothing.
	ResetAfter time.Duration
	// Hold is how long the caller has to wait before it goes: its slot in a
	// leaky-queue, or its reservation within Ask.MaxHold.
	Hold time.Duration
	// Receipt is the proof of the charge, when it was asked for.
	Receipt *Receipt
	// Degraded is the fallback that decided, because the store could not be
	// asked; empty when the store decided.
	Degraded Fallback
}

// Decisive is the index of the decision that explains the answer to a take: Verdict.Decisive.
func Decisive(asks []Ask, out []Decision) int {
	var v Verdict
	v.judge(asks, out)
	return v.Decisive
}

// rank orders outcomes by their weight in an answer.
func (o Outcome) rank() int { return [...]int{Denied: 1, Allowed: 0, Impossible: 2}[o] }

// Outweighs is whether d explains more than o of an answer: as Verdict.Decisive has it.
func (d *Decision) Outweighs(o *Decision) bool {
	if d.Outcome != o.Outcome {
		return d.Outcome.rank() > o.Outcome.rank()
	}
	switch d.Outcome {
	case Denied:
		return d.RetryAfter > o.RetryAfter
	case Allowed:
		return d.Remaining < o.Remaining
	case Impossible:
	}
	return false
}

// ReceiptLife is how long a receipt can be settled after its events may go. A
// permit's receipt lives as long as the permit.
const ReceiptLife = 15 * time.Minute

// Receipt is the proof of a charge. It gives the charge back, settles it when
// the true cost is known, or frees a permit, and works once. Its fields are
// exported for programs that carry it over a wire; they must keep clients from
// forging it. A receipt has all that is needed to settle: a store keeps nothing for
// one that is out but the state itself, and remembers only that it was settled.
type Receipt struct {
	// ID is of the take: every receipt of one take has the same. It is random, so that
	// a store knows a retry by it. 0 is none.
	ID    uint64
	State StateKey // what was charged
	// Limit is the one that charged. Where the state is by then kept by a limit that is
	// not alike, nothing is given back, but permits are freed.
	Limit *Limit
	Cost  int64 // events charged, 1…MaxCost
	// Taken is when the take was decided, on the store's clock, but not before its count was
	// forgotten last: see Date. A receipt from before a reset or an eviction gives nothing back.
	Taken Instant
	// Expires is when it stops working: ReceiptLife after its events may go, for a
	// permit its ttl after Taken.
	Expires Instant
	// Mark is where the charge lies in the state. For GCRA and leaky-queue it is the end of its
	// stretch and the shift, for warm-up the time of the next event, for a window its beginning or
	// index, for a log its stamp, and for permits the id of their holder. Only the algorithm
	// understands it.
	Mark [2]uint64
}

// Date makes the receipt of d, if it has one, no older than since: that is the Since of
// its count, which was forgotten meanwhile. The charge came after that, though the clock may
// show the same microsecond, or less after a step back.
func (d *Decision) Date(since Instant) {
	if d.Receipt != nil {
		d.Receipt.Taken = max(d.Receipt.Taken, since)
	}
}

// refundTaken is Taken of receipts that no charge gave.
const refundTaken Instant = math.MaxInt64

// Refund is a receipt for a caller that has none: settled for 0, it gives back up to events,
// 0…MaxCost, of what is in use, the newest first, of any client's charge, and only
// those permits that were taken without a receipt. It may be settled again, and then gives back
// once more. id is random, and one for all that are settled together. A store that
// lends counts out can't tell what of them is in use, and fails with ErrNoRefund.
func (l *Limit) Refund(of StateKey, events int64, id uint64) *Receipt {
	return &Receipt{ID: id, State: of, Limit: l, Cost: events, Taken: refundTaken}
}

// IsRefund is whether r was made by Limit.Refund.
func (r *Receipt) IsRefund() bool { return r.Taken == refundTaken }

// Permit is whether r holds a permit.
func (r *Receipt) Permit() bool { return r.Limit.spec.Algorithm == Concurrent }
