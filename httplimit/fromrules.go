package httplimit

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/weir-limit/weir/internal/admission"
	"github.com/weir-limit/weir/rules"
)

// Describe tells the rules what a request is: it adds its descriptors to all,
// which is empty, and returns it. A descriptor of cost 0 charges nothing. A request
// without descriptors meets no rule and passes.
type Describe func(r *http.Request, all []rules.Descriptor) []rules.Descriptor

// NewFromRules makes middleware that asks the rules of a domain, from a rule
// file: the rules then say which client may do what, not the program. Rules may be replaced at any
// time. The limiter may have no rules yet. If it has some, the domain is among them, and its store
// keeps their limits: else NewFromRules fails.
func NewFromRules(limiter *rules.Limiter, domain string, describe Describe, o Options) (func(http.Handler) http.Handler, error) {
	faults := []error{o.check()}
	if err := admission.DomainFault(limiter, domain); err != nil {
		faults = append(faults, fmt.Errorf("httplimit: %w", err))
	}
	if describe == nil {
		faults = append(faults, errors.New("httplimit: no function describes the requests; pass one that adds their descriptors"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	m := newMiddleware(o)
	m.gate.Limiter, m.gate.Domain, m.describe = limiter, domain, describe
	return m.around, nil
}
