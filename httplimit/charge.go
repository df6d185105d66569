package httplimit

import (
	"context"
	"net/http"
	"sync"

	"github.com/weir-limit/weir/internal/admission"
)

// Charge is what a request was charged, for handlers that know only afterwards
// what it costs: tokens, bytes, rows. When the handler returns, panics or is
// aborted, what it has told by Use is settled: less than was charged goes back,
// more is charged whole, even beyond the limit. A rule of which it has told nothing
// stays charged.
//
// Its methods may be called from many goroutines, and on a nil *Charge.
type Charge struct {
	m *middleware
	// around is of the middleware outside of this one; nil: there is none. Use and Cost
	// go through all of them, as a handler sees only the innermost in its context.
	around *Charge
	held   admission.Charge

	// mu guards the two below. A charge is settled when the handler has returned and no
	// connection is open, whichever comes last.
	mu     sync.Mutex
	open   bool // a connection that was taken over is
	status int  // of the response; 0 until the handler has returned

	rec recorder // of the handler's response; here for its memory
}

type chargeKey struct{}

// ChargeOf is the charge of a request, from its context. It is nil when no
// middleware with Options.Settle has charged it.
func ChargeOf(ctx context.Context) *Charge {
	c, _ := ctx.Value(chargeKey{}).(*Charge)
	return c
}

// Use tells that the request has used n more events of a rule, and whether
// anything is left of what was charged. A stream stops when it is false: what one
// request takes beyond its charge is the only thing that its limit can't bound.
// Use(rule, 0) tells that nothing was used yet, so that all goes back if nothing
// ever is. It is true for a rule that has charged nothing, as one in shadow that
// denies.
//
// The rule is Rule.Name, or the name in a rule file; if a descriptor there has
// several limits, it stands for all of them.
func (c *Charge) Use(rule string, n int64) bool {
	left := true
	for ; c != nil; c = c.around {
		left = c.held.Use(rule, n) && left
	}
	return left
}

// Cost is what a rule has charged, and how much of it Use has told of: the least
// that is left where it stands for several limits. Both are 0 for a rule that has
// charged nothing.
func (c *Charge) Cost(rule string) (charged, used int64) {
	some := false
	for ; c != nil; c = c.around {
		if its, of, found := c.held.Cost(rule); found && (!some || its-of < charged-used) {
			charged, used, some = its, of, true
		}
	}
	return charged, used
}

// marks is whether requests carry their charge, be there anything in it or not:
// for the handler, or so that the same middleware knows them again where it leaves
// no fields with the names of rules behind.
func (m *middleware) marks() bool {
	names := m.options.Fields == 0 || m.options.Fields&Draft10 != 0
	return m.options.Settle || !names && m.options.Log != nil
}

// serve calls the handler, and settles when it is done: when it has returned and
// a connection that it took over is closed, or when it panics.
func (c *Charge) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if c.m.marks() {
		c.around = ChargeOf(r.Context())
		r = r.WithContext(context.WithValue(r.Context(), chargeKey{}, c))
	}
	if c.held.Empty() {
		next.ServeHTTP(w, r)
		return
	}
	rec := &c.rec
	rec.ResponseWriter, rec.charge = w, c
	returned := false
	defer func() {
		if !returned { // it panicked
			c.end(http.StatusInternalServerError)
		}
	}()
	next.ServeHTTP(rec.shown(), r)
	returned = true
	c.finish(func() { c.status = rec.code() })
}

// finish notes that the handler has returned, or the connection that it took
// over is closed, and settles with whichever comes last. It settles without the lock, as the
// store may take two seconds.
func (c *Charge) finish(note func()) {
	c.mu.Lock()
	note()
	status, open := c.status, c.open
	c.mu.Unlock()
	if status != 0 && !open {
		c.end(status)
	}
}

// end settles, once. Options.Counts tells by the status whether the request counts at all: a server may not
// charge clients for its own faults.
func (c *Charge) end(status int) {
	c.held.End(c.m.options.Counts == nil || c.m.options.Counts(status))
}
