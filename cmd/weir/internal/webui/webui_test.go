package webui_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/limited"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/openid"
	"github.com/weir-limit/weir/cmd/weir/internal/openidtest"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/scope"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/cmd/weir/internal/webui"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

const fileRules = `domain: files
descriptors:
  - key: user
    limits: [10/s burst 20, 1000/h]
    owner: shop
  - key: path
    value: "/*"
    limits: [5/min]
    shadow_mode: true
`

// house is a page with all that is behind it.
type house struct {
	url      string
	store    *rulestore.Store // nil: there is none
	book     *offenders.Book
	report   *shadow.Report // of any version in shadow; nil: this node has none
	limiter  *rules.Limiter
	node     webui.Node
	changes  *changes.Gate                              // nil: likewise
	wrong    atomic.Int64                               // tokens that were shown
	away     atomic.Bool                                // the database was not reached yet
	inFile   atomic.Pointer[string]                     // the token of the file, if there is one
	told     func() []limited.Node                      // by other nodes; nil: nothing
	late     []string                                   // nodes that unblock nobody
	reach    error                                      // why nothing would be sent to a webhook
	pinged   rulestore.Delivery                         // how a ping goes
	provider *openidtest.Provider                       // nil: there is none
	grants   atomic.Pointer[map[string]rulestore.Grant] // by groups of the provider
}

// build opens a page, with a rule database in a folder of its own or without.
func build(t testing.TB, database bool) *house {
	t.Helper()
	var store *rulestore.Store
	if database {
		store = openStore(t)
	}
	return buildAt(t, store)
}

// openStore opens a rule database in a folder of its own.
func openStore(t testing.TB) *rulestore.Store {
	t.Helper()
	store, err := rulestore.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// buildAt opens the page of a node of a rule database; nil: without one.
func buildAt(t testing.TB, database *rulestore.Store) *house {
	t.Helper()
	return buildWith(t, database, nil, "")
}

// buildWith opens the page of a node where a provider signs people in, which browsers reach at a URL; empty: at its own.
func buildWith(t testing.TB, database *rulestore.Store, provider *openidtest.Provider, url string) *house {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(fileRules))
	if err != nil {
		t.Fatal(err)
	}
	h := &house{store: database, book: offenders.NewBook(), node: webui.Node{Facts: []webui.Fact{{Name: "Version", Value: "test"}}}}
	store := memstore.New(memstore.Options{})
	traits := store.Traits()
	traits.Unfit = func(l *weir.Limit) string {
		if l.Algorithm() == weir.WarmUp {
			return "it is tested with warm limits only"
		}
		return ""
	}
	limiter := rules.NewLimiter(store, set)
	h.limiter = limiter
	if err := limiter.Remember(rules.NewDenials()); err != nil {
		t.Fatal(err)
	}
	o := webui.Options{
		Check: func(set *rules.Set) error { return set.Fits(traits) },
		Files: func() *rules.Set { return set }, Rules: limiter.Set,
		Node: func(context.Context) webui.Node { return h.node },
		Book: h.book, Name: func(name string) string { return name }, Explainer: limiter, Limited: h.limited, Unblock: h.unblock,
		Decides: func(ctx context.Context, domain string, entries []rules.Entry) ([]*rules.Rule, error) {
			return limiter.Reset(ctx, &rules.Request{Domain: domain, Descriptors: []rules.Descriptor{{Entries: entries}}, Peek: true})
		},

		Attempts: weir.NewLimiter(memstore.New(memstore.Options{}), "sign-in", weir.MustParseLimit("10/min")),
		Client: func(r *http.Request) string {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			return host
		},
	}
	o.Report = func(ctx context.Context, domain, rule string, version int64) *shadow.Report {
		for _, r := range h.reports(ctx, domain) {
			if r.Key.Rule == rule && r.Key.Version == version {
				return r
			}
		}
		return nil
	}
	o.Scope = func(ctx context.Context, by rulestore.Actor) (*scope.Scope, error) {
		if h.store == nil {
			return scope.All(), nil
		}
		found, err := h.store.Scope(ctx, by)
		if err != nil || found.All {
			return scope.All(), err
		}
		var single []scope.Rule
		for _, r := range found.Rules {
			single = append(single, scope.Rule(r))
		}
		return scope.New(found.Domains, single, limiter.Set()), nil
	}
	if h.store != nil {
		o.Store = func() *rulestore.Store {
			if h.away.Load() {
				return nil
			}
			return h.store
		}
		h.changes, err = changes.New(changes.Options{
			Reach:   func(context.Context, string) error { return h.reach },
			InFiles: func(domain string) bool { return domain == "files" }, Check: o.Check, Reports: h.reports,
		})
		if err != nil {
			t.Fatal(err)
		}
		o.Changes, o.Charts = h.changes, hill
		o.Ping = func(context.Context, *rulestore.Webhook, rulestore.Actor) (rulestore.Delivery, error) {
			return h.pinged, nil
		}
		o.SignIn = func(ctx context.Context, token string) (rulestore.Actor, error) {
			if file := h.inFile.Load(); file != nil && *file == token {
				return fileAdmin(), nil
			}
			return h.store.Authenticate(ctx, token)
		}
		o.FileToken = func(is func([sha256.Size]byte) bool) (rulestore.Actor, bool) {
			file := h.inFile.Load()
			return fileAdmin(), file != nil && is(sha256.Sum256([]byte(*file)))
		}
		o.Address = func(*http.Request) string { return "2001:db8::7" }
		o.Wrong = func(*http.Request) { h.wrong.Add(1) }
		o.Audit = func(by rulestore.Actor, e rulestore.Event) {
			e.At = time.Now()
			if err := h.store.Record(t.Context(), []rulestore.Event{e.By(by)}); err != nil {
				t.Error(err)
			}
		}
	}
	server := httptest.NewUnstartedServer(nil)
	h.url = "http://" + server.Listener.Addr().String()
	if h.provider = provider; provider != nil {
		o.External, o.Person = cmp.Or(url, h.url), h.person
		o.Provider = openid.New(openid.Options{
			Issuer: provider.URL, ClientID: openidtest.Client, Secret: func() string { return openidtest.Secret }, GroupsClaim: "groups", Back: o.External + webui.WayBack,
		})
		h.grants.Store(&map[string]rulestore.Grant{"shop-leads": {Role: rulestore.Publish, Team: "shop"}, "dev-mail": {Role: rulestore.Propose, Team: "mail"}})
	}
	pages, err := webui.New(o)
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = pages
	server.Start()
	t.Cleanup(server.Close)
	return h
}

