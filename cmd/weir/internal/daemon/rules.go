package daemon

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/ruleapi"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/scope"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
)

// withRules adds the rule API to what the admin listener answers.
func (d *Daemon) withRules(other http.Handler) (http.Handler, error) {
	api, err := ruleapi.New(ruleapi.Options{
		Store: d.feed.Store, InForce: d.limiter.Set, InFiles: d.inFiles,
		Check: d.fits, Changes: d.changes, Ping: d.webhooks.Ping, Decides: d.decides, Unblock: d.unblock,
		Observe: d.metrics.AdminCall, Panicked: d.metrics.Panicked("admin"), Log: d.config.Log,
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ruleapi.DocumentPath, api.Document)
	mux.Handle("/", other)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ruleapi.Handles(r.URL.Path) {
			api.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// openChanges makes what changes of the rule database pass, by whichever listener they
// come.
func (d *Daemon) openChanges() (err error) {
	limited := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "weir_rules_changes_limited_total",
		Help: "Changes of rules, and other calls of the rule API, that were refused because a token made too many.",
	})
	d.registry.MustRegister(limited)
	d.changes, err = changes.New(changes.Options{
		InFiles: d.inFiles, Check: d.fits,
		Reports: func(ctx context.Context, domain string) []*shadow.Report { return d.reports(ctx, domain, 0) }, Limited: limited.Inc,
		Reach: func(ctx context.Context, url string) error { return d.webhooks.Reach(ctx, url) }, // which is made later
	})
	return err
}

// holder finds who holds a token at the admin listener: one of its file opens all, one
// of the rule database what its role is for.
func (d *Daemon) holder(r *http.Request, token []byte) (*http.Request, error) {
	if d.keys.tokens != nil && d.keys.tokens.Has(token) {
		by := fileAdmin()
		by.Address = from(r)
		return ruleapi.As(r, by), nil
	}
	if d.feed == nil {
		return nil, errors.New("the token is not in the file of --admin-token-file; send one that is")
	}
	store := d.feed.Store()
	if store == nil && ruleapi.Handles(r.URL.Path) {
		return r, nil // the API says that the database is away
	}
	if store == nil {
		return nil, databaseAway("the tokens")
	}
	by, err := store.Authenticate(r.Context(), string(token))
	return d.letIn(r, by, err)
}

// certified finds for whom the certificate of a request stands; nil: for nobody by
// its form. A certificate that is of more than one name is of none.
func (d *Daemon) certified(r *http.Request) (*http.Request, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.PeerCertificates[0].URIs) != 1 {
		return nil, nil
	}
	store := d.feed.Store()
	if store == nil && ruleapi.Handles(r.URL.Path) {
		return r, nil // the API says that the database is away
	}
	if store == nil {
		return nil, databaseAway("for whom certificates stand")
	}
	by, err := store.AuthenticateCertificate(r.Context(), r.TLS.PeerCertificates[0].URIs[0].String())
	return d.letIn(r, by, err)
}

// letIn is a request that somebody makes who was found in the rule database, if
// the role opens what is asked for; err is why nobody was.
func (d *Daemon) letIn(r *http.Request, by rulestore.Actor, err error) (*http.Request, error) {
	by.Address = from(r)
	switch {
	case rulestore.IsKind(err, rulestore.Unavailable) && ruleapi.Handles(r.URL.Path):
		return r, nil // likewise
	case rulestore.IsKind(err, rulestore.Unavailable):
		return nil, databaseAway("who may come in")
	case err != nil:
		return nil, err
	case ruleapi.Handles(r.URL.Path), by.May(rulestore.Admin):
		return ruleapi.As(r, by), nil
	case r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/debug/") && r.URL.Path != "/v1/findings", r.URL.Path == "/v1/explain":
		return ruleapi.As(r, by), nil // d.reads says of which clients
	}
	shut := &httpapi.Shut{Refusal: httpapi.RefusedRole, Text: "this takes a token of an administrator of all teams; " + by.Name + " has the role " + by.Role.String()}
	d.auditRefused(r, by, shut.Text)
	return nil, shut
}

// reads is whose clients the caller of a request at the admin listener may read of.
func (d *Daemon) reads(r *http.Request) (*scope.Scope, error) {
	by, _ := ruleapi.By(r) // nobody reads nothing
	s, err := d.scope(r.Context(), by)
	if rulestore.IsKind(err, rulestore.Unavailable) {
		err = databaseAway("whose domains these are")
	}
	return s, err
}

// scope is whose clients an actor may read of: of all, where no token is needed. A domain of files
// belongs to no team, so that it takes an actor that stands for all.
func (d *Daemon) scope(ctx context.Context, by rulestore.Actor) (*scope.Scope, error) {
	if !d.needsToken() || slices.Contains(by.Teams, rulestore.AllTeams) {
		return scope.All(), nil
	}
	if d.feed == nil || d.feed.Store() == nil {
		return nil, &rulestore.Error{Kind: rulestore.Unavailable, Text: "the rule database, which knows whose domains these are, can't be reached; try again"}
	}
	found, err := d.feed.Store().Scope(ctx, by)
	if err != nil {
		return nil, err
	}
	domains := slices.DeleteFunc(found.Domains, d.inFiles)
	var single []scope.Rule
	for _, r := range found.Rules {
		if !d.inFiles(r.Domain) {
			single = append(single, scope.Rule(r))
		}
	}
	return scope.New(domains, single, d.limiter.Set()), nil
}

// databaseAway shuts the listener while the rule database, which knows what, can't be
// asked.
func databaseAway(what string) error {
	return &httpapi.Shut{Refusal: httpapi.RefusedAway, Text: "the rule database, which knows " + what + ", can't be asked; try again, or send a token of the file of --admin-token-file"}
}

// fileAdmin is who holds a token of --admin-token-file.
func fileAdmin() rulestore.Actor {
	return rulestore.Actor{Name: rulestore.FileAdmin, Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}
}

// inFiles is whether a domain comes from files, so that the database can't have it.
func (d *Daemon) inFiles(domain string) bool {
	d.parts.mu.Lock()
	defer d.parts.mu.Unlock()
	return d.parts.files != nil && slices.Contains(d.parts.files.Domains(), domain)
}
