package webui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// TestSignIn: nothing is shown to who has not signed in, an id that a browser had
// before is not the one it has then, and a token that is revoked ends its
// sessions.
func TestSignIn(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	token, text := h.token(t, "ann", rulestore.Publish, "shop")
	b := h.browser(t)
	for _, path := range []string{"/ui/", "/ui/rules?domain=files", "/ui/rule?domain=files&rule=user", "/ui/none"} {
		r, body := b.get(t, path)
		if want := "/ui/sign-in?to=" + url.QueryEscape(path); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != want || strings.Contains(body, "burst") {
			t.Error(path, r.Status, r.Header.Get("Location"))
		}
	}
	at, err := url.Parse(h.url + "/ui/")
	if err != nil {
		t.Fatal(err)
	}
	b.Jar.SetCookies(at, []*http.Cookie{{Name: "weir", Value: "planted", Path: "/ui/"}})
	r, _ := b.post(t, "/ui/sign-in", url.Values{"token": {" " + text + "\n"}, "to": {"/ui/rules?domain=files"}})
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/ui/rules?domain=files" {
		t.Fatal(r.Status, r.Header)
	}
	set := r.Header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/ui/", "Max-Age="} {
		if !strings.Contains(set, want) || strings.Contains(set, "planted") {
			t.Error("the cookie is", set)
		}
	}
	if r, body := b.get(t, "/ui/"); r.StatusCode != http.StatusOK || !strings.Contains(body, "ann") {
		t.Error(r.Status, body)
	}
	if err := h.store.RevokeToken(t.Context(), root(), token.ID, "a test"); err != nil {
		t.Fatal(err)
	}
	if r, _ := b.get(t, "/ui/"); r.StatusCode != http.StatusSeeOther {
		t.Error("a revoked token still opens:", r.Status)
	}
}

// TestSignOut ends the session, not only the cookie.
func TestSignOut(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	b := h.signedIn(t, "ann", rulestore.Read, "shop")
	at, err := url.Parse(h.url + "/ui/")
	if err != nil {
		t.Fatal(err)
	}
	kept := b.Jar.Cookies(at)
	if r, _ := b.post(t, "/ui/sign-out", url.Values{}); r.StatusCode != http.StatusSeeOther {
		t.Fatal(r.Status)
	}
	if left := b.Jar.Cookies(at); len(left) != 0 {
		t.Error("the browser keeps", left)
	}
	b.Jar.SetCookies(at, kept)
	if r, _ := b.get(t, "/ui/"); r.StatusCode != http.StatusSeeOther {
		t.Error("the session goes on:", r.Status)
	}
}

// TestAttempts: who has shown too many wrong tokens is told to wait, and signs in
// with a right one all the same.
func TestAttempts(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	_, text := h.token(t, "ann", rulestore.Read, "shop")
	b := h.browser(t)
	for range 10 {
		if r, _ := b.post(t, "/ui/sign-in", url.Values{"token": {"weir_wrong"}}); r.StatusCode != http.StatusUnauthorized {
			t.Fatal(r.Status)
		}
	}
	r, body := b.post(t, "/ui/sign-in", url.Values{"token": {"weir_wrong"}})
	if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" || r.Header.Get("Set-Cookie") != "" {
		t.Error(r.Status, r.Header, body)
	}
	if r, body := b.post(t, "/ui/sign-in", url.Values{"token": {text}}); r.StatusCode != http.StatusSeeOther || r.Header.Get("Set-Cookie") == "" {
		t.Error("a right token:", r.Status, body)
	}
}

// TestOpenRedirect: after signing in one stays here.
func TestOpenRedirect(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	_, text := h.token(t, "ann", rulestore.Read, "shop")
	for _, to := range []string{
		"https://evil.example/ui/", "//evil.example/ui/", "/\\evil.example", "/ui/\\..\\..//evil.example", "/ui/../../evil", "javascript:alert(1)",
		"/uiz", "ui/", "", "/ui/\r\nSet-Cookie: a=b", "/ui/\t//evil", "http:/ui/", "/ui/%2e%2e/x", "%2Fui%2F",
	} {
		r, _ := h.browser(t).post(t, "/ui/sign-in", url.Values{"token": {text}, "to": {to}})
		if r.Header.Get("Location") != "/ui/" {
			t.Errorf("%q leads to %q", to, r.Header.Get("Location"))
		}
		_, body := h.browser(t).get(t, "/ui/sign-in?to="+url.QueryEscape(to))
		if !strings.Contains(body, `name="to" value="/ui/"`) {
			t.Errorf("%q is kept in the form: %s", to, body)
		}
	}
}

