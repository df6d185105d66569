package webui

import (
	"net/http"
	"slices"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// webhooksPage is what webhooks.html shows.
type webhooksPage struct {
	Rows  []webhookRow
	Form  webhookForm
	Kinds []string
	// Made is a secret that was just made, which nobody can read again, and MadeFor its webhook.
	Made, MadeFor string
	Sent          webhookForm // that does something with one, as it was sent
}

type webhookRow struct {
	rulestore.Webhook

	Deliveries []rulestore.Delivery
	Sent       webhookForm
}

// webhookForm is the form of a webhook, as it was sent.
type webhookForm struct {
	ID, Do          string // what to do with it: change, secret, retry, remove; empty: it is a new one
	Team, URL, Form string
	Kinds           []string
	Disabled        bool
	Reason          string
	Faults          map[string]string
}

// Wants is whether the webhook is sent messages of a kind.
func (f webhookForm) Wants(kind string) bool {
	return len(f.Kinds) == 0 || slices.Contains(f.Kinds, kind)
}

// webhooks lists those that the visitor may change.
func (p *Pages) webhooks(v *visit) error {
	return v.showWebhooks(http.StatusOK, webhooksPage{Form: webhookForm{Team: v.ownTeam(), Form: string(rulestore.JSON)}})
}

func (v *visit) showWebhooks(status int, page webhooksPage) error {
	list, err := v.store.Webhooks(v.r.Context(), v.actor)
	if err != nil {
		return err
	}
	for i := range list {
		w := &list[i]
		row := webhookRow{Webhook: *w, Sent: webhookForm{ID: w.ID, Form: string(w.Form), Kinds: w.Kinds, Disabled: w.Disabled}}
		if page.Sent.ID == w.ID {
			row.Sent = page.Sent
		}
		if row.Deliveries, err = v.store.Deliveries(v.r.Context(), v.actor, w.ID); err != nil {
			return err
		}
		page.Rows = append(page.Rows, row)
	}
	page.Kinds = rulestore.MessageKinds()
	return v.show(status, "webhooks", "Webhooks", page)
}

// setWebhook makes a webhook, or changes, renews, retries or removes one.
func (p *Pages) setWebhook(v *visit) error {
	form, ctx := v.r.PostFormValue, v.r.Context()
	sent := webhookForm{
		ID: form("webhook"), Do: form("do"), Team: strings.TrimSpace(form("team")), URL: strings.TrimSpace(form("url")), Form: form("form"), Kinds: v.r.PostForm["kind"],
		Disabled: form("disabled") == "yes", Reason: form("reason"),
	}
	kinds := sent.Kinds
	if len(kinds) == len(rulestore.MessageKinds()) {
		kinds = nil // also those of a newer Weir
	}
	var w rulestore.Webhook
	var err error
	said := "The webhook is changed."
	switch {
	case sent.Do == "secret":
		w, err = v.store.RenewWebhook(ctx, v.actor, sent.ID, sent.Reason)
	case sent.Do == "remove":
		said, err = "The webhook is removed.", v.store.RemoveWebhook(ctx, v.actor, sent.ID, sent.Reason)
	case sent.Do == "retry":
		said = "What waits is sent now."
		_, err = v.store.RetryWebhook(ctx, v.actor, sent.ID, sent.Reason)
	case len(sent.Kinds) == 0:
		err = &rulestore.Error{Kind: rulestore.Invalid, Text: "choose what the webhook is told"}
	default:
		w, err = p.options.Changes.SetWebhook(ctx, v.store, v.actor, rulestore.Webhook{ID: sent.ID, Team: sent.Team, URL: sent.URL, Form: rulestore.Form(sent.Form), Kinds: kinds, Disabled: sent.Disabled}, sent.Reason)
	}
	switch {
	case err == nil && w.Secret != "":
		page := webhooksPage{Made: w.Secret, MadeFor: w.URL, Form: webhookForm{Team: v.ownTeam(), Form: string(rulestore.JSON)}}
		return v.showWebhooks(http.StatusOK, page)
	case err == nil:
		return v.see(Home+"webhooks", said)
	}
	if sent.Faults = faultsOf(err); sent.Faults == nil {
		return err
	}
	page := webhooksPage{Form: webhookForm{Team: v.ownTeam(), Form: string(rulestore.JSON)}}
	if sent.ID == "" {
		page.Form = sent
	} else {
		page.Sent = sent
	}
	return v.showWebhooks(statusOf(err), page)
}

// pingWebhook sends a test to a webhook, and says how it went.
func (p *Pages) pingWebhook(v *visit) error {
	w, err := v.store.Webhook(v.r.Context(), v.actor, v.r.PostFormValue("webhook"))
	if err != nil {
		return err
	}
	d, err := p.options.Ping(v.r.Context(), &w, v.actor)
	if err != nil {
		return err
	}
	if d.Error != "" {
		return v.see(Home+"webhooks", "The ping was not delivered: "+d.Error+".")
	}
	return v.see(Home+"webhooks", "The ping was delivered.")
}

// kindWords is what a kind of messages is about.
func kindWords(kind string) string {
	return map[string]string{
		rulestore.TellPublish: "What is published, rolled back, disabled or taken away", rulestore.TellOverride: "Limits that are opened or tightened, and the end of that",
		rulestore.TellGuard: "Versions that the guard refuses", rulestore.TellReview: "What waits for a second person", rulestore.TellComment: "Comments",
		rulestore.TellToken: "Tokens that end soon", rulestore.TellLimit: "Limits of which 80 % are used, or that deny",
	}[kind]
}

// forming is what the field for a webhook's form needs, and kinding what that for its kinds needs.
func forming(id string, sent webhookForm) map[string]any {
	return map[string]any{"ID": "-" + id, "Sent": sent}
}

func kinding(all []string, sent webhookForm) map[string]any {
	return map[string]any{"All": all, "Sent": sent}
}
