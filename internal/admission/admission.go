// Package admission decides for middleware and interceptors whether a request may go, and
// keeps what it was charged until it is done. Its callers translate: requests to
// costs of rules or to descriptors, and verdicts to what their protocol answers.
package admission

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/fields"
	"github.com/weir-limit/weir/rules"
)

// Gate is where requests are decided. It has a Store, for rules of a program, or a
// Limiter and the Domain of its rules.
type Gate struct {
	Store   weir.Store
	Limiter *rules.Limiter
	Domain  string
	// Settles tells that all that is charged may be settled later. Else charges are
	// permits, and whatever stands beside a request that is held and may leave.
	Settles bool
	// Unsettled hears of a charge that could not be settled.
	Unsettled func(ctx context.Context, err error)
}

// Rule is a limit of a program.
type Rule struct {
	Name   string
	Limit  *weir.Limit
	Shadow bool
	Unit   string // what is counted, for clients; empty is requests

	state string // the rule part of its state keys
}

// NewRule makes a Rule whose counts live under its name.
func NewRule(name string, limit *weir.Limit, shadow bool, unit string) *Rule {
	return &Rule{name, limit, shadow, unit, limit.StateRule(name)}
}

// TraitsOf are the traits of the store that a program has passed, which may be nil.
func TraitsOf(store weir.Store) (weir.Traits, error) {
	if store == nil {
		return weir.Traits{}, errors.New("the store is nil; pass one, such as memstore.New(memstore.Options{})")
	}
	return store.Traits(), nil
}

// LimitFault is what is wrong with the limit of a rule whose counts live in a store with
// these traits; empty: nothing is.
func LimitFault(limit *weir.Limit, store weir.Traits) string {
	if limit == nil {
		return `it has no Limit; write weir.MustParseLimit("100/min")`
	}
	if why := limit.Unfit(store); why != "" {
		return fmt.Sprintf("the store can't keep %q: %s", limit, why)
	}
	return ""
}

// DomainFault is why a limiter that a program has passed can't decide requests of a domain.
func DomainFault(limiter *rules.Limiter, domain string) error {
	switch {
	case limiter == nil:
		return errors.New("the limiter is nil; pass one, such as rules.NewLimiter(store, set)")
	case domain == "":
		return errors.New("the domain is empty; write the one of the rule file")
	}
	return limiter.Serves(domain)
}

// NameFault is what is wrong with the name of a rule; empty: nothing is.
func NameFault(name string) string {
	const bytes = "._~*/=-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" // as rule files have it
	if len(name) == 0 || len(name) > 128 || strings.Trim(name, bytes) != "" {
		return "a name has 1…128 letters, digits, and . _ ~ * / = -"
	}
	return ""
}

// Named is a limit that a rule has for a request.
type Named struct {
	Rule  string
	Limit *weir.Limit
}

// Standing is how a rule that is enforced stands after a decision.
type Standing struct {
	Named

	Of       *Rule // nil for a rule of a file
	Decision *weir.Decision
}

// Call is one request on its way through rules. Its memory can be used again, after
// Clear. The zero Call has met no rule.
type Call struct {
	weir.Verdict

	Standings []Standing // of the rules that are enforced
	Denials   []Named    // of those of them that deny
	Shadows   []string   // names of the rules in shadow that would deny
	// TooLarge tells that an enforced rule was asked for more than a request may cost.
	TooLarge bool

	asks []weir.Ask
	out  []weir.Decision
	of   []*Rule // by ask
	// answer is of the rules of a file; nil: asks, out and of tell what was decided.
	answer *rules.Answer
}

// Clear forgets the request, so that nothing of it is kept alive.
func (c *Call) Clear() {
	clear(c.asks)
	clear(c.out)
	clear(c.Standings)
	clear(c.Denials)
	c.Verdict, c.TooLarge, c.answer = weir.Verdict{}, false, nil
	c.Standings, c.Denials, c.Shadows = c.Standings[:0], c.Denials[:0], c.Shadows[:0]
	c.asks, c.out, c.of = c.asks[:0], c.out[:0], c.of[:0]
}

// UnknownError says that a request does not tell whose it is, or what it costs.
type UnknownError struct {
	Rule string
	Err  error
}

func (e *UnknownError) Error() string { return "rule " + e.Rule + ": " + e.Err.Error() }

