package daemon

import (
	"context"
	"net/http"
	"strings"

	"github.com/weir-limit/weir/internal/httpapi"
	"github.com/weir-limit/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/webui"
)

// pages is what the admin door shows to browsers.
func (d *Daemon) pages() (http.Handler, error) {
	o := webui.Options{
		Client: func(r *http.Request) string { return httpapi.Neighbourhood(r.RemoteAddr) },
		Files:  d.limiter.Set, Book: d.limiter.book, Name: d.name(), Explainer: d.limiter, Log: d.config.Log,
	}
	if d.keys.tokens != nil {
		o.SignIn = d.signIn
	}
	return webui.New(o)
}

// signIn is who holds a token.
func (d *Daemon) signIn(_ context.Context, token string) (rulestore.Actor, error) {
	if d.keys.tokens.Has([]byte(token)) {
		return rulestore.Actor{Name: "admin", Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}, nil
	}
	return rulestore.Actor{}, &rulestore.Error{Kind: rulestore.Unknown, Text: "the token is none of those in the file of --admin-token-file"}
}

// isPage is whether a request is for the pages, which ask for a token themselves.
func isPage(r *http.Request) bool {
	return r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, webui.Home)
}
