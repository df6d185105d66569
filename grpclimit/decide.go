package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/admission"
)

var errNoCost = errors.New("the cost of the call is missing")

// decide asks the rules about a call: those of a file, or those of the program that
// which picks. message is what costs are reckoned from.
func (s *Server) decide(ctx context.Context, method string, message any, which func(*Rule) bool) (*admission.Call, error) {
	c := new(admission.Call)
	if s.describe != nil {
		return c, s.gate.Check(ctx, c, s.describe(ctx, method, message))
	}
	for i := range s.rules {
		if r := &s.rules[i]; which(&r.Rule) {
			if err := r.ask(c, ctx, method, message); err != nil {
				return c, err
			}
		}
	}
	return c, s.gate.Decide(ctx, c)
}

// rule is a Rule with what is worked out once.
type rule struct {
	Rule

	of *admission.Rule
}

// ask adds what the rule asks of a call, if it meets it.
func (r *rule) ask(c *admission.Call, ctx context.Context, method string, message any) error {
	key, err := r.Key(ctx, method)
	switch {
	case errors.Is(err, ErrNoKey) && r.Optional:
		return nil
	case err != nil:
		return &admission.UnknownError{Rule: r.Name, Err: err}
	}
	cost, limit := int64(1), r.Limit
	if r.Cost != nil {
		cost = r.Cost(ctx, method, message)
	}
	if cost < 0 {
		return &admission.UnknownError{Rule: r.Name, Err: errNoCost}
	}
	if r.Plan != nil {
		if l := r.Plan(ctx, method); l != nil {
			limit = l
		}
	}
	var hold time.Duration
	if deadline, ok := ctx.Deadline(); ok && limit.Algorithm() == weir.LeakyQueue {
		// A slot that comes too late is not taken.
		hold = max(time.Until(deadline).Truncate(time.Microsecond), time.Microsecond)
	}
	c.Ask(r.of, limit, key, cost, hold)
	return nil
}

// check finds what is wrong with rules, also that the store can't keep their limits, and
// fills in their keys.
func check(all []Rule, store weir.Store) ([]rule, error) {
	if len(all) == 0 {
		return nil, errors.New("grpclimit: there are no rules; without one nothing is limited")
	}
	var faults []error
	traits, err := admission.TraitsOf(store)
	if err != nil {
		faults = append(faults, fmt.Errorf("grpclimit: %w", err))
	}
	names := map[string]bool{}
	var checked []rule
	for i, r := range all {
		fault := func(text string) {
			faults = append(faults, fmt.Errorf("grpclimit: rule %d, %q: %s", i, r.Name, text))
		}
		if text := admission.NameFault(r.Name); text != "" {
			fault(text)
		}
		if names[r.Name] {
			fault("another has this name, and they would share their counts; rename one")
		}
		names[r.Name] = true
		if text := admission.LimitFault(r.Limit, traits); text != "" {
			fault(text)
		}
		if r.Limit != nil && r.Messages && r.Limit.Algorithm() == weir.Concurrent {
			fault("a message holds no permit; leave out Messages, or take a limit of another kind")
		}
		if r.Key == nil {
			r.Key = Everyone
		}
		if r.Limit != nil {
			checked = append(checked, rule{r, admission.NewRule(r.Name, r.Limit, r.Shadow, "")})
		}
	}
	return checked, errors.Join(faults...)
}
