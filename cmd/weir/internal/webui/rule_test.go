package webui_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// TestActiveRule: the page of a rule shows what is active now and until when,
// and calls a draft that takes the rule away that.
func TestActiveRule(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	ctx := t.Context()
	if _, err := h.store.CreateDomain(ctx, root(), rulestore.NewDomain{Name: "shop", Team: "shop"}, "a test"); err != nil {
		t.Fatal(err)
	}
	made, err := h.store.Propose(ctx, root(), rulestore.Proposal{Domain: "shop", Text: "- key: user\n  limits: [10/s burst 20]\n", To: rulestore.Enforced, Reason: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	at := "?" + url.Values{"domain": {"shop"}, "rule": {"user"}}.Encode()
	shows := func(page string, want ...string) {
		t.Helper()
		_, text := b.get(t, "/ui/"+page+at)
		for _, one := range want {
			if !strings.Contains(text, one) {
				t.Errorf("%s has no %s in\n%s", page, one, text)
			}
		}
	}
	hold := func(o rulestore.Override) {
		t.Helper()
		o.Domain, o.Reason = "shop", "an incident"
		if err := h.store.Override(ctx, root(), o); err != nil {
			t.Fatal(err)
		}
	}
	shows("rule", "<h3><code>10/s burst 20</code></h3>", "At most 29 ")
	hold(rulestore.Override{Percent: 50, Until: time.Now().Add(time.Hour)})
	shows("rule", "<h3><code>5/s burst 10</code></h3>", "At most 14 ", "then again as they are written:", "<li><code>10/s burst 20</code></li>")
	hold(rulestore.Override{Rule: "user", Until: time.Now().Add(time.Hour)}) // which goes before that of the domain
	shows("rule", "<h3><code>10/s burst 20</code> <span class=\"mark shadow\">", "then again")
	if _, err := h.store.Propose(ctx, root(), rulestore.Proposal{Domain: "shop", Rule: "user", Match: made.Revision}); err != nil {
		t.Fatal(err)
	}
	shows("rule", "It would take the rule away.", "limits: [10/s burst 20]")
	shows("history", "It would take the rule away.")
}

// TestRuleAway: a rule that was taken away and is proposed anew is a draft and no more,
// in lists, on its page and for calls.
func TestRuleAway(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	ctx := t.Context()
	if _, err := h.store.CreateDomain(ctx, root(), rulestore.NewDomain{Name: "shop", Team: "shop"}, "a test"); err != nil {
		t.Fatal(err)
	}
	match := int64(0)
	for _, p := range []rulestore.Proposal{
		{Text: "- key: user\n  limits: [10/s]\n", To: rulestore.Enforced}, {Rule: "user", To: rulestore.Enforced}, {Text: "- key: user\n  limits: [20/s]\n"},
	} {
		p.Domain, p.Match, p.Reason = "shop", match, "a test"
		v, err := h.store.Propose(ctx, root(), p)
		if err != nil {
			t.Fatal(err)
		}
		match = v.Revision
	}
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	for _, page := range []string{"rules?domain=shop", "rule?domain=shop&rule=user"} {
		_, text := b.get(t, "/ui/"+page)
		if !strings.Contains(text, "draft v3") || strings.Contains(text, "active v") || strings.Contains(text, "Disable it") {
			t.Errorf("%s:\n%s", page, text)
		}
	}
}
