package webui_test

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// hooks makes webhooks: one that delivers, one that fails, and one that is disabled.
func (h *house) hooks(t *testing.T) {
	t.Helper()
	for _, w := range []rulestore.Webhook{
		{Team: "shop", URL: "https://hooks.slack.example/services/T0/B0/hidden", Form: rulestore.Slack, Kinds: []string{rulestore.TellPublish, rulestore.TellReview}},
		{Team: "shop", URL: "https://bot.example/weir", Form: rulestore.JSON},
		{Team: rulestore.AllTeams, URL: "https://old.example/", Form: rulestore.JSON, Disabled: true},
	} {
		made, err := h.store.SetWebhook(t.Context(), root(), w, "a test")
		if err != nil {
			t.Fatal(err)
		}
		d := rulestore.Delivery{Message: "msg_" + made.ID + "_a17", Kind: rulestore.TellPublish, At: made.Made, Status: 200, Tries: 1, Millis: 42}
		if w.Form == rulestore.JSON && !w.Disabled {
			d.Status, d.Error, d.Tries = 0, "dial tcp: lookup bot.example: <no> such host", 3
			err = h.store.Undelivered(t.Context(), &made, d, made.Made)
		} else {
			err = h.store.Pinged(t.Context(), &made, d)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestWebhooks: an administrator makes a webhook, sees its secret once, tests, changes, renews and removes it; others see no page of it.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	ada := h.signedIn(t, "ada", rulestore.Admin, "shop")
	r, page := ada.get(t, "/ui/webhooks")
	wants(t, r, page, http.StatusOK, "There is no webhook yet", `value="shop"`)
	form := url.Values{"team": {"shop"}, "url": {"https://hooks.example/T0/hidden"}, "form": {"slack"}, "kind": {"publish", "comment"}, "reason": {"ours"}}
	r, page = ada.post(t, "/ui/webhooks", form)
	wants(t, r, page, http.StatusOK, "whsec_", "shown this once", "https://hooks.example/…")
	secret := regexp.MustCompile(`whsec_[^<]+`).FindString(page)
	r, page = ada.get(t, "/ui/webhooks")
	wants(t, r, page, http.StatusOK, "publish, comment", "as Slack takes it", "delivers")
	id := regexp.MustCompile(`name="webhook" value="(\w+)"`).FindStringSubmatch(page)[1]
	if strings.Contains(page, "whsec_") || strings.Contains(page, "T0/hidden") {
		t.Error("a page tells a secret again:", page)
	}
	h.pinged = rulestore.Delivery{Message: "msg", Kind: rulestore.Ping, Error: "it answers <b>500"}
	ada.post(t, "/ui/webhooks/ping", url.Values{"webhook": {id}})
	r, page = ada.get(t, "/ui/webhooks")
	wants(t, r, page, http.StatusOK, "The ping was not delivered: it answers &lt;b&gt;500.")
	for _, c := range []struct {
		set  url.Values
		want string
	}{
		{url.Values{"url": {"ftp://x"}}, "The url is no URL"}, {url.Values{"kind": nil}, "Choose what the webhook is told"}, {url.Values{"team": {""}}, "The team"}, {url.Values{"reason": {" "}}, "say why"},
	} {
		bad := url.Values{}
		for _, from := range []url.Values{form, c.set} {
			maps.Copy(bad, from)
		}
		r, page = ada.post(t, "/ui/webhooks", bad)
		wants(t, r, page, http.StatusBadRequest, c.want, `role="alert"`)
	}
	h.reach = errors.New("127.0.0.1 is not public")
	r, page = ada.post(t, "/ui/webhooks", form)
	wants(t, r, page, http.StatusBadRequest, "The url 127.0.0.1 is not public", `id="url-fault"`)
	h.reach = nil
	failed, err := h.store.WebhookToTell(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.store.Undelivered(t.Context(), &failed, rulestore.Delivery{Message: "m", Kind: "publish", At: failed.Made, Error: "it answers 500"}, failed.Made.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	r, page = ada.get(t, "/ui/webhooks")
	wants(t, r, page, http.StatusOK, "Retry now", "it answers 500")
	r, page = ada.post(t, "/ui/webhooks", url.Values{"webhook": {id}, "do": {"retry"}, "reason": {" "}})
	wants(t, r, page, http.StatusBadRequest, "say why")
	r, page = ada.post(t, "/ui/webhooks", url.Values{"webhook": {id}, "do": {"retry"}, "reason": {"it is back"}})
	wants(t, r, page, http.StatusSeeOther)
	if now, err := h.store.WebhookToTell(t.Context(), id); err != nil || !now.NextTry.IsZero() {
		t.Error(now.NextTry, err)
	}
	r, page = ada.get(t, "/ui/webhooks")
	wants(t, r, page, http.StatusOK, "What waits is sent now.")
	change := url.Values{"webhook": {id}, "do": {"change"}, "form": {"json"}, "kind": rulestore.MessageKinds(), "disabled": {"yes"}, "reason": {"it is broken"}}
	r, page = ada.post(t, "/ui/webhooks", change)
	wants(t, r, page, http.StatusSeeOther)
	r, page = ada.get(t, "/ui/webhooks")
	wants(t, r, page, http.StatusOK, "disabled", "all that happens")
	r, page = ada.post(t, "/ui/webhooks", url.Values{"webhook": {id}, "do": {"secret"}, "reason": {"leaked"}})
	wants(t, r, page, http.StatusOK, "whsec_")
	if strings.Contains(page, secret) {
		t.Error("the old secret is shown")
	}
	for name, b := range map[string]*browser{"of another team": h.signedIn(t, "eve", rulestore.Admin, "mail"), "that may publish": h.signedIn(t, "ann", rulestore.Publish, "shop")} {
		for path, f := range map[string]url.Values{"/ui/webhooks": change, "/ui/webhooks/ping": {"webhook": {id}}} {
			f.Del("csrf")
			if r, page := b.post(t, path, f); r.StatusCode != http.StatusForbidden {
				t.Errorf("%s %s: %s\n%s", path, name, r.Status, page)
			}
		}
		if _, page := b.get(t, "/ui/webhooks"); strings.Contains(page, "hooks.example") {
			t.Error(name, "sees it")
		}
	}
	ada.get(t, "/ui/webhooks")
	r, page = ada.post(t, "/ui/webhooks", url.Values{"webhook": {id}, "do": {"remove"}, "reason": {"over"}})
	wants(t, r, page, http.StatusSeeOther)
	r, page = ada.get(t, "/ui/webhooks")
	wants(t, r, page, http.StatusOK, "There is no webhook yet")
}
