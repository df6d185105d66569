package webui_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/weir-limit/weir/cmd/weir/internal/browsertest"
	"github.com/weir-limit/weir/cmd/weir/internal/openidtest"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// provided opens a page that a provider signs people in at.
func provided(t *testing.T) (*house, *openidtest.Provider) {
	t.Helper()
	liar := openidtest.Start(t)
	h := buildWith(t, openStore(t), liar, "")
	return h, liar
}

// atProvider follows the link of the page to sign in to the provider, and gives where that sends the browser back.
func (b *browser) atProvider(t *testing.T, to string) (path string) {
	t.Helper()
	r, _ := b.get(t, "/ui/sign-in/start?to="+url.QueryEscape(to))
	if r.StatusCode != http.StatusSeeOther {
		t.Fatal(r)
	}
	away := &browser{Client: http.Client{CheckRedirect: b.CheckRedirect}, house: &house{}}
	r, _ = away.get(t, r.Header.Get("Location"))
	back := r.Header.Get("Location")
	if !strings.HasPrefix(back, b.house.url+"/ui/sign-in/back?") {
		t.Fatal(back)
	}
	return strings.TrimPrefix(back, b.house.url)
}

// TestProvider: who has an account elsewhere signs in by it, has the roles of their groups, and signs out.
func TestProvider(t *testing.T) {
	t.Parallel()
	h, liar := provided(t)
	b := h.browser(t)
	r, page := b.get(t, "/ui/sign-in?to=/ui/tokens")
	wants(t, r, page, http.StatusOK, `href="`+h.url+`/ui/sign-in/start?to=%2Fui%2Ftokens"`, "Sign in at "+strings.TrimPrefix(liar.URL, "http://"), "Or with a token")
	r, _ = b.get(t, "/ui/sign-in/start?to=/ui/tokens")
	for _, want := range []string{"weir-away=", "HttpOnly", "SameSite=Lax", "Max-Age=600", "Path=/ui/sign-in/"} {
		if set := r.Header.Get("Set-Cookie"); !strings.Contains(set, want) {
			t.Errorf("the cookie has no %s: %s", want, set)
		}
	}
	there := r.Header.Get("Location")
	for _, want := range []string{liar.URL + "/auth?", "client_id=weir", "code_challenge_method=S256", "code_challenge=", "nonce=", "state=", "scope=openid+profile+email+groups", "response_type=code"} {
		if !strings.Contains(there, want) {
			t.Errorf("it sends to %s, without %s", there, want)
		}
	}
	r, page = b.get(t, b.atProvider(t, "/ui/tokens"))
	wants(t, r, page, http.StatusOK, "oidc/ann@example.com", `href="/ui/tokens"`)
	if r.Header.Get("Refresh") != "0; url=/ui/tokens" || !strings.Contains(strings.Join(r.Header.Values("Set-Cookie"), "\n"), "SameSite=Strict") {
		t.Error(r.Header)
	}
	r, page = b.get(t, "/ui/")
	wants(t, r, page, http.StatusOK, "oidc/ann@example.com", "(up to publish)")
	last, err := h.store.Audit(t.Context(), rulestore.Audited{Before: 1 << 40, Limit: 1})
	if err != nil || last[0].Action != rulestore.SignIn || last[0].Actor != "oidc/ann@example.com" || last[0].Reason != "as subject subject-of-ann of "+liar.URL || strings.Join(last[0].Teams, " ") != "mail shop" {
		t.Errorf("%+v %v", last, err)
	}
	// As a leader of the shop she publishes there, and as a developer of mail she proposes.
	for domain, want := range map[string]int{"shop": http.StatusSeeOther, "mail": http.StatusForbidden} {
		if _, err := h.store.CreateDomain(t.Context(), root(), rulestore.NewDomain{Name: domain, Team: domain}, "a test"); err != nil {
			t.Fatal(err)
		}
		form := url.Values{"domain": {domain}, "text": {"- key: user\n  limits: [5/h]\n"}, "to": {"draft"}, "reason": {"a test"}}
		if r, page := b.post(t, "/ui/rule", form); r.StatusCode != http.StatusSeeOther {
			t.Fatal(domain, r, page)
		}
		rule, err := h.store.Rule(t.Context(), domain, "user")
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.store.Move(t.Context(), h.ann(t), rulestore.Step{Domain: domain, Rule: "user", Version: 1, To: rulestore.Enforced, Match: rule.Revision, Reason: "a test"})
		if (err == nil) != (want == http.StatusSeeOther) {
			t.Error(domain, err)
		}
	}
	r, page = b.post(t, "/ui/sign-out", url.Values{})
	wants(t, r, page, http.StatusOK, "You are signed out here.", `href="`+liar.URL+`/end?client_id=weir&id_token_hint=ey`, `&post_logout_redirect_uri=`+url.QueryEscape(h.url+"/ui/sign-in")+`"`)
	if r, _ := b.get(t, "/ui/"); r.StatusCode != http.StatusSeeOther {
		t.Error("the session goes on:", r.Status)
	}
}

