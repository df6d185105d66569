package daemon

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-limit/weir/internal/httpapi"
	"github.com/weir-limit/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/shadow"
	"github.com/weir-limit/weir/internal/webui"
	"github.com/weir-limit/weir/rules"
)

// shadowClients is how many clients of each kind a page tells of.
const shadowClients = 10

// pages is what the admin door shows to browsers.
func (d *Daemon) pages() (http.Handler, error) {
	traits := d.storage.traits
	o := webui.Options{
		Check:  func(set *rules.Set) error { return set.Fits(traits) },
		Client: func(r *http.Request) string { return httpapi.Neighbourhood(r.RemoteAddr) },
		Rules:  d.limiter.Set, Files: d.fileRules, Node: d.facts, Book: d.limiter.book, Name: d.clientName, Explainer: d.limiter, Report: d.shadowReport, Log: d.config.Log,
	}
	if d.keys.tokens != nil || d.feed != nil {
		o.SignIn = d.signIn
	}
	if d.feed != nil {
		o.Store = d.feed.Store
	}
	return webui.New(o)
}

// fileRules is the rules in force that come from files.
func (d *Daemon) fileRules() *rules.Set {
	d.parts.mu.Lock()
	defer d.parts.mu.Unlock()
	return d.parts.files
}

// shadowReport is how the candidate of a domain differs from the rules in force.
func (d *Daemon) shadowReport(domain string) *shadow.Report {
	return d.board.Report(domain, shadowClients, time.Now())
}

// facts is what a page says of this node.
func (d *Daemon) facts() []webui.Fact {
	domains, all := 0, 0
	if set := d.limiter.Set(); set != nil {
		domains, all = len(set.Domains()), len(set.Rules())
	}
	facts := []webui.Fact{
		{Name: "Version", Value: d.config.Version},
		{Name: "Counts are kept in", Value: d.storage.scheme},
		{Name: "Rules in force", Value: fmt.Sprintf("%d of %d domains", all, domains)},
		{Name: "HTTP door", Value: d.config.HTTP},
		{Name: "gRPC door", Value: d.config.GRPC},
	}
	for line := range strings.Lines(d.detail()) {
		facts = append(facts, webui.Fact{Name: "To be known", Value: strings.TrimSpace(line)})
	}
	return facts
}

// signIn is who holds a token: of the file that opens the door, or of the rule
// database.
func (d *Daemon) signIn(ctx context.Context, token string) (rulestore.Actor, error) {
	if d.keys.tokens != nil && d.keys.tokens.Has([]byte(token)) {
		return fileAdmin(), nil
	}
	if d.feed == nil {
		return rulestore.Actor{}, &rulestore.Error{Kind: rulestore.Unknown, Text: "the token is none of those in the file of --admin-token-file"}
	}
	store := d.feed.Store()
	if store == nil {
		return rulestore.Actor{}, &rulestore.Error{Kind: rulestore.Unavailable, Text: "the rule database, which knows the tokens, can't be reached; sign in with one of the file of --admin-token-file"}
	}
	return store.Authenticate(ctx, token)
}

// isPage is whether a request is for the pages, which ask for a token themselves.
func isPage(r *http.Request) bool {
	return r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, webui.Home)
}