// TestHeaders: no page may be kept, framed, or made to run what is not ours.
func TestHeaders(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	b := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	for _, path := range append(allPages(), "/ui/none", "/ui/sign-in", "/ui/style.css", "/ui/script.js", "/ui/icon.svg", "/") {
		r, body := b.get(t, path)
		policy := r.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"} {
			if !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
				t.Errorf("%s: the policy is %s", path, policy)
			}
		}
		want := "no-store"
		if strings.Contains(path, ".") {
			want = "no-cache"
		}
		if got := r.Header.Get("Cache-Control"); got != want {
			t.Errorf("%s may be kept: %s", path, got)
		}
		for name, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"} {
			if r.Header.Get(name) != want {
				t.Errorf("%s: %s is %s", path, name, r.Header.Get(name))
			}
		}
		for _, bad := range []string{"<style", " style=", " onclick=", "<script>", "http://", "https://"} {
			if strings.Contains(body, bad) && !strings.Contains(path, ".") {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
}

// TestSize: a form that is too large is refused, and nothing of it kept.
func TestSize(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	b := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	if r, _ := b.post(t, "/ui/sign-out", url.Values{"text": {strings.Repeat("a", 1<<20)}}); r.StatusCode != http.StatusRequestEntityTooLarge {
		t.Error(r.Status)
	}
}

// TestForeignForm: a form without the session's word changes nothing.
func TestForeignForm(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	b := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	other := h.signedIn(t, "bob", rulestore.Admin, rulestore.AllTeams)
	for _, path := range allForms() {
		for _, csrf := range []string{"", "guess", other.token} {
			if r, _ := b.post(t, path, url.Values{"csrf": {csrf}}); r.StatusCode != http.StatusForbidden {
				t.Errorf("%s with %q: %s", path, csrf, r.Status)
			}
		}
		if r, _ := h.browser(t).post(t, path, url.Values{}); r.StatusCode != http.StatusSeeOther {
			t.Errorf("%s of nobody: %s", path, r.Status)
		}
	}
	if r, _ := b.get(t, "/ui/"); r.StatusCode != http.StatusOK {
		t.Error("a foreign form has signed ann out:", r.Status)
	}
}

// allPages is all that can be looked at.
func allPages() []string {
	return []string{
		"/ui/", "/ui/rules?domain=files", "/ui/rules?domain=shop", "/ui/rules?search=u", "/ui/rule?domain=files&rule=user", "/ui/rule?domain=shop&rule=user", "/ui/new?domain=shop", "/ui/domain",
		"/ui/history?domain=shop&rule=user", "/ui/rule?domain=shop&rule=newsletter",
		"/ui/try?domain=files&rule=user", "/ui/traffic", "/ui/traffic?domain=files&rule=files/user%231", "/ui/traffic?domain=shop&span=6h", "/ui/nodes", "/ui/limited", "/ui/limited?client=zzz", "/ui/unblock?domain=files&rule=files/user%231&client=YW5u", "/ui/inbox", "/ui/audit", "/ui/backup", "/ui/teams", "/ui/tokens", "/ui/webhooks", "/ui/import?domain=shop", "/ui/exceptions?domain=shop", "/ui/exception?domain=shop&rule=user&key=4711", "/ui/deletions",
	}
}

// allForms is all that takes forms of who has signed in.
func allForms() []string {
	return []string{"/ui/sign-out", "/ui/look", "/ui/rule", "/ui/step", "/ui/override", "/ui/unblock", "/ui/domain", "/ui/try", "/ui/settings", "/ui/deletions", "/ui/import", "/ui/exception", "/ui/exception/end", "/ui/exceptions/import", "/ui/teams", "/ui/tokens", "/ui/tokens/revoke", "/ui/comment", "/ui/webhooks", "/ui/webhooks/ping"}
}

// TestPace: forms are counted with all that a token asks for; one too many is told
// when to come again, and signing out is always possible.
func TestPace(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	token, text := h.token(t, "ann", rulestore.Propose, "shop")
	b := h.browser(t)
	b.post(t, "/ui/sign-in", url.Values{"token": {text}})
	b.get(t, "/ui/")
	for try := 0; ; try++ { // until no time has passed between
		if try == 1000 {
			t.Fatal("forms are not counted with other changes")
		}
		for h.changes.Admit(t.Context(), rulestore.Actor{Name: "ann", Token: token.ID}) == nil {
		}
		r, page := b.post(t, "/ui/look", url.Values{"domain": {"shop"}, "text": {"- key: a\n"}})
		if r.StatusCode != http.StatusTooManyRequests {
			continue
		}
		wants(t, r, page, http.StatusTooManyRequests, "ann has asked for too many changes", "wait 1 s")
		if r.Header.Get("Retry-After") != "1" {
			t.Error(r.Header)
		}
		break
	}
	if r, _ := b.post(t, "/ui/sign-out", url.Values{}); r.StatusCode != http.StatusSeeOther {
		t.Error(r.Status)
	}
}

// TestExpired: a token that expires ends its sessions, and opens no more.
func TestExpired(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	for life := 200 * time.Millisecond; ; life *= 2 { // until there is time to sign in
		k := rulestore.Token{Actor: "ann", Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}, Expires: time.Now().Add(life)}
		_, text, err := h.store.CreateToken(t.Context(), root(), k, "a test")
		if err != nil {
			t.Fatal(err)
		}
		b := h.browser(t)
		if r, _ := b.post(t, "/ui/sign-in", url.Values{"token": {text}}); r.StatusCode != http.StatusSeeOther {
			continue
		}
		if r, _ := b.get(t, "/ui/"); r.StatusCode != http.StatusOK {
			continue
		}
		for time.Now().Before(k.Expires) {
			time.Sleep(time.Until(k.Expires))
		}
		if r, page := b.get(t, "/ui/tokens"); r.StatusCode != http.StatusSeeOther || strings.Contains(page, "ann") {
			t.Error("its session goes on:", r.Status)
		}
		r, page := b.post(t, "/ui/domain", url.Values{"name": {"mine"}, "team": {"mine"}, "reason": {"mine"}})
		wants(t, r, page, http.StatusSeeOther)
		if _, err := h.store.Domain(t.Context(), "mine"); !rulestore.IsKind(err, rulestore.NotFound) {
			t.Error("its forms count:", err)
		}
		r, page = b.post(t, "/ui/sign-in", url.Values{"token": {text}})
		wants(t, r, page, http.StatusUnauthorized, "has expired")
		return
	}
}

