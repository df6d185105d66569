package httpapi

import (
	"io"
	"net/http"
)

// route is one path that the listener answers.
type route struct {
	method string
	path   string
	serve  func(http.ResponseWriter, *http.Request) (status int)
	always bool                                                  // even when too much is asked
	anyone bool                                                  // is answered, with or without a certificate
	get    func(http.ResponseWriter, *http.Request) (status int) // instead, for GET; nil: method alone
}

// table is all routes of the HTTP listener.
func (a *API) table() map[string]route {
	table := routes(append(a.health(),
		route{method: http.MethodPost, path: "/v1/check", serve: a.check},
		route{method: http.MethodPost, path: "/v1/settle", serve: a.settle, always: true},
		route{method: http.MethodPost, path: "/json", serve: a.envoyJSON},
		route{method: http.MethodGet, path: "/auth", serve: a.auth},
	)...)
	if a.options.Owner != nil {
		table["/v1/route"] = route{method: http.MethodGet, path: "/v1/route", serve: a.route}
	}
	return table
}

// Small is whether a request is one of those that clients send many of, which decide something and are small.
func Small(method, path string) bool {
	switch path {
	case "/v1/check", "/json":
		return method == http.MethodPost
	case "/auth":
		return method == http.MethodGet || method == http.MethodHead
	}
	return false
}

// health is what a balancer or a supervisor calls, without a certificate or a token.
func (a *API) health() []route {
	return []route{
		{method: http.MethodGet, path: "/healthz", serve: alive, always: true, anyone: true},
		{method: http.MethodGet, path: "/healthcheck", serve: a.healthy, always: true, anyone: true},
		{method: http.MethodGet, path: "/readyz", serve: a.ready, always: true, anyone: true},
	}
}

// NewHealth makes the part of the admin listener that needs no token. It says whether the
// daemon is alive and ready, and Detail to nobody.
func NewHealth(o Options) *API {
	o.Detail = nil
	o.fill()
	a := &API{options: o, hint: "ask /healthz or /readyz"}
	a.routes = routes(a.health()...)
	return a
}

// Answers is whether the API has something at a path.
func (a *API) Answers(path string) bool {
	_, ok := a.routes[path]
	return ok
}

// routes is all, by path.
func routes(all ...route) map[string]route {
	table := map[string]route{}
	for _, r := range all {
		table[r.path] = r
	}
	return table
}

func (r *route) allows(method string) bool {
	gets := r.method == http.MethodGet || r.get != nil
	return method == r.method || gets && (method == http.MethodGet || method == http.MethodHead)
}

func (r *route) allow() string {
	switch {
	case r.get != nil:
		return r.method + ", GET, HEAD"
	case r.method == http.MethodGet:
		return "GET, HEAD"
	}
	return r.method
}

// of is what answers a method that r allows.
func (r *route) of(method string) func(http.ResponseWriter, *http.Request) int {
	if r.get != nil && method != r.method {
		return r.get
	}
	return r.serve
}

// alive says that the process answers, and no more: a daemon that has no rules
// yet must not be restarted for it.
func alive(w http.ResponseWriter, _ *http.Request) int { return ok(w, "") }

// healthy says what envoyproxy/ratelimit does, where the daemon is told to: 500 without rules, and when it is about to stop.
func (a *API) healthy(w http.ResponseWriter, _ *http.Request) int {
	if a.options.Healthy() {
		return ok(w, "")
	}
	return send(w, &problem{Status: http.StatusInternalServerError, Detail: "no rules are loaded, or the daemon is about to stop"})
}

func ok(w http.ResponseWriter, detail string) int {
	w.Header()["Content-Type"] = plainType
	w.Header()["Cache-Control"] = noStore
	if detail != "" {
		detail += "\n"
	}
	_, _ = io.WriteString(w, "OK\n"+detail) // the client may be gone
	return http.StatusOK
}

// ready says why, too, to those who may ask.
func (a *API) ready(w http.ResponseWriter, r *http.Request) int {
	switch {
	case !a.options.Ready():
	case a.known(r):
		return ok(w, a.options.Detail())
	default:
		return ok(w, "")
	}
	return send(w, &problem{Status: http.StatusServiceUnavailable, Detail: "no rules are loaded, or the daemon is about to stop; ask another one"})
}
