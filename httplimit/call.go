package httplimit

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/fields"
)

// rule is a Rule with what is worked out once.
type rule struct {
	Rule

	state  string // the rule part of its state keys
	policy []byte // its item of RateLimit-Policy
}

// standing is how a rule that is enforced stands after a decision.
type standing struct {
	name, unit string
	limit      *weir.Limit
	policy     []byte // the item of RateLimit-Policy; nil: it has to be worked out
	decision   *weir.Decision
}

// verdict is what all rules say together.
type verdict struct {
	allowed   bool
	away      bool          // only fallbacks deny: the store could not be asked
	never     bool          // denied for ever
	retry     time.Duration // denied until then; 0: a permit must come back first
	hold      time.Duration // allowed then
	usual     bool          // all rules of the middleware stand, with their own limits
	standings []standing
	shadows   []string // names of the rules in shadow that would deny
}

// call is a request on its way through the rules. It is used again by later
// requests, for its memory.
type call struct {
	asks []weir.Ask
	out  []weir.Decision
	of   []*rule // by ask

	verdict

	text  []byte   // of a field
	lines []string // room for values of fields
}

// clear forgets the request, so that nothing of it is kept alive.
func (c *call) clear() {
	clear(c.asks)
	clear(c.out)
	clear(c.standings)
	c.asks, c.out, c.of = c.asks[:0], c.out[:0], c.of[:0]
	c.verdict = verdict{standings: c.standings[:0], shadows: c.shadows[:0]}
}

// nobodyError says that a request does not tell whose it is, or what it costs.
type nobodyError struct {
	rule string
	err  error
}

func (e *nobodyError) Error() string { return "rule " + e.rule + ": " + e.err.Error() }
func (e *nobodyError) Unwrap() error { return e.err }

var errNoCost = errors.New("httplimit: the request does not tell what it costs")

// decide asks the rules about a request. Without an error, c has the verdict.
func (m *middleware) decide(c *call, r *http.Request) error {
	receipt := m.options.Settle || m.options.Counts != nil
	for _, rule := range m.rules {
		if err := c.ask(rule, r); err != nil {
			return err
		}
	}
	for i := range c.asks {
		a := c.asks[i].Limit.Algorithm()
		receipt = receipt || a == weir.Concurrent || a == weir.LeakyQueue || c.asks[i].MaxHold > 0
	}
	if receipt {
		id := rand.Uint64() | 1
		for i := range c.asks {
			c.asks[i].Receipt = id
		}
	}
	c.usual = len(c.asks) == len(m.rules)
	if c.tooMuch() || len(c.asks) == 0 {
		c.allowed = !c.never
		return nil
	}
	for len(c.out) < len(c.asks) {
		c.out = oneMore(c.out)
	}
	if err := m.store.Take(r.Context(), c.asks, c.out); err != nil {
		return err
	}
	c.judge()
	return nil
}

// ask adds what a rule asks of a request, if it meets it.
func (c *call) ask(rule *rule, r *http.Request) error {
	key, err := rule.Key(r)
	if err != nil {
		if rule.Optional && errors.Is(err, ErrNoKey) {
			return nil
		}
		return &nobodyError{rule.Name, err}
	}
	c.asks, c.of = oneMore(c.asks), append(c.of, rule)
	ask := &c.asks[len(c.asks)-1]
	ask.State.Rule, ask.State.Key, ask.Limit = rule.state, key, rule.Limit
	ask.Cost, ask.MaxHold, ask.Shadow = 1, rule.MaxHold, rule.Shadow
	if rule.Cost != nil {
		ask.Cost = rule.Cost(r)
	}
	if ask.Cost < 0 {
		return &nobodyError{rule.Name, errNoCost}
	}
	if rule.Plan != nil {
		if l := rule.Plan(r); l != nil && l != rule.Limit {
			ask.Limit, ask.State.Rule = l, l.StateRule(rule.Name+"#plan="+l.String())
		}
	}
	return nil
}

