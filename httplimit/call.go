package httplimit

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/admission"
	"github.com/weir-limit/weir/internal/fields"
)

// rule is a Rule with what is worked out once. It never changes, and is shared by all
// requests.
type rule struct {
	// Rule was checked, and its Key is not nil.
	Rule

	// of has its names in the store and in header fields. A Standing points to it, to tell whether the
	// limit of a decision is the rule's own or one of a Plan.
	of *admission.Rule
}

// call is a request on its way through the rules. It is used again by later
// requests, for its memory.
//
// One goroutine has it, from acquire to release. Its Charge and a Denial outlive the request, so
// they have copies.
type call struct {
	admission.Call // the asks, their decisions and the verdict

	lists fields.Lists // room for the values of two fields, written over by the next request's
	lines []string     // room for values of fields
}

var errNoCost = errors.New("httplimit: the cost of the request is missing")

// decide asks the rules about a request. Without an error, c has the verdict.
//
// Rules of a program are asked one by one what they want of the request, and the store then about all of
// them at once. Rules of a file are found by the descriptors that Describe makes.
func (m *middleware) decide(c *call, r *http.Request) error {
	if m.describe != nil {
		return m.gate.Check(r.Context(), &c.Call, m.describe(r, nil))
	}
	for _, rule := range m.rules {
		if err := rule.ask(c, r); err != nil {
			return err
		}
	}
	return m.gate.Decide(r.Context(), &c.Call)
}

// ask adds what the rule asks of a request, if it meets it. An optional rule is left out where the request
// has no key, and only there: a key that is there twice is an attack or a mistake, and no reason to pass.
func (r *rule) ask(c *call, request *http.Request) error {
	key, err := r.Key(request)
	if err != nil {
		if r.Optional && errors.Is(err, ErrNoKey) {
			return nil
		}
		return &admission.UnknownError{Rule: r.Name, Err: err}
	}
	cost, limit := int64(1), r.Limit
	if r.Cost != nil {
		cost = r.Cost(request)
	}
	if cost < 0 {
		return &admission.UnknownError{Rule: r.Name, Err: errNoCost}
	}
	if r.Plan != nil {
		if l := r.Plan(request); l != nil {
			limit = l
		}
	}
	c.Ask(r.of, limit, key, cost, r.MaxHold)
	return nil
}

// compile checks rules, and that the store can keep their limits. It works out what is the
// same for all requests.
func compile(all []Rule, store weir.Store) ([]*rule, error) {
	var faults []error
	var compiled []*rule
	names := map[string]bool{}
	traits, err := admission.TraitsOf(store)
	if err != nil {
		faults = append(faults, fmt.Errorf("httplimit: %w", err))
	}
	if len(all) == 0 {
		faults = append(faults, errors.New("httplimit: there are no rules; without one nothing is limited"))
	}
	for i, r := range all {
		if err := r.check(i, len(all), traits); err != nil {
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
		compiled = append(compiled, &rule{r, admission.NewRule(r.Name, r.Limit, r.Shadow, r.Unit)})
	}
	return compiled, errors.Join(faults...)
}