// Unwrap is why it does not tell.
func (e *UnknownError) Unwrap() error { return e.Err }

// Malformed is whether an error is the fault of the request.
func Malformed(err error) bool {
	_, unknown := errors.AsType[*UnknownError](err)
	_, none := errors.AsType[*rules.RequestError](err)
	return unknown || none
}

// Ask adds a rule that the request meets: which limit it has there, as of a plan, which
// has counts of its own; whose count it is; what it costs, 0 or more; and how long the
// caller is ready to be held.
func (c *Call) Ask(r *Rule, limit *weir.Limit, key string, cost int64, hold time.Duration) {
	c.asks, c.of = oneMore(c.asks), append(c.of, r)
	a := &c.asks[len(c.asks)-1]
	a.State.Rule, a.State.Key, a.Limit = r.state, key, limit
	if limit != r.Limit {
		a.State.Rule = limit.StateRule(r.Name + "#plan=" + limit.String())
	}
	a.Cost, a.MaxHold, a.Shadow = weir.AskedCost(cost), hold, r.Shadow
	c.TooLarge = c.TooLarge || cost > weir.MaxCount && !r.Shadow
}

// oneMore is s with an element more, which is zero: what is unused of the pieces of a
// call is. Asks and decisions are large, and so not copied.
func oneMore[E any](s []E) []E {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	return append(s, *new(E))
}

// Decide asks the rules that were added. Without an error, c has the verdict.
func (g *Gate) Decide(ctx context.Context, c *Call) error {
	if len(c.asks) == 0 {
		c.Allowed = true
		return nil
	}
	if g.wantsReceipts(c.asks) {
		id := rand.Uint64() | 1
		for i := range c.asks {
			c.asks[i].Receipt = id
		}
	}
	for len(c.out) < len(c.asks) {
		c.out = oneMore(c.out)
	}
	if err := g.Store.Take(ctx, c.asks, c.out); err != nil {
		return err
	}
	c.Verdict = weir.Judge(c.asks, c.out)
	for i := range c.asks {
		a, d, r := &c.asks[i], &c.out[i], c.of[i]
		if a.Shadow {
			c.shadow(r.Name, d)
			continue
		}
		c.Standings = oneMore(c.Standings)
		s := &c.Standings[len(c.Standings)-1]
		s.Rule, s.Limit, s.Of, s.Decision = r.Name, a.Limit, r, d
		c.deny(s.Named, d)
	}
	return nil
}

// wantsReceipts is whether something may have to be given back: anything where all is
// settled, permits, and the place of a caller that is held and may leave, with all that
// was charged beside it.
func (g *Gate) wantsReceipts(asks []weir.Ask) bool {
	for i := range asks {
		a := asks[i].Limit.Algorithm()
		if g.Settles || a == weir.Concurrent || a == weir.LeakyQueue || asks[i].MaxHold > 0 {
			return true
		}
	}
	return false
}

// Check asks the rules of a file about a request. Without an error, c has the verdict.
func (g *Gate) Check(ctx context.Context, c *Call, descriptors []rules.Descriptor) error {
	if len(descriptors) == 0 {
		c.Allowed = true
		return nil
	}
	a, err := g.Limiter.Check(ctx, &rules.Request{Domain: g.Domain, Descriptors: descriptors, Receipt: true, AnyCost: true})
	if err != nil {
		return err
	}
	c.answer, c.Verdict = a, a.Verdict()
	for i := range a.Decisions {
		d := &a.Decisions[i]
		if d.Rule.Shadow {
			c.shadow(d.Rule.Name, &d.Decision)
		} else {
			c.deny(Named{d.Rule.Name, d.Rule.Limit}, &d.Decision)
		}
	}
	for _, d := range fields.Standings(a) {
		c.Standings = append(c.Standings, Standing{Named: Named{d.Rule.Name, d.Rule.Limit}, Decision: &d.Decision})
	}
	return nil
}

func (c *Call) shadow(rule string, d *weir.Decision) {
	if d.Outcome != weir.Allowed {
		c.Shadows = append(c.Shadows, rule)
	}
}

// deny notes a rule that denies, once.
func (c *Call) deny(n Named, d *weir.Decision) {
	if d.Outcome != weir.Allowed && !slices.ContainsFunc(c.Denials, func(o Named) bool { return o.Rule == n.Rule }) {
		c.Denials = append(c.Denials, n)
	}
}
