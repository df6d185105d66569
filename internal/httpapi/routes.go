package httpapi

import (
	"io"
	"net/http"
)

// route is one path that the door answers.
type route struct {
	method string
	path   string
	serve  func(http.ResponseWriter, *http.Request) (status int)
	anyone bool // is answered, with or without a certificate
}

// table is all routes of the HTTP door.
func (a *API) table() map[string]route {
	return routes(
		route{http.MethodPost, "/v1/check", a.check, false},
		route{http.MethodPost, "/v1/settle", a.settle, false},
		route{http.MethodPost, "/json", a.envoyJSON, false},
		route{http.MethodGet, "/auth", a.auth, false},
		route{http.MethodGet, "/healthz", alive, true},
		route{http.MethodGet, "/healthcheck", alive, true},
		route{http.MethodGet, "/readyz", a.ready, true},
	)
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
	return method == r.method || r.method == http.MethodGet && method == http.MethodHead
}

func (r *route) allow() string {
	if r.method == http.MethodGet {
		return "GET, HEAD"
	}
	return r.method
}

// alive says that the process answers, and no more: a daemon that has no rules
// yet must not be restarted for it.
func alive(w http.ResponseWriter, _ *http.Request) int { return ok(w, "") }

func ok(w http.ResponseWriter, detail string) int {
	w.Header()["Content-Type"] = plainType
	w.Header()["Cache-Control"] = noStore
	if detail != "" {
		detail += "\n"
	}
	_, _ = io.WriteString(w, "OK\n"+detail) // the client may be gone
	return http.StatusOK
}

func (a *API) ready(w http.ResponseWriter, _ *http.Request) int {
	if a.options.Ready() {
		return ok(w, a.options.Detail())
	}
	return send(w, &problem{Status: http.StatusServiceUnavailable, Detail: "no rules are loaded, or the daemon is about to stop; ask another one"})
}
