package rules

import (
	"time"

	"github.com/weir-limit/weir"
)

// Answer is what the rules say to a Request. It is the caller's: nothing changes it later.
type Answer struct {
	// Allowed tells that the request may pass: no enforced limit denies. A request that meets no
	// rule may pass.
	Allowed bool
	// Decisive is the index of the decision that explains Allowed, as
	// weir.Decisive; −1 when none is enforced.
	Decisive int
	// Decisions are in the order of the descriptors, then of the file. A descriptor that no rule
	// fits, or that is unlimited, has none.
	Decisions []Decision
	// Unlimited are the indexes of the descriptors whose rule is unlimited: Envoy tells them from
	// those that no rule fits.
	Unlimited []int

	verdict weir.Verdict // of the limits; its Decisive is the index of an ask
	id      uint64
}

// ID names this answer in logs: 16 hexadecimal digits.
func (a *Answer) ID() string { return formatID(a.id) }

// Decision is what one limit says to one descriptor.
type Decision struct {
	Descriptor int // its index in the request
	Rule       *Rule
	// Key is whose count it is, as Set.Match tells it; Rule.KeyText says it in words.
	Key string
	// Decision is that of all the request's descriptors that have the same count,
	// added up; but Cost is this descriptor's, and of cost 0 it is never charged.
	// They share one Receipt: so a caller that settles uses Answer.Receipts, where it is
	// once, and not the receipts of the decisions.
	weir.Decision

	// idle is whether it had no say: a shadow limit, or a quota limit beside one that allows.
	idle bool
}

// Verdict is what the limits say together; but its Decisive is not that of a.
func (a *Answer) Verdict() weir.Verdict { return a.verdict }

// RetryAfter is how long until the request is worth another try: the longest
// RetryAfter of those that deny it. It is 0 when that is not known, because a
// permit must come back first. It is not there when the request was allowed, or
// never can be.
func (a *Answer) RetryAfter() (retry time.Duration, ok bool) {
	return a.verdict.Retry, !a.Allowed && !a.verdict.Never
}

// Away tells that only fallbacks that are closed deny: the store could not be
// asked, and no limit has decided against the request.
func (a *Answer) Away() bool { return a.verdict.Away }

// Hold is how long the caller has to wait before it goes: the longest Hold of
// the enforced decisions.
func (a *Answer) Hold() time.Duration { return a.verdict.Hold }

// Receipts are the proofs of what was charged, each once, in the order of the
// decisions that have them.
func (a *Answer) Receipts() []*weir.Receipt {
	var receipts []*weir.Receipt
	seen := map[*weir.Receipt]bool{}
	for i := range a.Decisions {
		if r := a.Decisions[i].Receipt; r != nil && !seen[r] {
			seen[r] = true
			receipts = append(receipts, r)
		}
	}
	return receipts
}