// limited is the clients that this node and others limit.
func (h *house) limited(context.Context) limited.List {
	now := time.Now()
	here := limited.Node{Name: "here:8082", Told: limited.Tell(h.book.Limited(), now, func(name string) string { return name })}
	nodes := []limited.Node{here}
	if h.told != nil {
		nodes = append(nodes, h.told()...)
	}
	list := limited.Merge(nodes, now)
	list.Silent = h.late
	return list
}

func (h *house) unblock(ctx context.Context, by rulestore.Actor, u rulestore.Unblock) (nodes int, late []string, err error) {
	u.Files = u.Domain == "files"
	_, err = h.store.Unblock(ctx, by, u)
	return 3, h.late, err
}

// hill is a chart of traffic that swells and falls; of what is in shadow there is none.
func hill(_ context.Context, _ offenders.Filter, span time.Duration) (offenders.Chart, error) {
	c := offenders.Chart{Step: span / 90}
	now := time.Now()
	for i := range int64(90) {
		c.Enforced = append(c.Enforced, offenders.Point{
			To: now.Add(-span + time.Duration(i+1)*c.Step), Passed: min(i*(90-i), 1500), Denied: max(i*(90-i)-1500, 0),
		})
	}
	return c, nil
}

func root() rulestore.Actor {
	return rulestore.Actor{Name: "root", Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}
}

// person is who a person is by the groups of the house.
func (h *house) person(p *rulestore.Person) (by rulestore.Actor, giving []string, err error) {
	var grants []rulestore.Grant
	for _, group := range p.Groups {
		if g, ok := (*h.grants.Load())[group]; ok {
			grants, giving = append(grants, g), append(giving, group)
		}
	}
	by, err = p.As(grants)
	return by, giving, err
}

