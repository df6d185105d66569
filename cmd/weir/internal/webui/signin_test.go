package webui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// neighbours are the pages of two nodes that share a rule database, and a browser that comes to them by a balancer: it holds them for one.
func neighbours(t *testing.T) (one, other *house, b *browser) {
	t.Helper()
	one = build(t, true)
	other = buildAt(t, one.store)
	return one, other, one.browser(t)
}

// at is the browser at a node, with its cookies: those are of all ports of a host.
func (b *browser) at(h *house) *browser { return &browser{Client: b.Client, house: h, token: b.token} }

// TestSessionsOfNodes: who signs in at one node is signed in at the other: its forms count there, it is told there what was done here, and
// signing out there ends it here.
func TestSessionsOfNodes(t *testing.T) {
	t.Parallel()
	one, other, b := neighbours(t)
	_, text := one.token(t, "ann", rulestore.Admin, rulestore.AllTeams)
	here := b.at(one)
	if r, page := here.post(t, "/ui/sign-in", url.Values{"token": {text}}); r.StatusCode != http.StatusSeeOther {
		t.Fatal(r.Status, page)
	}
	r, page := here.get(t, "/ui/domain")
	wants(t, r, page, http.StatusOK, "ann")
	there := here.at(other) // with the word of a form of the first
	if r, page := there.post(t, "/ui/domain", url.Values{"name": {"shop"}, "team": {"shop"}, "reason": {"our first"}}); r.StatusCode != http.StatusSeeOther {
		t.Fatal(r.Status, page)
	}
	const said = "The domain is there"
	r, page = here.get(t, "/ui/rules?domain=shop")
	wants(t, r, page, http.StatusOK, said)
	for _, again := range []*browser{here, there} {
		if _, page := again.get(t, "/ui/rules?domain=shop"); strings.Contains(page, said) {
			t.Error("it is said twice")
		}
	}
	if r, _ := there.post(t, "/ui/sign-out", url.Values{"csrf": {here.token}}); r.StatusCode != http.StatusSeeOther {
		t.Fatal(r.Status)
	}
	if r, _ := here.get(t, "/ui/"); r.StatusCode != http.StatusSeeOther {
		t.Error("the session goes on at the node where it began:", r.Status)
	}
}

// TestRevokedAtNodes: a token that is revoked ends its sessions at all nodes, and the page to sign in says so.
func TestRevokedAtNodes(t *testing.T) {
	t.Parallel()
	one, other, b := neighbours(t)
	token, text := one.token(t, "ann", rulestore.Read, "shop")
	here := b.at(one)
	here.post(t, "/ui/sign-in", url.Values{"token": {text}})
	if err := other.store.RevokeToken(t.Context(), root(), token.ID, "a test"); err != nil {
		t.Fatal(err)
	}
	for _, at := range []*browser{here, here.at(other)} {
		if r, _ := at.get(t, "/ui/"); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/ui/sign-in?to=%2Fui%2F" {
			t.Error(r)
		}
		r, page := at.get(t, "/ui/sign-in")
		wants(t, r, page, http.StatusOK, "Your session has ended: the token was revoked at 20")
	}
	r, page := one.browser(t).get(t, "/ui/sign-in")
	if wants(t, r, page, http.StatusOK); strings.Contains(page, "has ended") {
		t.Error("who never signed in is told of a session")
	}
	planted := here.at(one)
	planted.fields = http.Header{"Cookie": {"weir=planted"}}
	planted.Jar = nil
	r, page = planted.get(t, "/ui/sign-in")
	wants(t, r, page, http.StatusOK, "Your session has ended: one ends 12 hours after it began, and after 60 minutes without a request.")
}

// TestFileTokenAtNodes: a session of a token of a file goes on at nodes whose file has the token, and ends when it is taken out; nothing in the
// database tells which token it is.
func TestFileTokenAtNodes(t *testing.T) {
	t.Parallel()
	one, other, b := neighbours(t)
	token := "0123456789abcdef"
	one.inFile.Store(&token)
	here := b.at(one)
	if r, page := here.post(t, "/ui/sign-in", url.Values{"token": {token}}); r.StatusCode != http.StatusSeeOther {
		t.Fatal(r.Status, page)
	}
	there := here.at(other)
	if r, _ := there.get(t, "/ui/"); r.StatusCode != http.StatusSeeOther {
		t.Error("a node whose file has not the token lets it in:", r.Status)
	}
	r, page := there.get(t, "/ui/sign-in")
	wants(t, r, page, http.StatusOK, "its token is not in the file of --admin-token-file of this node")
	r, page = here.get(t, "/ui/")
	wants(t, r, page, http.StatusOK, "admin-token-file")
	other.inFile.Store(&token)
	r, page = there.get(t, "/ui/")
	wants(t, r, page, http.StatusOK, "admin-token-file")
	next := "fedcba9876543210"
	one.inFile.Store(&next)
	if r, _ := here.get(t, "/ui/"); r.StatusCode != http.StatusSeeOther {
		t.Error("a token that was taken out of the file lets in:", r.Status)
	}
}

// TestDatabaseAway: while the database is away nobody is signed out. A token of the file signs in at one node meanwhile, and strangers
// are told nothing of the database.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	b := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	token := "0123456789abcdef"
	h.inFile.Store(&token)
	h.away.Store(true)
	for range 2 {
		r, page := b.get(t, "/ui/")
		if wants(t, r, page, http.StatusServiceUnavailable, "does not answer now. You have not been signed out"); r.Header.Get("Set-Cookie") != "" {
			t.Error(r.Header)
		}
	}
	if r, _ := b.post(t, "/ui/sign-out", url.Values{}); r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Set-Cookie") != "" {
		t.Error("a session is said to have ended that goes on:", r)
	}
	r, page := b.get(t, "/ui/sign-in")
	if wants(t, r, page, http.StatusOK); strings.Contains(page, "has ended") {
		t.Error("a session is said to have ended")
	}
	helper := h.browser(t)
	if r, page := helper.post(t, "/ui/sign-in", url.Values{"token": {token}}); r.StatusCode != http.StatusSeeOther {
		t.Fatal(r.Status, page)
	}
	r, page = helper.get(t, "/ui/")
	wants(t, r, page, http.StatusOK, "admin-token-file", "was not reached yet")
	h.away.Store(false)
	r, page = b.get(t, "/ui/")
	wants(t, r, page, http.StatusOK, "ann")
	r, page = helper.get(t, "/ui/domain")
	wants(t, r, page, http.StatusOK)
	helper.post(t, "/ui/domain", url.Values{"name": {"shop"}, "team": {"shop"}, "reason": {"our first"}})
	r, page = helper.get(t, "/ui/rules?domain=shop")
	wants(t, r, page, http.StatusOK, "The domain is there")
	helper.post(t, "/ui/sign-out", url.Values{})
	if r, _ := helper.get(t, "/ui/"); r.StatusCode != http.StatusSeeOther {
		t.Error(r.Status)
	}
}