// TestProviderWithoutDatabase: while the rule database was never reached, or is away, a person who comes back from the provider is told that, and what
// to do.
func TestProviderWithoutDatabase(t *testing.T) {
	t.Parallel()
	h, _ := provided(t)
	for name, leave := range map[string]func(){
		"never reached": func() { h.away.Store(true) },
		"away": func() {
			h.away.Store(false)
			if err := h.store.Close(); err != nil {
				t.Error(err)
			}
		},
	} {
		b := h.browser(t)
		back := b.atProvider(t, "/ui/tokens")
		leave()
		r, page := b.get(t, back)
		wants(t, r, page, http.StatusServiceUnavailable, "The rule database, which keeps sessions, does not answer now", "Sign in again when it is back", "--admin-token-file")
		if strings.Contains(page, "closed") {
			t.Errorf("%s: it tells what the database says: %s", name, page)
		}
	}
}

// ann is who the provider tells of, as an actor.
func (h *house) ann(t *testing.T) rulestore.Actor {
	t.Helper()
	by, _, err := h.person(&rulestore.Person{Issuer: h.provider.URL, Name: "oidc/ann@example.com", Groups: []string{"shop-leads", "dev-mail"}})
	if err != nil {
		t.Fatal(err)
	}
	return by
}

// TestProviderRefuses: who has no role, whom the provider has not signed in, and who comes with what another browser began, stays outside, and is told why.
func TestProviderRefuses(t *testing.T) {
	t.Parallel()
	h, liar := provided(t)
	refused := func(b *browser, path string, status int, words ...string) {
		t.Helper()
		r, page := b.get(t, path)
		wants(t, r, page, status, words...)
		if set := strings.Join(r.Header.Values("Set-Cookie"), "\n"); strings.Contains(set, "weir=") {
			t.Error(path, "begins a session:", set)
		}
		if r, _ := b.get(t, "/ui/"); r.StatusCode != http.StatusSeeOther {
			t.Error(path, "lets in")
		}
	}
	b, other := h.browser(t), h.browser(t)
	refused(b, "/ui/sign-in/back?state=x&code=y", http.StatusForbidden, "was not begun in this browser")
	path := b.atProvider(t, "/ui/")
	refused(other, path, http.StatusForbidden, "was not begun in this browser")
	other.atProvider(t, "/ui/")
	refused(other, path, http.StatusForbidden, "was not begun in this browser")

	path = b.atProvider(t, "/ui/")
	state := path[strings.Index(path, "state="):]
	refused(b, "/ui/sign-in/back?error=access_denied&error_description="+url.QueryEscape("<b>no\u202e</b>")+"&"+state, http.StatusForbidden, "The provider has not signed you in: access_denied: <b>no\\u{202E}</b>")
	refused(b, path, http.StatusForbidden, "was not begun in this browser") // what came back once is of no more use
	liar.Replay()
	path = b.atProvider(t, "/ui/")
	if r, _ := b.get(t, path); r.StatusCode != http.StatusOK {
		t.Error(r)
	}
	b.get(t, "/ui/")
	b.post(t, "/ui/sign-out", url.Values{})
	refused(b, path, http.StatusForbidden, "was not begun in this browser")

	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprint("<i>group-", i)
	}
	for _, c := range []struct {
		claim string
		value any
		words []string
	}{
		{"groups", []string{"guests", "Shop-leads"}, []string{"You may not come in: no group of oidc/ann@example.com has a role now.", "groups guests, Shop-leads."}},
		{"groups", nil, []string{"has told of no group; see --oidc-groups-claim"}},
		{"groups", many, []string{"<i>group-0, <i>group-1,", ", and 9980 more"}},
		{"groups", 7, []string{"is no list of groups"}},
		{"nonce", "another", []string{"The provider's answer can't be trusted"}},
	} {
		liar.Honest()
		liar.Say(c.claim, c.value)
		liar.Inform(map[string]any{"sub": "subject-of-ann"})
		refused(b, b.atProvider(t, "/ui/"), http.StatusForbidden, append(c.words, "Or with a token")...)
	}
	last, err := h.store.Audit(t.Context(), rulestore.Audited{Before: 1 << 40, Limit: 1})
	if err != nil || last[0].Action != rulestore.SignIn || last[0].Actor != "oidc/ann@example.com" || last[0].Refused == "" {
		t.Errorf("%+v %v", last, err)
	}
	liar.Honest()
	liar.Answer("/token", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) })
	refused(b, b.atProvider(t, "/ui/"), http.StatusServiceUnavailable, "does not answer", "A token signs you in all the same")
	liar.Honest()
	for _, to := range []string{"https://evil.example/ui/", "//evil.example/ui/", "/ui/\\..\\..//evil.example", "/ui/" + strings.Repeat("x", 2000)} {
		r, page := b.get(t, b.atProvider(t, to))
		if wants(t, r, page, http.StatusOK, "oidc/ann"); r.Header.Get("Refresh") != "0; url=/ui/" {
			t.Errorf("%.40q leads to %q", to, r.Header.Get("Refresh"))
		}
	}
}