func fileAdmin() rulestore.Actor {
	return rulestore.Actor{Name: rulestore.FileAdmin, Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}
}

// token makes a token for somebody.
func (h *house) token(t testing.TB, actor string, role rulestore.Role, teams ...string) (rulestore.Token, string) {
	t.Helper()
	token, text, err := h.store.CreateToken(t.Context(), root(), rulestore.Token{Actor: actor, Role: role, Teams: teams}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	return token, text
}

// browser is one without a screen.
type browser struct {
	http.Client
	house *house
	token string // of forms, as the last page had it
	// fields are sent with each request.
	fields http.Header
}

func (h *house) browser(t testing.TB) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{house: h}
	b.Jar = jar
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return b
}

// signedIn is a browser of somebody who has signed in.
func (h *house) signedIn(t testing.TB, actor string, role rulestore.Role, teams ...string) *browser {
	t.Helper()
	_, text := h.token(t, actor, role, teams...)
	b := h.browser(t)
	if r, body := b.post(t, "/ui/sign-in", url.Values{"token": {text}}); r.StatusCode != http.StatusSeeOther {
		t.Fatal(r.Status, body)
	}
	b.get(t, "/ui/")
	return b
}

// reply is an answer without its body, which was read.
type reply struct {
	StatusCode int
	Status     string
	Header     http.Header
}

func (b *browser) get(t testing.TB, path string) (*reply, string) {
	t.Helper()
	return b.do(t, http.MethodGet, path, "")
}

// post sends a form, with the token of the last page unless it has one.
func (b *browser) post(t testing.TB, path string, form url.Values) (*reply, string) {
	t.Helper()
	if !form.Has("csrf") {
		form.Set("csrf", b.token)
	}
	return b.do(t, http.MethodPost, path, form.Encode())
}

func (b *browser) do(t testing.TB, method, path, body string) (*reply, string) {
	t.Helper()
	return b.send(t, method, path, body, "application/x-www-form-urlencoded")
}

// send sends a body of a kind; empty: none.
func (b *browser) send(t testing.TB, method, path, body, kind string) (*reply, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(context.Background(), method, b.house.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(q.Header, b.fields)
	if body != "" {
		q.Header.Set("Content-Type", kind)
	}
	r, err := b.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`name="csrf" value="([^"]*)"`).FindSubmatch(text); found != nil {
		b.token = string(found[1])
	}
	return &reply{r.StatusCode, r.Status, r.Header}, string(text)
}

// TestReadOnly: without a database the page shows what is active, and says why
// nothing can be changed.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	b := build(t, false).browser(t)
	if r, _ := b.get(t, "/"); r.Header.Get("Location") != "/ui/" {
		t.Error("the root leads to", r.Header)
	}
	_, list := b.get(t, "/ui/")
	_, domain := b.get(t, "/ui/rules?domain=files")
	_, rule := b.get(t, "/ui/rule?domain=files&rule=user")
	for _, c := range []struct{ text, want string }{
		{list, `<a href="/ui/rules?domain=files">files</a>`},
		{list, "has no rule database"},
		{domain, `<a href="/ui/rule?domain=files&amp;rule=path%3d%2f%2a">path=/*</a>`},
		{domain, "<code>10/s burst 20</code>"},
		{rule, "<svg"},
		{rule, "Owned by shop"},
		{rule, "At most 1\u202f999 in any hour, whenever it begins."},
	} {
		if !strings.Contains(c.text, c.want) {
			t.Errorf("there is no %s in\n%s", c.want, c.text)
		}
	}
	for _, path := range []string{"/ui/rule?domain=files&rule=none", "/ui/rules?domain=none", "/ui/none"} {
		if r, _ := b.get(t, path); r.StatusCode != http.StatusNotFound {
			t.Error(path, r.Status)
		}
	}
}

// reports gives each version in shadow of a domain the report of the house.
func (h *house) reports(ctx context.Context, domain string) (all []*shadow.Report) {
	d, err := h.store.Document(ctx, domain)
	if err != nil || h.report == nil {
		return nil
	}
	for _, t := range d.Trials {
		r := *h.report
		r.Key = shadow.Key{Domain: domain, Rule: t.Rule, Version: t.Version, Over: t.Beside}
		all = append(all, &r)
	}
	return all
}