// TestUnreadForms: who has not signed in is sent to do so before a form of theirs is
// read, however long it is.
func TestUnreadForms(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	for _, path := range allForms() {
		if r, page := h.browser(t).post(t, path, url.Values{"text": {strings.Repeat("a", 300<<10)}}); r.StatusCode != http.StatusSeeOther {
			t.Error(path, r.Status, page)
		}
	}
}

// TestLongFields: whatever the field, a form with too much in it is refused, and the
// page lives.
func TestLongFields(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	for path, fields := range map[string][]string{
		"/ui/rule": {"domain", "rule", "text", "reason", "to", "match"}, "/ui/step": {"domain", "rule", "version", "to", "reason", "force"},
		"/ui/override": {"domain", "rule", "percent", "minutes", "reason"}, "/ui/domain": {"name", "team", "reason"},
		"/ui/settings": {"domain", "team", "match", "reason", "confirm"}, "/ui/deletions": {"domain", "reason"}, "/ui/import": {"text", "team", "reason", "to"},
		"/ui/teams": {"team", "quota", "reason"}, "/ui/tokens": {"actor", "role", "teams", "days", "reason"}, "/ui/tokens/revoke": {"token", "reason"},
		"/ui/try": {"domain", "entries", "cost"}, "/ui/look": {"domain", "text"},
	} {
		for _, field := range fields {
			for _, text := range []string{strings.Repeat("x", 200<<10), strings.Repeat("\u202e", 60<<10), strings.Repeat("x", 1<<20)} {
				form := url.Values{"domain": {"shop"}, "percent": {"50"}, "minutes": {"15"}, "rule": {"user"}, "match": {"2"}, "reason": {"x"}, "to": {"shadow"}, field: {text}}
				r, page := b.post(t, path, form)
				if r.StatusCode < 400 && path != "/ui/look" || r.StatusCode >= 500 {
					t.Errorf("%s with a long %s: %s\n%.2000s", path, field, r.Status, page)
				}
				if len(page) > 3<<20 {
					t.Errorf("%s with a long %s answers %d bytes", path, field, len(page))
				}
			}
			b.get(t, "/ui/")
		}
	}
}
