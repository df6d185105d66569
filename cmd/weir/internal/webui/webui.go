// Package webui is the page: rules, what they let pass, and why somebody was
// denied, for people with a browser. It is part of the admin listener, below /ui/.
//
// Pages are whole without a script, ask nothing of any network, and run nothing
// that is not of this package. Where there is no rule database they are for
// reading only.
//
// visit.go is a request of somebody, signin.go, person.go and session.go who has signed in, by a token or an account elsewhere, list.go and rule.go are
// what they see, editor.go, step.go, incident.go, exceptions.go, domain.go, importing.go and people.go
// what they change, inbox.go what waits for them, what they say about it and how they undo it, limited.go which clients are limited now, try.go why they were denied,
// picture.go what a limit lets pass, and
// the folder pages has the HTML, which needs no script.
package webui

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// New makes the pages.
func New(o Options) (*Pages, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Wrong == nil {
		o.Wrong = func(*http.Request) {}
	}
	if o.Audit == nil {
		o.Audit = func(rulestore.Actor, rulestore.Event) {}
	}
	if o.Address == nil {
		o.Address = func(*http.Request) string { return "" }
	}
	looks, err := readLooks()
	if err != nil {
		return nil, err
	}
	p := &Pages{options: o, sessions: newSessions(), looks: looks, mux: http.NewServeMux()}
	if err := p.route(); err != nil {
		return nil, err
	}
	return p, nil
}

// route lists all that the page answers.
func (p *Pages) route() error {
	p.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, Home, http.StatusSeeOther) })
	for _, a := range []struct{ name, kind string }{
		{"style.css", "text/css; charset=utf-8"}, {"script.js", "text/javascript; charset=utf-8"}, {"editor.js", "text/javascript; charset=utf-8"}, {"icon.svg", "image/svg+xml"}, {"schema.json", "application/schema+json"},
	} {
		serve, err := asset(a.name, a.kind)
		if err != nil {
			return err
		}
		p.mux.Handle("GET "+Home+a.name, serve)
	}
	p.mux.HandleFunc("GET "+Home+"sign-in", p.anyone(p.signInPage))
	p.mux.HandleFunc("POST "+Home+"sign-in", p.anyone(p.signIn))
	p.mux.HandleFunc("GET "+wayThere, p.anyone(p.start))
	p.mux.HandleFunc("GET "+WayBack, p.anyone(p.back))
	for route, show := range map[string]func(*visit) error{
		"GET {$}":        p.domains,
		"GET rules":      p.rules,
		"GET rule":       p.rule,
		"GET try":        p.try,
		"POST try":       p.explain,
		"GET limited":    p.limited,
		"GET traffic":    p.traffic,
		"GET nodes":      p.nodes,
		"GET backup":     p.backup,
		"GET rules.yaml": p.rulesFile,
		"POST sign-out":  p.signOut,
		"GET ":           p.nowhere,

		"GET new":                stored(p.newRule),
		"POST look":              stored(p.look),
		"POST rule":              stored(p.propose),
		"POST step":              stored(p.step),
		"POST override":          stored(p.override),
		"GET unblock":            stored(p.askUnblock),
		"POST unblock":           stored(p.unblock),
		"GET history":            stored(p.history),
		"GET inbox":              stored(p.inbox),
		"POST comment":           stored(p.comment),
		"GET audit":              stored(p.audit),
		"GET audit.jsonl":        stored(p.auditFile),
		"GET domain":             stored(p.newDomain),
		"POST domain":            stored(p.makeDomain),
		"POST settings":          stored(p.changeDomain),
		"GET deletions":          stored(p.deletions),
		"POST deletions":         stored(p.restoreDomain),
		"GET domain.yaml":        stored(p.domainFile),
		"GET import":             stored(p.importing),
		"POST import":            stored(p.importFile),
		"GET exceptions":         stored(p.exceptions),
		"POST exceptions/import": stored(p.importExceptions),
		"GET exception":          stored(p.exception),
		"POST exception":         stored(p.setException),
		"POST exception/end":     stored(p.endException),
		"GET teams":              stored(p.teams),
		"POST teams":             stored(p.setQuota),
		"GET tokens":             stored(p.tokens),
		"POST tokens":            stored(p.makeToken),
		"POST tokens/revoke":     stored(p.revokeToken),
		"GET webhooks":           stored(p.webhooks),
		"POST webhooks":          stored(p.setWebhook),
		"POST webhooks/ping":     stored(p.pingWebhook),
	} {
		p.mux.HandleFunc(strings.Replace(route, " ", " "+Home, 1), p.known(show))
	}
	return nil
}

// ServeHTTP answers a request.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Frame-Options", "DENY") // for browsers before frame-ancestors
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, forms have no origin
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	p.mux.ServeHTTP(w, r)
}
