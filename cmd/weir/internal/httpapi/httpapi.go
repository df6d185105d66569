// Package httpapi is the HTTP listener: JSON for anyone, Envoy's rate limit service
// as JSON, and whether the daemon is alive and ready. routes.go lists all it
// answers; what it says is fixed by the contract of /v1/check.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/envoy"
	"github.com/weir-limit/weir/cmd/weir/internal/overload"
	"github.com/weir-limit/weir/rules"
)

// Limiter is what decides; *rules.Limiter is one.
type Limiter interface {
	Check(context.Context, *rules.Request) (*rules.Answer, error)
	CheckInto(context.Context, *rules.Request, *rules.Answer) error
	Settle(ctx context.Context, receipts []*weir.Receipt, used []int64, renew bool) (charged []int64, err error)
}

// Options of the listener.
type Options struct {
	// Ready is what /readyz says. Nil is always ready.
	Ready func() bool
	// Detail is what /readyz says beside yes, such as that rules could not be
	// reloaded. Nil, or an empty text: nothing.
	Detail func() string
	// Certified is whether only clients with a certificate that was verified are answered, but for
	// calls that ask whether the daemon is alive and ready.
	Certified bool
	// Log gets the errors that are the daemon's own. Nil logs nothing.
	Log *slog.Logger
	// Gate says how much the listener may take. Nil takes everything.
	Gate *overload.Gate
	// Refused is called for each request that is refused because too much is
	// asked, with the reason.
	Refused func(reason string)
	// Observe is called after each call with the path of its route, or "other".
	Observe func(route string, status int, took time.Duration)
	// Answers are what answers to Envoy have beside the decision.
	Answers envoy.Options
	// Shadowed is called for each denial that Answers.Shadow lets pass. Nil: nobody is told.
	Shadowed func()
	// Healthy is what /healthcheck says. Nil: that the process lives.
	Healthy func() bool
	// Trace is called before each call that a route answers, with its path, and
	// may give the call a context. The API calls end afterwards, unless it is nil. Nil: nobody
	// traces.
	Trace func(r *http.Request, route string) (traced *http.Request, end func(status int))
	// Owner is the node of a cluster that keeps the count of the first rule that a
	// request meets, or tells why that is nobody's. Nil: there is no cluster.
	Owner func(*rules.Request) Owner
	// Bound is whether a receipt is of a count that only the process that gave it has. Nil:
	// all are.
	Bound func(*weir.Receipt) bool
	// Reset is called after each reset that the admin listener has tried, with why it failed. Nil: nobody is told.
	Reset func(*http.Request, *rules.Request, error)
	// Panicked is called after a call that panicked was answered with 500.
	Panicked func()
}

// API is the HTTP listener. It is made by New.
type API struct {
	limiter  Limiter
	receipts *receipts
	options  Options
	routes   map[string]route
	hint     string    // what to ask instead of a path that is not there
	scratch  sync.Pool // of *scratch
}

// New makes the listener to limiter. It draws the key of this process's receipts.
func New(limiter Limiter, o Options) (*API, error) {
	o.fill()
	r, err := newReceipts(o.Bound)
	if err != nil {
		return nil, err
	}
	a := &API{limiter: limiter, receipts: r, options: o, hint: "ask POST /v1/check"}
	a.routes = a.table()
	return a, nil
}

// Rekey has the listener settle the receipts of other daemons with the same secrets, and these
// daemons settle its receipts: the first key seals, each opens. A receipt sealed by another key
// can't be settled any more.
func (a *API) Rekey(keys [][]byte) error { return a.receipts.rekey(keys) }

func (o *Options) fill() {
	if o.Ready == nil {
		o.Ready = func() bool { return true }
	}
	if o.Healthy == nil {
		o.Healthy = func() bool { return true }
	}
	if o.Shadowed == nil {
		o.Shadowed = func() {}
	}
	if o.Detail == nil {
		o.Detail = func() string { return "" }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Gate == nil {
		o.Gate = new(overload.Gate)
	}
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	if o.Observe == nil {
		o.Observe = func(string, int, time.Duration) {}
	}
	if o.Bound == nil {
		o.Bound = func(*weir.Receipt) bool { return true }
	}
	if o.Panicked == nil {
		o.Panicked = func() {}
	}
}

// ServeHTTP answers one call. Whatever happens in it, the process lives on.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	name, status := r.URL.Path, http.StatusInternalServerError
	found, ok := a.routes[name]
	if !ok {
		name = "other"
	}
	defer func() {
		if p := recover(); p != nil {
			a.options.Log.Error("a call panicked", "route", name, "panic", p, "stack", string(debug.Stack()))
			a.options.Panicked()
			status = send(w, &problem{Status: http.StatusInternalServerError, Detail: "this is a bug of the daemon; its log says more"})
		}
		a.options.Observe(name, status, time.Since(start))
	}()
	switch {
	case !found.anyone && !a.known(r):
		w.Header().Set("Connection", "close") // nobody holds one who may not come in
		status = send(w, &problem{Status: http.StatusForbidden, Detail: "this daemon answers clients with a certificate only; show one, as curl does with --cert and --key"})
	case !ok:
		status = send(w, &problem{Status: http.StatusNotFound, Detail: "there is no " + quote(r.URL.Path) + "; " + a.hint})
	case !found.allows(r.Method):
		w.Header().Set("Allow", found.allow())
		status = send(w, &problem{Status: http.StatusMethodNotAllowed, Detail: "use " + found.method + " " + found.path})
	case !found.always && !a.admit(r):
		status = busy(w)
	case a.options.Trace != nil:
		status = a.trace(&found, w, r)
	default:
		status = found.of(r.Method)(w, r)
	}
}

// trace answers a call that may be traced.
func (a *API) trace(found *route, w http.ResponseWriter, r *http.Request) (status int) {
	status = http.StatusInternalServerError // of one that panics
	r, end := a.options.Trace(r, found.path)
	if end != nil {
		defer func() { end(status) }()
	}
	status = found.of(r.Method)(w, r)
	return status
}

// known is whether a request is of somebody who may ask.
func (a *API) known(r *http.Request) bool {
	return !a.options.Certified || r.TLS != nil && len(r.TLS.VerifiedChains) > 0
}

// scratch is the memory of one call, used again by later ones.
type scratch struct {
	body    []byte
	request rules.Request
	out     []byte
}

// maxScratch is how much memory of a call is kept for later ones.
const maxScratch = 64 << 10

func (a *API) acquire() *scratch {
	s, _ := a.scratch.Get().(*scratch)
	if s == nil {
		s = &scratch{body: make([]byte, 0, 1024)}
	}
	return s
}

func (a *API) release(s *scratch) {
	if cap(s.body)+cap(s.out) <= maxScratch {
		s.body, s.out = s.body[:0], s.out[:0]
		a.scratch.Put(s)
	}
}
