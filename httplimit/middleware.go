package httplimit

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/admission"
	"github.com/weir-limit/weir/internal/fields"
	"github.com/weir-limit/weir/internal/sleep"
)

// middleware is what New and NewFromRules make. It translates: a request into asks, and
// a verdict into header fields and an answer. Package admission asks the store, judges
// and settles, here as in grpclimit.
//
// It has rules of a program, or describe for rules of a file, and never both.
type middleware struct {
	options Options
	// gate asks the store or the limiter. newMiddleware sets once the
	// options that it needs.
	gate  admission.Gate
	calls sync.Pool // of *call that are done

	rules []*rule // of a program
	// usual is the value of RateLimit-Policy when all rules stand. It is shared by
	// all answers and never changed. Nil: it is too long to be sent.
	usual []string
	// enforced is how many rules are not in shadow: as many stand when each is met.
	enforced int

	describe Describe // for rules of a file; else nil

	// warned is by warnedTwice and warnedSettle whether the log was told. A fault of the program
	// comes with each request, and once is enough.
	warned [2]atomic.Bool
}

func newMiddleware(o Options) *middleware {
	m := &middleware{options: o}
	m.gate.Settles = o.Settle || o.Counts != nil
	m.gate.Unsettled = func(ctx context.Context, err error) {
		if m.first(warnedSettle) {
			o.Log.WarnContext(ctx, "httplimit: a charge could not be settled and stays as it was; this is said once", "error", err)
		}
	}
	return m
}

// New makes middleware that holds requests to rules, whose counts live in store.
// All of them decide together: a request is charged by all, or is denied and
// charged by none. The error names every fault of rules and options, and limits that the
// store can't keep.
func New(store weir.Store, all []Rule, o Options) (func(http.Handler) http.Handler, error) {
	compiled, err := compile(all, store)
	if err := errors.Join(err, o.check()); err != nil {
		return nil, err
	}
	m := newMiddleware(o)
	m.gate.Store, m.rules = store, compiled
	var policy []byte
	for _, r := range compiled {
		if r.Shadow {
			continue
		}
		m.enforced++
		policy = fields.AppendPolicy(policy, r.Name, r.Limit, r.Unit)
	}
	if len(policy) <= fields.MaxField/2 {
		m.usual = []string{string(policy)}
	}
	return m.around, nil
}

// around is the middleware around a handler.
func (m *middleware) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
}

// serve lets a request through to next, or answers it. Nothing of the call is used while the handler
// runs, so that its memory serves another request meanwhile: a handler may take minutes.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.options.Deny != nil && m.options.Deny(r) {
		m.answer(w, r, &Denial{Status: http.StatusForbidden})
		return
	}
	if m.options.Skip != nil && m.options.Skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	c := m.acquire()
	charge, pass := m.admit(c, w, r)
	m.release(c)
	switch {
	case !pass:
	case charge != nil:
		charge.serve(w, r, next)
	default:
		next.ServeHTTP(w, r)
	}
}

// admit decides about a request, and answers it unless it passes. charge is what
// has to be settled when it is done, or nil.
func (m *middleware) admit(c *call, w http.ResponseWriter, r *http.Request) (charge *Charge, pass bool) {
	if err := m.decide(c, r); err != nil {
		return nil, m.failed(w, r, err)
	}
	m.lookTwice(c, w, r)
	var denial *Denial
	if !c.Allowed {
		denial = m.denial(c) // before fields that have no room for all rules
	}
	m.setFields(c, w.Header())
	m.reportShadow(c, r)
	if denial != nil {
		m.answer(w, r, denial)
		return nil, false
	}
	if m.gate.Charges(&c.Call) || m.marks() {
		charge = &Charge{m: m}
		m.gate.Charge(r.Context(), &c.Call, &charge.held)
	}
	if c.Hold > 0 && sleep.For(r.Context(), c.Hold) != nil {
		if charge != nil {
			charge.held.GiveBack()
		}
		w.WriteHeader(http.StatusServiceUnavailable) // for logs: its client has left
		return nil, false
	}
	return charge, true
}

// failed is what becomes of a request about which nothing was decided. A request that tells no key or
// cost is at fault itself and gets 400. For others Options.FailOpen decides; but if the client has left,
// there is nobody to let through.
func (m *middleware) failed(w http.ResponseWriter, r *http.Request, err error) (pass bool) {
	d := &Denial{Status: http.StatusServiceUnavailable, RetryAfter: m.jitter(time.Second), Err: err}
	if admission.Malformed(err) {
		d.Status, d.RetryAfter = http.StatusBadRequest, 0
	} else if m.options.FailOpen && r.Context().Err() == nil {
		d.Passed = true
		m.report(r, d)
		return true
	}
	m.answer(w, r, d)
	return false
}

// denial is what the caller is told of a verdict.
func (m *middleware) denial(c *call) *Denial {
	d := &Denial{Status: http.StatusTooManyRequests, Never: c.Never}
	for _, n := range c.Denials {
		d.Rules = append(d.Rules, n.Rule)
	}
	if c.Away {
		d.Status = http.StatusServiceUnavailable
	}
	if !c.Never {
		d.RetryAfter = m.jitter(cmp.Or(c.Retry, time.Second)) // a permit may come back at any moment
	}
	return d
}

// jitter is d, or a little more: clients that were denied together would else come back together.
func (m *middleware) jitter(d time.Duration) time.Duration {
	if m.options.Jitter > 0 {
		d += rand.N(m.options.Jitter + 1)
	}
	return d
}

// reportShadow tells of the rules in shadow that would have denied. The slice is copied, as the call is
// used again.
func (m *middleware) reportShadow(c *call, r *http.Request) {
	if len(c.Shadows) > 0 {
		m.report(r, &Denial{Status: http.StatusTooManyRequests, Rules: slices.Clone(c.Shadows), Shadow: true, Passed: c.Allowed})
	}
}

func (m *middleware) report(r *http.Request, d *Denial) {
	if m.options.OnDenied != nil {
		m.options.OnDenied(r, d)
	}
}

// acquire gives a call that no other request has.
func (m *middleware) acquire() *call {
	if c, ok := m.calls.Get().(*call); ok {
		return c
	}
	return new(call)
}

// release forgets the request, so that the pool keeps nothing of it alive.
func (m *middleware) release(c *call) {
	c.Clear()
	m.calls.Put(c)
}