// oneMore is s with an element more, which is zero: what is unused of the pieces
// of a call is. Asks and decisions are large, and so not copied.
func oneMore[E any](s []E) []E {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	return append(s, *new(E))
}

// tooMuch is whether a rule is asked for more than any limit can pass, which no
// store need be asked. In shadow it is asked for the most that may be.
func (c *call) tooMuch() bool {
	for i := range c.asks {
		if a := &c.asks[i]; a.Cost > weir.MaxCount {
			c.never = c.never || !a.Shadow
			a.Cost, a.Peek = weir.MaxCount, true
		}
	}
	return c.never
}

// judge works out the verdict of what was decided.
func (c *call) judge() {
	c.allowed, c.away = true, true
	for i := range c.asks {
		a, d, rule := &c.asks[i], &c.out[i], c.of[i]
		if a.Shadow {
			if d.Outcome != weir.Allowed {
				c.shadows = append(c.shadows, rule.Name)
			}
			continue
		}
		c.standings = oneMore(c.standings)
		s := &c.standings[len(c.standings)-1]
		s.name, s.unit, s.limit, s.decision = rule.Name, rule.Unit, a.Limit, d
		if a.Limit == rule.Limit {
			s.policy = rule.policy
		} else {
			c.usual = false
		}
		c.weigh(d)
	}
	c.away = c.away && !c.allowed
	if c.never {
		c.retry = 0
	}
}

// weigh adds a decision that is enforced to the verdict.
func (c *call) weigh(d *weir.Decision) {
	switch d.Outcome {
	case weir.Allowed:
		c.hold = max(c.hold, d.Hold)
		return
	case weir.Impossible:
		c.never = true
	case weir.Denied:
		c.retry = max(c.retry, d.RetryAfter)
	}
	c.allowed = false
	c.away = c.away && d.Degraded == weir.FallbackClosed
}

// deniers are the names of the rules that deny.
func (c *call) deniers() []string {
	var names []string
	for i := range c.asks {
		if a := &c.asks[i]; a.Peek && !a.Shadow { // nobody was asked: it costs too much
			names = append(names, c.of[i].Name)
		}
	}
	for i := range c.standings {
		if c.standings[i].decision.Outcome != weir.Allowed {
			names = append(names, c.standings[i].name)
		}
	}
	return names
}

// settleIn settles receipts in a store, as rules.Limiter.Settle does.
func settleIn(store weir.Store) settler {
	return func(ctx context.Context, receipts []*weir.Receipt, used []int64, renew bool) ([]int64, error) {
		var all []weir.Settlement
		for i, r := range receipts {
			switch {
			case !renew:
				all = append(all, weir.Settlement{Receipt: r, Used: used[i]})
			case r.Limit.Algorithm() == weir.Concurrent:
				all = append(all, weir.Settlement{Receipt: r, Renew: true})
			}
		}
		if len(all) == 0 {
			return nil, nil
		}
		return nil, store.Settle(ctx, all) // who settles here asks for no more
	}
}

// compile checks rules and works out what is the same for all requests.
func compile(all []Rule) ([]*rule, error) {
	var faults []error
	var compiled []*rule
	names := map[string]bool{}
	if len(all) == 0 {
		faults = append(faults, errors.New("httplimit: there are no rules; without one nothing is limited"))
	}
	for i, r := range all {
		if err := r.check(i, len(all)); err != nil {
			faults = append(faults, err)
			continue
		}
		if names[r.Name] {
			faults = append(faults, errors.New("httplimit: two rules have the name "+r.Name+", and would share their counts; rename one"))
		}
		names[r.Name] = true
		if r.Key == nil {
			r.Key = Everyone
		}
		compiled = append(compiled, &rule{
			Rule: r, state: r.Limit.StateRule(r.Name),
			policy: fields.AppendPolicy(nil, r.Name, r.Limit, r.Unit),
		})
	}
	return compiled, errors.Join(faults...)
}
