package httplimit

import (
	"errors"
	"net/http"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/fields"
	"github.com/weir-limit/weir/rules"
)

// Describe tells the rules what a request is: it adds its descriptors to all,
// which is empty, and returns it. A descriptor of cost 0 charges nothing. A request
// without descriptors meets no rule and passes.
type Describe func(r *http.Request, all []rules.Descriptor) []rules.Descriptor

// NewFromRules makes middleware that asks the rules of a domain, from a rule
// file: who may do what is then no matter of the program. Rules may be replaced
// at any time.
func NewFromRules(limiter *rules.Limiter, domain string, describe Describe, o Options) (func(http.Handler) http.Handler, error) {
	faults := []error{o.check()}
	if domain == "" {
		faults = append(faults, errors.New("httplimit: the domain is empty; write the one of the rule file"))
	}
	if describe == nil {
		faults = append(faults, errors.New("httplimit: nobody describes the requests; pass a function that adds their descriptors"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	m := &middleware{options: o, limiter: limiter, domain: domain, describe: describe, settle: limiter.Settle}
	return m.around, nil
}

// check asks the rules about a request. Without an error, c has the verdict.
func (m *middleware) check(c *call, r *http.Request) (*Charge, error) {
	q := rules.Request{Domain: m.domain, Descriptors: m.describe(r, nil), Receipt: true, AnyCost: true}
	if len(q.Descriptors) == 0 {
		c.allowed = true
		return m.newCharge(nil), nil
	}
	answer, err := m.limiter.Check(r.Context(), &q)
	if err != nil {
		return nil, err
	}
	c.allowed, c.away, c.hold = answer.Allowed, answer.Away(), answer.Hold()
	retry, ok := answer.RetryAfter()
	c.retry, c.never = retry, !ok && !answer.Allowed
	for _, d := range fields.Standings(answer) {
		c.standings = append(c.standings, standing{name: d.Rule.Name, limit: d.Rule.Limit, decision: &d.Decision})
	}
	for i := range answer.Decisions {
		if d := &answer.Decisions[i]; d.Rule.Shadow && d.Outcome != weir.Allowed {
			c.shadows = append(c.shadows, d.Rule.Name)
		}
	}
	return m.newCharge(m.itemsOf(answer)), nil
}

// itemsOf is what an answer has charged, as far as something may have to be done
// about it: else receipts are no more than paper.
func (m *middleware) itemsOf(a *rules.Answer) []item {
	may := m.options.Settle || m.options.Counts != nil || a.Hold() > 0
	var items []item
	seen := map[*weir.Receipt]bool{}
	for i := range a.Decisions {
		d := &a.Decisions[i]
		if d.Receipt == nil || seen[d.Receipt] || !may && d.Rule.Limit.Algorithm() != weir.Concurrent {
			continue
		}
		seen[d.Receipt] = true
		items = append(items, item{rule: d.Rule.Name, receipt: d.Receipt})
	}
	return items
}
