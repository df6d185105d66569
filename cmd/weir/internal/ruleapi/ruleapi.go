// Package ruleapi is the part of the admin listener that rules are changed by: JSON
// over HTTP, with what is wrong as problem details (RFC 9457) that name the field.
//
// A caller shows a token of the rule database, or one of the file that opens the admin listener. A
// call that changes a thing names by If-Match the revision that the caller has seen: the ETag of an
// answer is that revision.
//
// routes.go lists the calls, openapi.yaml describes them, and cmd/weir/askrules.go asks
// them for weir rules and weir token.
package ruleapi

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/limited"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

// Options are what the API stands on.
type Options struct {
	// Store is the rule database, or nil while it can't be reached.
	Store func() *rulestore.Store
	// InForce is all rules that are active here, those of files too.
	InForce func() *rules.Set
	// InFiles is whether a domain comes from files, so that the database can't
	// have it.
	InFiles func(domain string) bool
	// Check refuses rules by failing, such as rules.Set.Fits.
	Check func(*rules.Set) error
	// Changes is what changes pass, those of other listeners too.
	Changes *changes.Gate
	// Ping sends a test to a webhook, and says how it went.
	Ping func(context.Context, *rulestore.Webhook, rulestore.Actor) (rulestore.Delivery, error)
	// Decides is the rules that decide about a request.
	Decides limited.Decides
	// Unblock has all nodes reset the counts of a client. It gives how many have, and which have not yet.
	Unblock func(context.Context, rulestore.Actor, rulestore.Unblock) (nodes int, late []string, err error)
	// Observe is told of each answer. Nil: nobody is.
	Observe func(route string, status int, took time.Duration)
	// Panicked is called when a call panicked, which is a bug. Nil: nobody is told.
	Panicked func()
	// Log gets the errors that are the daemon's own.
	Log *slog.Logger
}

// API answers calls. It is made by New, and is an http.Handler.
type API struct {
	options Options
	mux     *http.ServeMux

	document []byte // OpenAPI, in JSON
}

// New makes the API. A gate belongs before it, that tells by As who asks; it may
// leave that out only when the database can't be asked.
func New(o Options) (*API, error) {
	a := &API{options: o, mux: http.NewServeMux()}
	var err error
	if a.document, err = document(); err != nil {
		return nil, err
	}
	for _, r := range routes() {
		a.mux.Handle(r.method+" "+r.path, a.route(r))
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if allowed := a.methods(r); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			send(w, &problem{Status: http.StatusMethodNotAllowed, Detail: r.Method + " can't be done with " + quote(r.URL.Path) + "; it takes " + strings.Join(allowed, ", ")})
			return
		}
		send(w, &problem{Status: http.StatusNotFound, Detail: "there is no " + r.Method + " " + quote(r.URL.Path) + "; docs/self-service.md lists what there is"})
	})
	return a, nil
}

// methods is by which methods the path of a request can be called.
func (a *API) methods(r *http.Request) (allowed []string) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := a.mux.Handler(other); strings.HasPrefix(pattern, method+" ") {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// ServeHTTP answers one call.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// Handles is whether a path is one of the API.
func Handles(path string) bool {
	noun, ok := strings.CutPrefix(path, "/v1/")
	noun, _, _ = strings.Cut(noun, "/")
	return path == UnblockPath || ok && slices.Contains([]string{"domains", "deletions", "rules", "exceptions", "inbox", "validate", "teams", "tokens", "webhooks", "audit", "whoami"}, noun)
}

// callTime is how long a call may take: a database that is silent holds it up no
// longer. A file of ten thousand rules takes some seconds.
const callTime = 80 * time.Second

// importTime is that for a list of exceptions, which is set in parts: 100,000 take a minute where the disk or the processor has much else to do.
const importTime = 5 * time.Minute

// who is the key of the actor in a context.
type who struct{}

// As is a request that an actor makes.
func As(r *http.Request, by rulestore.Actor) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), who{}, by))
}

// By is the actor that As has told of; false: it told of none.
func By(r *http.Request) (rulestore.Actor, bool) {
	by, ok := r.Context().Value(who{}).(rulestore.Actor)
	return by, ok
}

// call is a call that is answered.
type call struct {
	*API

	w     http.ResponseWriter
	r     *http.Request
	by    rulestore.Actor
	store *rulestore.Store
	query map[string]string // the parameters that are given
	limit int               // how many things to list; 0: rulestore.MaxPage
	seen  int64             // the revision that was seen, of a call that names it
}

// route makes a handler that knows who asks and finds the database. Whatever
// happens in it, the process lives on.
func (a *API) route(t route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		status := http.StatusInternalServerError
		defer func() {
			if p := recover(); p != nil {
				a.options.Log.Error("a call panicked", "route", t.path, "panic", p, "stack", string(debug.Stack()))
				if a.options.Panicked != nil {
					a.options.Panicked()
				}
				status = send(w, &problem{Status: http.StatusInternalServerError, Detail: "this is a bug of the daemon; its log says more"})
			}
			if a.options.Observe != nil {
				a.options.Observe(t.path, status, time.Since(start))
			}
		}()
		within := callTime
		if t.path == importPath {
			within = importTime
			_ = http.NewResponseController(w).SetWriteDeadline(start.Add(importTime + callTime)) // a writer that has none needs none
		}
		ctx, stop := context.WithTimeout(r.Context(), within)
		defer stop()
		c := &call{API: a, w: w, r: r.WithContext(ctx)}
		if err := c.admit(t); err != nil {
			status = c.fail(err)
			return
		}
		out, err := t.serve(c)
		if err != nil {
			status = c.fail(err)
			return
		}
		status = c.answer(out)
	})
}

// admit finds who asks, the database and the query, and counts what changes.
func (c *call) admit(t route) error {
	if c.store = c.options.Store(); c.store == nil {
		return &problem{Status: http.StatusServiceUnavailable, Detail: "the rule database can't be reached yet; /readyz says why, and the active rules stay"}
	}
	by, ok := By(c.r)
	if !ok { // the gate lets nobody in without a token
		return &problem{Status: http.StatusServiceUnavailable, Detail: "the rule database, which knows the tokens, can't be asked at present; try again"}
	}
	c.by = by
	var err error
	if c.query, err = readQuery(c.r, strings.Fields(t.parameters)); err != nil {
		return err
	}
	if c.limit, err = c.most(); err != nil || t.method == http.MethodGet {
		return err
	}
	return c.options.Changes.Admit(c.r.Context(), by)
}
