package webui_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/rules"
)

// TestOtherTeams: pages tell which clients a domain denies to its team, and to others when it is public;
// its rules they tell to all.
func TestOtherTeams(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	h.book.Open(offenders.ID{Domain: "shop", Rule: "shop/user#1"}, nil, time.Now()).Deny([]byte("secret-client"))
	r, err := h.store.Rule(t.Context(), "shop", "user")
	if err != nil {
		t.Fatal(err)
	}
	h.report = &shadow.Report{
		Key: shadow.Key{Domain: "shop", Rule: "user", Version: r.Shadow}, Since: time.Now(), At: time.Now(),
		Counts: shadow.Counts{BothPass: 900, OnlyCandidate: 100}, NewlyDenied: []shadow.Client{{Rule: "shop/user#1", Key: "secret-client", Requests: 100}},
	}
	a, err := h.limiter.Check(t.Context(), &rules.Request{Domain: "files", Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: "user", Value: "secret-client"}}, Cost: 30}}})
	if err != nil || a.Allowed {
		t.Fatal(a, err)
	}
	const traffic, one = "/ui/traffic", "/ui/traffic?domain=shop&rule=shop%2Fuser%231"
	tells := func(b *browser, path string, want bool) {
		t.Helper()
		r, page := b.get(t, path)
		if r.StatusCode != http.StatusOK || strings.Contains(page, "secret-client") != want {
			t.Errorf("%s: %s, want it told: %v\n%s", path, r.Status, want, page)
		}
	}
	ann, mal := h.signedIn(t, "ann", rulestore.Read, "shop"), h.signedIn(t, "mal", rulestore.Admin, "mail")
	tells(ann, one, true)
	tells(ann, userRule, true)
	tells(mal, one, false)
	tells(mal, userRule, false)
	res, page := mal.get(t, userRule)
	wants(t, res, page, http.StatusOK, "is for the domain's team", "10/s burst 20", "5/s burst 10")
	if strings.Contains(page, "would be denied") {
		t.Error("the report is told:", page)
	}
	if _, page := ann.get(t, userRule); strings.Contains(page, "is for the domain") || !strings.Contains(page, "1\u202f000 were compared") {
		t.Error(page)
	}
	if _, page := mal.get(t, traffic); strings.Contains(page, "shop/user") || !strings.Contains(page, "These are rules of your teams") {
		t.Error(page)
	}
	// Of files, only who stands for all teams is told.
	for _, b := range []*browser{ann, mal} {
		res, page = b.get(t, "/ui/try?id="+a.ID())
		wants(t, res, page, http.StatusForbidden, `id="id-fault"`, "domain files", "of all teams")
		res, page = b.post(t, "/ui/try", url.Values{"domain": {"files"}, "entries": {"user=secret-client"}, "cost": {"1"}})
		wants(t, res, page, http.StatusForbidden, `id="entries-fault"`)
		if strings.Contains(page, "<dt>Used</dt>") {
			t.Error(page)
		}
	}
	all := h.signedIn(t, "sam", rulestore.Read, rulestore.AllTeams)
	tells(all, "/ui/try?id="+a.ID(), true)
	tells(all, one, true)

	// The audit says to all who reset which counts, and to the team alone of which client.
	reset := rulestore.Event{At: time.Now(), Action: rulestore.Reset, Domain: "shop", Rule: "user", Reason: "shop/user#1 of secret-client: a call"}
	if err := h.store.Record(t.Context(), []rulestore.Event{reset.By(rulestore.Actor{Name: "pat"})}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/ui/audit", "/ui/audit?domain=shop", "/ui/audit.jsonl"} {
		tells(ann, path, true)
		tells(all, path, true)
		tells(mal, path, false)
	}
	res, page = mal.get(t, "/ui/audit")
	wants(t, res, page, http.StatusOK, "Reset counts", "pat", "Which client it was is not for your team")

	root := h.signedIn(t, "root", rulestore.Admin, "shop")
	root.get(t, shopRules)
	d, err := h.store.Domain(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	res, page = root.post(t, "/ui/settings", url.Values{"domain": {"shop"}, "match": {strconv.FormatInt(d.Revision, 10)}, "team": {"shop"}, "public": {"yes"}, "reason": {"we are one house"}})
	wants(t, res, page, http.StatusSeeOther)
	tells(mal, one, true)
	tells(mal, userRule, true)
	if _, page := root.get(t, shopRules); !strings.Contains(page, `name="public" value="yes" checked`) {
		t.Error(page)
	}
	// What is not ticked is not so.
	if d, err = h.store.Domain(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	res, page = root.post(t, "/ui/settings", url.Values{"domain": {"shop"}, "match": {strconv.FormatInt(d.Revision, 10)}, "team": {"shop"}, "reason": {"no more"}})
	wants(t, res, page, http.StatusSeeOther)
	tells(mal, one, false)
}
