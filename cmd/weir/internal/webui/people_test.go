package webui_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// newToken is a form that makes a token.
func newToken(more ...string) url.Values {
	f := url.Values{"actor": {"bob"}, "role": {"propose"}, "teams": {"shop, mail"}, "days": {"30"}, "reason": {"he is new"}}
	for i := 0; i < len(more); i += 2 {
		f.Set(more[i], more[i+1])
	}
	return f
}

// TestTokens: a token that is made is shown once, does what was written, and is
// revoked by whoever may.
func TestTokens(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	b := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	r, page := b.post(t, "/ui/tokens", newToken())
	wants(t, r, page, http.StatusCreated, "The token of bob", "shown this once")
	found := regexp.MustCompile(`>(weir_([a-z0-9]+)_[A-Z0-9]+)<`).FindStringSubmatch(page)
	if found == nil {
		t.Fatal("no token is shown:\n", page)
	}
	text, id := found[1], found[2]
	who, err := h.store.Authenticate(t.Context(), text)
	if err != nil || who.Name != "bob" || who.Role != rulestore.Propose || strings.Join(who.Teams, " ") != "shop mail" {
		t.Error(who, err)
	}
	r, page = b.get(t, "/ui/tokens")
	wants(t, r, page, http.StatusOK, id, "bob", "shop mail", "by ann", "(you)", "valid", "Last used")
	if _, file := b.get(t, "/ui/audit.jsonl"); strings.Contains(page, text) || strings.Contains(file, text) {
		t.Error("the token is shown again")
	}
	list, _, err := h.store.Tokens(t.Context(), root(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range list {
		if left := time.Until(k.Expires); k.ID == id && (left < 29*24*time.Hour || left > 30*24*time.Hour) {
			t.Error("it lives for", left)
		}
	}

	other := h.browser(t)
	r, page = other.post(t, "/ui/sign-in", url.Values{"token": {text}})
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.post(t, "/ui/tokens/revoke", url.Values{"token": {id}, "reason": {" "}})
	wants(t, r, page, http.StatusBadRequest, "say why", "<details open><summary>Revoke")
	r, page = b.post(t, "/ui/tokens/revoke", url.Values{"token": {id}, "reason": {"he left"}})
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, "/ui/tokens")
	wants(t, r, page, http.StatusOK, "is revoked. Its sessions have ended.", "revoked</span>")
	if r, _ := other.get(t, "/ui/"); r.StatusCode != http.StatusSeeOther {
		t.Error("its session goes on:", r.Status)
	}
	r, page = b.post(t, "/ui/tokens/revoke", url.Values{"token": {"<b>none"}, "reason": {"x"}})
	wants(t, r, page, http.StatusNotFound, "&lt;b&gt;none")
}

// TestBadTokens: what is wrong is told beside the field, and no token is made.
func TestBadTokens(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	b := h.signedIn(t, "ann", rulestore.Admin, "shop")
	for _, c := range []struct {
		form   url.Values
		status int
		want   string
	}{
		{newToken("teams", "shop", "actor", "bоb"), http.StatusBadRequest, "U+043E"}, // a Cyrillic o
		{newToken("teams", "shop", "actor", ""), http.StatusBadRequest, `id="actor-fault"`},
		{newToken("teams", "shop", "actor", `"><script>alert(1)</script>`), http.StatusBadRequest, "&lt;script&gt;"},
		{newToken("teams", "shop", "actor", strings.Repeat("x", 200<<10)), http.StatusBadRequest, "a name may have 128"},
		{newToken("teams", " , "), http.StatusBadRequest, `id="teams-fault"`},
		{newToken("teams", "s\u202ehop"), http.StatusBadRequest, "U+202E"},
		{newToken("teams", strings.Repeat("t ", 101)), http.StatusBadRequest, "name 1…100"},
		{newToken("teams", "shop", "role", "root"), http.StatusBadRequest, "write read, propose, publish or admin"},
		{newToken("teams", "shop", "days", "99999999999"), http.StatusBadRequest, "choose one of the list"},
		{newToken("teams", "shop", "days", "a year"), http.StatusBadRequest, "choose one of the list"},
		{newToken("teams", "shop", "days", "-1"), http.StatusBadRequest, "choose one of the list"},
		{newToken("teams", "shop", "reason", ""), http.StatusBadRequest, "say why"},
		{newToken("teams", "mail"), http.StatusForbidden, "must stand for team mail"},
		{newToken("teams", "*"), http.StatusForbidden, "must have the role admin for all teams"},
		{newToken("teams", "shop mail"), http.StatusForbidden, "must stand for team mail"},
	} {
		r, page := b.post(t, "/ui/tokens", c.form)
		wants(t, r, page, c.status, c.want)
		if strings.Contains(page, ">weir_") || strings.Contains(page, "<script>alert") {
			t.Error("a token is shown, or markup gets through:", page)
		}
	}
	list, _, err := h.store.Tokens(t.Context(), root(), "", 0)
	if err != nil || len(list) != 1 {
		t.Error(list, err)
	}
}

// TestNoAdmin: who is no administrator sees nothing of tokens and changes no quota,
// however the forms were come by.
func TestNoAdmin(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	mine, _ := h.token(t, "ann", rulestore.Admin, "shop")
	for role, actor := range map[rulestore.Role]string{rulestore.Read: "reader", rulestore.Propose: "proposer", rulestore.Publish: "publisher"} {
		b := h.signedIn(t, actor, role, rulestore.AllTeams)
		_, home := b.get(t, "/ui/")
		if strings.Contains(home, "/ui/tokens") || strings.Contains(home, "/ui/domain\"") {
			t.Error(actor, "is shown what is for administrators:\n", home)
		}
		if r, page := b.get(t, "/ui/tokens"); r.StatusCode != http.StatusForbidden || strings.Contains(page, mine.ID) {
			t.Error(actor, r.Status, page)
		}
		r, page := b.get(t, "/ui/teams")
		wants(t, r, page, http.StatusOK, "shop", "1\u202f000")
		if strings.Contains(page, "<form method=\"post\" action=\"/ui/teams\"") {
			t.Error(actor, "is shown a form for quotas")
		}
		_, page = b.get(t, "/ui/rules?domain=shop")
		if strings.Contains(page, "/ui/settings") || strings.Contains(page, "/ui/override") != (role == rulestore.Publish) || strings.Contains(page, "/ui/import") != (role > rulestore.Read) {
			t.Errorf("%s is shown other forms than %v may send:\n%s", actor, role, page)
		}
		for path, f := range map[string]url.Values{
			"/ui/tokens":        newToken(),
			"/ui/tokens/revoke": {"token": {mine.ID}, "reason": {"mine"}},
			"/ui/teams":         {"team": {"shop"}, "quota": {"9"}, "reason": {"mine"}},
			"/ui/settings":      {"domain": {"shop"}, "team": {"mail"}, "match": {"2"}, "reason": {"mine"}},
		} {
			if r, page := b.post(t, path, f); r.StatusCode != http.StatusForbidden && r.StatusCode != http.StatusConflict {
				t.Errorf("%s by %s: %s\n%s", path, actor, r.Status, page)
			}
		}
	}
	list, _, err := h.store.Tokens(t.Context(), root(), "", 0)
	if err != nil || len(list) != 4 {
		t.Error(list, err)
	}
	for _, k := range list {
		if !k.Revoked.IsZero() {
			t.Error(k)
		}
	}
	d, err := h.store.Domain(t.Context(), "shop")
	if err != nil || d.Team != "shop" {
		t.Error(d, err)
	}
}

// TestQuotas: an administrator of all teams says how many rules one may have.
func TestQuotas(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	for _, c := range []struct{ quota, reason, want string }{
		{"many", "x", "Write a whole number"},
		{"-1", "x", "must be 0…1000000"},
		{"9223372036854775808", "x", "Write a whole number"},
		{"12", "", "say why"},
		{`"><script>`, "x", "&#34;&gt;&lt;script&gt;"},
	} {
		r, page := b.post(t, "/ui/teams", url.Values{"team": {"shop"}, "quota": {c.quota}, "reason": {c.reason}})
		wants(t, r, page, http.StatusBadRequest, c.want, "<details open><summary>Change")
	}
	r, page := b.post(t, "/ui/teams", url.Values{"team": {"shop"}, "quota": {"1234"}, "reason": {"few are enough"}})
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, "/ui/teams")
	wants(t, r, page, http.StatusOK, "Team shop may have 1234 rules.", "<td data-column=\"May have\" class=\"number\">1\u202f234</td>")
	some := h.signedIn(t, "sam", rulestore.Admin, "shop")
	r, page = some.post(t, "/ui/teams", url.Values{"team": {"shop"}, "quota": {"13"}, "reason": {"more"}})
	wants(t, r, page, http.StatusForbidden, "must have the role admin for all teams")
}

// TestTokenEnds: whoever holds a token that ends soon is told on each page, and others are not.
func TestTokenEnds(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	for days, told := range map[int]bool{13: true, 15: false, 0: false} {
		k := rulestore.Token{Actor: "ann", Role: rulestore.Admin, Teams: []string{"shop"}}
		if days > 0 {
			k.Expires = time.Now().Add(time.Duration(days) * 24 * time.Hour)
		}
		_, text, err := h.store.CreateToken(t.Context(), root(), k, "a test")
		if err != nil {
			t.Fatal(err)
		}
		b := h.browser(t)
		b.post(t, "/ui/sign-in", url.Values{"token": {text}})
		for _, path := range []string{"/ui/", "/ui/tokens"} {
			if r, page := b.get(t, path); r.StatusCode != http.StatusOK || strings.Contains(page, "Your token ends") != told {
				t.Errorf("%d days, %s: %s", days, path, page)
			}
		}
	}
}
