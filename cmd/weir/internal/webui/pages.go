package webui

import (
	"context"
	"crypto/sha256"
	"embed"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"github.com/weir-limit/weir"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/limited"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/openid"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/scope"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/rules"
)

// Home is the path of the first page. All others are below it.
const Home = "/ui/"

// The bounds of the page.
const (
	pageSize = 100 // rows of a list; then comes the next page
	// maxForm is the bytes of a form: a rule's text, each byte of it escaped, and
	// what stands beside it. More is answered 413.
	maxForm = 3*rulestore.MaxText + 64<<10
	// visitTime is how long an answer may take: a database that is silent holds it up
	// no longer.
	visitTime = 80 * time.Second
)

// Explainer tells what rules say of a request; *rules.Limiter is one.
type Explainer interface {
	Explain(context.Context, *rules.Request) (*rules.Explanation, error)
	Recall(ctx context.Context, id string) (*rules.Explanation, error)
}

// Options are what the page shows. All but Log, and what says what nil is, must be there.
type Options struct {
	// SignIn is who holds a token; it fails with an *rulestore.Error. Nil: nobody
	// has to sign in, and all who reach the listener may read.
	SignIn func(ctx context.Context, token string) (rulestore.Actor, error)
	// FileToken is who holds the token of a file whose SHA-256 sum is meant; false: the file has none such. Nil: there is no file.
	FileToken func(is func(sum [sha256.Size]byte) bool) (rulestore.Actor, bool)
	// Scope is whose clients an actor may read of; of one that is nobody, where nobody has to
	// sign in.
	Scope func(context.Context, rulestore.Actor) (*scope.Scope, error)
	// Provider signs people in by accounts elsewhere, and Person is who somebody is by groups that a provider told of, now, and the groups that give
	// their roles. Person fails with an *rulestore.Error. Nil: there is no provider.
	Provider *openid.Provider
	Person   func(*rulestore.Person) (by rulestore.Actor, giving []string, err error)
	// External is the origin at which browsers open the pages. It must be there with a Provider.
	External string
	// Secure tells that browsers come by https, though the daemon may not speak TLS itself: a proxy does.
	Secure bool
	// Attempts is how many wrong tokens a Client may show.
	Attempts *weir.Limiter
	// Wrong is told of each request with a wrong token. Nil: nobody is.
	Wrong func(*http.Request)
	// Audit is told who has signed in and out. Nil: nobody is.
	Audit func(rulestore.Actor, rulestore.Event)
	// Address is where a request comes from, for the audit. Nil: it is not known.
	Address func(*http.Request) string
	// Client is whose attempts to sign in are counted together.
	Client func(*http.Request) string
	// Rules is all active rules; nil: none are loaded yet.
	Rules func() *rules.Set
	// Files is the active rules that come from files; nil: none do.
	Files func() *rules.Set
	// Store is the rule database, or nil while it was never reached. Nil: there is
	// none.
	Store func() *rulestore.Store
	// Changes is what changes pass, those of other listeners too. Nil: there is no rule
	// database.
	Changes *changes.Gate
	// Ping sends a test to a webhook, and says how it went. Nil: there is no rule database.
	Ping func(context.Context, *rulestore.Webhook, rulestore.Actor) (rulestore.Delivery, error)
	// Check refuses rules by failing, such as rules.Set.Fits.
	Check func(*rules.Set) error
	// Book has what rules pass and deny.
	Book *offenders.Book
	// Name is what to say in the place of a client's name.
	Name func(string) string
	// Report is how what is in shadow in a domain differs from what is active; nil:
	// nothing runs there.
	Report func(ctx context.Context, domain, rule string, version int64) *shadow.Report
	// Charts tells what all nodes of the rule database have counted. Nil: there is none, and charts are of this node.
	Charts offenders.Charts
	// Limited is the clients that are limited now, at all nodes of the rule database or at this one.
	Limited func(context.Context) limited.List
	// Decides is the rules that decide about a request.
	Decides limited.Decides
	// Unblock has all nodes reset the counts of a client, for an actor. It gives how many nodes have, and which have not yet. It is asked where there
	// is a rule database.
	Unblock func(context.Context, rulestore.Actor, rulestore.Unblock) (nodes int, late []string, err error)
	// Explainer tells why.
	Explainer Explainer
	// Node is what to say of this node, and of others.
	Node func(context.Context) Node
	// Log gets the errors that are the daemon's own.
	Log *slog.Logger
}

//go:embed pages
var files embed.FS

// Pages answers all below Home, and sends who asks for / there. It is made by New.
type Pages struct {
	options  Options
	sessions *sessions
	looks    map[string]*template.Template
	mux      *http.ServeMux
}
