package grpclimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// violation is a limit that denies.
type violation struct {
	rule  string
	limit *weir.Limit
}

// verdict is what all rules say of a call together.
type verdict struct {
	allowed    bool
	away       bool          // only fallbacks deny: the store could not be asked
	never      bool          // denied for ever
	retry      time.Duration // denied until then; 0: a permit must come back first
	hold       time.Duration // allowed then
	violations []violation
	shadows    []string        // names of the rules in shadow that would deny
	receipts   []*weir.Receipt // to free permits, or to give back what a hold was for
}

// unknownError says that a call does not tell whose it is, or what it costs.
type unknownError struct {
	rule string
	err  error
}

var errNoCost = errors.New("the call does not tell what it costs")

func (e *unknownError) Error() string { return "rule " + e.rule + ": " + e.err.Error() }

func (e *unknownError) Unwrap() error { return e.err }

// own asks the rules of a program, those that which picks. message is what costs
// are reckoned from.
func (s *Server) own(ctx context.Context, method string, message any, which func(*Rule) bool) (verdict, error) {
	var asks []weir.Ask
	var of []*Rule
	v := verdict{allowed: true}
	for i := range s.rules {
		rule := &s.rules[i]
		if !which(rule) {
			continue
		}
		ask, ok, err := rule.ask(ctx, method, message)
		if err != nil {
			return v, err
		}
		if ok && ask.Cost > weir.MaxCount && !rule.Shadow { // no store need be asked
			v.allowed, v.never = false, true
			v.violations = append(v.violations, violation{rule.Name, ask.Limit})
		} else if ok {
			asks, of = append(asks, ask), append(of, rule)
		}
	}
	if !v.allowed || len(asks) == 0 {
		return v, nil
	}
	giveReceipts(asks)
	out := make([]weir.Decision, len(asks))
	if err := s.store.Take(ctx, asks, out); err != nil {
		return v, err
	}
	v.away = true
	for i := range out {
		v.weigh(of[i].Name, asks[i].Limit, &out[i], asks[i].Shadow)
	}
	return v, nil
}

// giveReceipts asks for receipts where something may have to be given back: permits,
// and slots of a queue whose caller leaves, with all that was charged beside them.
func giveReceipts(asks []weir.Ask) {
	if !slices.ContainsFunc(asks, func(a weir.Ask) bool {
		return a.Limit.Algorithm() == weir.Concurrent || a.Limit.Algorithm() == weir.LeakyQueue
	}) {
		return
	}
	id := rand.Uint64() | 1
	for i := range asks {
		asks[i].Receipt = id
	}
}

// ask is what a rule asks of a call; ok is false when it does not meet it.
func (r *Rule) ask(ctx context.Context, method string, message any) (ask weir.Ask, ok bool, err error) {
	key, err := r.Key(ctx, method)
	switch {
	case errors.Is(err, ErrNoKey) && r.Optional:
		return ask, false, nil
	case err != nil:
		return ask, false, &unknownError{r.Name, err}
	}
	name := r.Name
	ask = weir.Ask{Limit: r.Limit, Cost: 1, Shadow: r.Shadow}
	if r.Cost != nil {
		if ask.Cost = r.Cost(ctx, method, message); ask.Cost < 0 {
			return ask, false, &unknownError{r.Name, errNoCost}
		}
		if ask.Cost > weir.MaxCount && r.Shadow { // it would be denied, whatever it is beyond
			ask.Cost, ask.Peek = weir.MaxCount, true
		}
	}
	if r.Plan != nil {
		if l := r.Plan(ctx, method); l != nil && l != r.Limit {
			ask.Limit, name = l, name+"#plan="+l.String()
		}
	}
	ask.State = weir.StateKey{Rule: ask.Limit.StateRule(name), Key: key}
	if deadline, ok := ctx.Deadline(); ok && ask.Limit.Algorithm() == weir.LeakyQueue {
		// A slot that comes too late is not taken.
		ask.MaxHold = max(time.Until(deadline).Truncate(time.Microsecond), time.Microsecond)
	}
	return ask, true, nil
}

// weigh adds a decision to the verdict, which begins as allowed and away.
func (v *verdict) weigh(rule string, limit *weir.Limit, d *weir.Decision, shadow bool) {
	if d.Receipt != nil {
		v.receipts = append(v.receipts, d.Receipt)
	}
	switch {
	case shadow && d.Outcome != weir.Allowed:
		v.shadows = append(v.shadows, rule)
		return
	case shadow:
		return
	case d.Outcome == weir.Allowed:
		v.hold = max(v.hold, d.Hold)
		return
	case d.Outcome == weir.Impossible:
		v.never = true
	default:
		v.retry = max(v.retry, d.RetryAfter)
	}
	v.allowed = false
	v.away = v.away && d.Degraded == weir.FallbackClosed
	v.violations = append(v.violations, violation{rule, limit})
}

// filed asks the rules of a file.
func (s *Server) filed(ctx context.Context, method string, message any) (verdict, error) {
	v := verdict{allowed: true}
	q := rules.Request{Domain: s.domain, Descriptors: s.describe(ctx, method, message), Receipt: true, AnyCost: true}
	if len(q.Descriptors) == 0 {
		return v, nil
	}
	a, err := s.limiter.Check(ctx, &q)
	if err != nil {
		return v, err
	}
	v.receipts = a.Receipts()
	for i := range a.Decisions {
		d := a.Decisions[i].Decision
		d.Receipt = nil // they are shared, and were taken above
		v.weigh(a.Decisions[i].Rule.Name, a.Decisions[i].Rule.Limit, &d, a.Decisions[i].Rule.Shadow)
	}
	retry, ok := a.RetryAfter()
	v.allowed, v.away, v.hold, v.retry, v.never = a.Allowed, a.Away(), a.Hold(), retry, !ok && !a.Allowed
	return v, nil
}

// inStore settles receipts in a store, as rules.Limiter.Settle does.
func inStore(store weir.Store) settler {
	return func(ctx context.Context, receipts []*weir.Receipt, used []int64, renew bool) ([]int64, error) {
		all := make([]weir.Settlement, len(receipts))
		for i, r := range receipts {
			all[i] = weir.Settlement{Receipt: r, Renew: renew}
			if !renew {
				all[i].Used = used[i]
			}
		}
		return nil, store.Settle(ctx, all) // who settles here asks for no more
	}
}