// TestRolesNow: a session of a person ends when no group has a role any more, and has the roles that groups give now.
func TestRolesNow(t *testing.T) {
	t.Parallel()
	h, _ := provided(t)
	b := h.browser(t)
	b.get(t, b.atProvider(t, "/ui/"))
	h.grants.Store(&map[string]rulestore.Grant{"shop-leads": {Role: rulestore.Read, Team: "shop"}})
	r, page := b.get(t, "/ui/")
	wants(t, r, page, http.StatusOK, "(read)")
	h.grants.Store(&map[string]rulestore.Grant{})
	if r, _ := b.get(t, "/ui/"); r.StatusCode != http.StatusSeeOther {
		t.Error("it goes on:", r.Status)
	}
	r, page = b.get(t, "/ui/sign-in")
	wants(t, r, page, http.StatusOK, "Your session has ended: no group of oidc/ann@example.com has a role now.")
}

// TestProviderAtNodes: a browser that leaves from one node comes back to the other.
func TestProviderAtNodes(t *testing.T) {
	t.Parallel()
	one, liar := provided(t)
	other := buildWith(t, one.store, liar, one.url)
	b := one.browser(t)
	there := b.at(other)
	r, page := there.get(t, b.atProvider(t, "/ui/"))
	wants(t, r, page, http.StatusOK, "oidc/ann@example.com")
	r, page = b.get(t, "/ui/")
	wants(t, r, page, http.StatusOK, "oidc/ann@example.com")
}

// TestProviderLooks looks at the pages about a provider on every screen.
func TestProviderLooks(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	h, liar := provided(t)
	for _, view := range browsertest.Views() {
		p := b.Open(t, view, h.url+"/ui/sign-in")
		p.Inspect(t, "sign-in-provider")
		browsertest.Do(t, p, chromedp.Click("a.main"))
		browsertest.Do(t, p, chromedp.WaitVisible("form.who"))
		browsertest.Do(t, p, chromedp.Click("form.who button"))
		browsertest.Do(t, p, chromedp.WaitVisible("main p.notice"))
		p.Inspect(t, "signed-out")
	}
	liar.Say("groups", []string{"guests", "All staff of the company", "CN=mail,OU=groups,DC=example,DC=com"})
	for _, view := range browsertest.Views() {
		p := b.Open(t, view, h.url+"/ui/sign-in")
		browsertest.Do(t, p, chromedp.Click("a.main"))
		browsertest.Do(t, p, chromedp.WaitVisible("main p.fault"))
		p.Inspect(complains{t}, "no-role")
	}
}

// complains is a test of a page whose status is an error, which the console of the browser tells of.
type complains struct{ testing.TB }

func (c complains) Errorf(format string, args ...any) {
	c.Helper()
	if text := fmt.Sprintf(format, args...); !strings.Contains(text, "the server responded with a status of 403") {
		c.TB.Error(text)
	}
}
