package ruleapi

import (
	"net/http"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// listWebhooks lists the webhooks that the caller may change.
func listWebhooks(c *call) (answer, error) {
	list, err := c.store.Webhooks(c.r.Context(), c.by)
	return answer{body: map[string][]rulestore.Webhook{"webhooks": append([]rulestore.Webhook{}, list...)}}, err
}

// webhookInput is what a webhook is to be.
type webhookInput struct {
	Team     string // of a new one
	URL      string // empty: that of before
	Form     string // empty: json
	Kinds    []string
	Disabled bool
	Reason   string
}

func (c *call) setWebhook(id string, in webhookInput) (rulestore.Webhook, error) {
	w := rulestore.Webhook{ID: id, Team: in.Team, URL: in.URL, Form: rulestore.Form(in.Form), Kinds: in.Kinds, Disabled: in.Disabled}
	if w.Form == "" {
		w.Form = rulestore.JSON
	}
	return c.options.Changes.SetWebhook(c.r.Context(), c.store, c.by, w, in.Reason)
}

func createWebhook(c *call, in webhookInput) (answer, error) {
	w, err := c.setWebhook("", in)
	return answer{status: http.StatusCreated, body: w, location: "/v1/webhooks/" + w.ID}, err
}

func changeWebhook(c *call, in webhookInput) (answer, error) {
	if in.Team != "" {
		return answer{}, badRequest("team", "a webhook stays its team's; leave it out, or make another one")
	}
	w, err := c.setWebhook(c.r.PathValue("webhook"), in)
	return answer{body: w}, err
}

// reasoned is a body that has only a reason.
type reasoned struct{ Reason string }

// renewWebhook gives a webhook another secret.
func renewWebhook(c *call, in reasoned) (answer, error) {
	w, err := c.store.RenewWebhook(c.r.Context(), c.by, c.r.PathValue("webhook"), in.Reason)
	return answer{body: w}, err
}

// retryWebhook has what waits be sent at once.
func retryWebhook(c *call, in reasoned) (answer, error) {
	w, err := c.store.RetryWebhook(c.r.Context(), c.by, c.r.PathValue("webhook"), in.Reason)
	return answer{body: w}, err
}

func removeWebhook(c *call) (answer, error) {
	err := c.store.RemoveWebhook(c.r.Context(), c.by, c.r.PathValue("webhook"), c.query["reason"])
	return answer{body: map[string]bool{"removed": true}}, err
}

// pingWebhook sends a test, and says how it went.
func pingWebhook(c *call) (answer, error) {
	w, err := c.store.Webhook(c.r.Context(), c.by, c.r.PathValue("webhook"))
	if err != nil {
		return answer{}, err
	}
	d, err := c.options.Ping(c.r.Context(), &w, c.by)
	return answer{body: d}, err
}

func listDeliveries(c *call) (answer, error) {
	list, err := c.store.Deliveries(c.r.Context(), c.by, c.r.PathValue("webhook"))
	return answer{body: map[string][]rulestore.Delivery{"deliveries": append([]rulestore.Delivery{}, list...)}}, err
}
