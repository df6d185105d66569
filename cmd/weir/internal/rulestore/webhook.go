package rulestore

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Webhook is a URL that is told what happens. The API gives it as it is.
type Webhook struct {
	ID    string   `json:"id"`
	Team  string   `json:"team"`            // it is told of the team's domains and rules; AllTeams: of all
	URL   string   `json:"url"`             // lists have its host only: as with Slack, it may be a secret
	Form  Form     `json:"form"`            // of what it is sent
	Kinds []string `json:"kinds,omitempty"` // of messages that it is sent, some of MessageKinds; empty: all
	// Disabled is whether nothing is sent. Events meanwhile are not sent later.
	Disabled bool      `json:"disabled"`
	Made     time.Time `json:"made"`
	Author   string    `json:"author"`
	// Secret is there when it was just made, and never again.
	Secret string `json:"secret,omitempty"`
	// Failed is how often the next message could not be delivered, and Error why the last time. NextTry is when it is tried
	// again. GivenUp is how many messages were never delivered.
	Failed  int64     `json:"failed"`
	Error   string    `json:"error,omitempty"`
	NextTry time.Time `json:"next_try,omitzero"`
	GivenUp int64     `json:"given_up"`

	url         string // whole
	secret, old string // old signs, too, until oldUntil
	oldUntil    time.Time
	audited     int64 // the last line of the audit that it was told of, or that is not for it
	noticed     int64 // the last notice, likewise
}

// Form is how a message is written.
type Form string

// The forms.
const (
	JSON  Form = "json"  // as docs/webhooks.md has it
	Slack Form = "slack" // as Slack's incoming webhooks take it, and what is like them
)

// MaxWebhooks is how many webhooks there may be.
const MaxWebhooks = 100

const (
	maxWebhookURL = 2000 // bytes
	// oldSecret is how long the secret before a new one goes on to sign.
	oldSecret = 24 * time.Hour
	// keptDeliveries is how many deliveries of a webhook are kept.
	keptDeliveries = 20
)

// The kinds of messages.
const (
	TellPublish  = "publish"  // a version came into force, or a rule was disabled or taken away
	TellOverride = "override" // limits were opened or tightened, or that was ended
	TellGuard    = "guard"    // the guard refused a version
	TellReview   = "review"   // something waits for a second person
	TellComment  = "comment"
	TellToken    = "token" // a token ends soon
	TellLimit    = "limit" // a limit is used to 80 %, or denies
)

// MessageKinds is all kinds of messages that a webhook can be told to send.
func MessageKinds() []string {
	return []string{TellPublish, TellOverride, TellGuard, TellReview, TellComment, TellToken, TellLimit}
}

// SetWebhook makes a webhook, or with an ID changes what it is: without a URL that stays, and its team and secret do in any case. It takes the
// role Admin for its team, and for AllTeams that of all teams. A webhook that was just made has its Secret.
func (s *Store) SetWebhook(ctx context.Context, by Actor, w Webhook, reason string) (Webhook, error) {
	fresh := w.ID == ""
	if fresh {
		w.ID = strings.ToLower(rand.Text()[:10])
	}
	err := s.changeWebhook(ctx, by, "webhook.set", w, fresh, reason, func(t *tx, old Webhook) error {
		if !fresh {
			w.Team = old.Team
			if w.URL == "" {
				w.URL = old.url
			}
		}
		if err := t.mayTell(ctx, w.Team); err != nil {
			return err
		}
		if err := w.check(); err != nil {
			return err
		}
		kinds := strings.Join(w.Kinds, " ")
		if fresh {
			return t.addWebhook(ctx, &w, kinds)
		}
		// One that was disabled begins with what happens from now on.
		return t.exec(ctx, `UPDATE webhooks SET url = $2, form = $3, kinds = $4, disabled = $5, failed = 0, next_try = 0, error = '',
			audited = CASE WHEN disabled = 1 THEN (SELECT c.audited FROM counters c) ELSE audited END,
			noticed = CASE WHEN disabled = 1 THEN (SELECT c.noticed FROM counters c) ELSE noticed END WHERE id = $1`,
			w.ID, w.URL, string(w.Form), kinds, number(w.Disabled))
	})
	if err != nil {
		return Webhook{}, err
	}
	now, err := s.WebhookToTell(ctx, w.ID)
	if fresh {
		now.Secret = w.Secret
	}
	return now, err
}

// changeWebhook makes a change of a webhook, which do is given as it is, if it is not fresh. It fails as NotFound.
func (s *Store) changeWebhook(ctx context.Context, by Actor, action string, w Webhook, fresh bool, reason string, do func(t *tx, old Webhook) error) error {
	said := w.ID
	if w.URL != "" {
		said += " at " + hostOf(w.URL)
	}
	if !fresh { // whose it is never changes, and a refusal says it, too
		old, err := s.WebhookToTell(ctx, w.ID)
		if err != nil && !IsKind(err, NotFound) {
			return err
		}
		w.Team = old.Team
	}
	a := attempt{action: action, team: w.Team, reason: said + ": " + reason, people: true}
	return s.change(ctx, by, a, func(t *tx) error {
		if err := checkReason(reason, true); err != nil {
			return err
		}
		if fresh {
			return do(t, Webhook{})
		}
		old, err := findWebhook(ctx, t, w.ID)
		if err != nil {
			return err
		}
		return do(t, old)
	})
}

// mayTell is whether the actor may have a webhook tell of a team's domains.
func (t *tx) mayTell(ctx context.Context, team string) error {
	if team == AllTeams {
		return t.by.need(Admin, "tell a webhook of all teams")
	}
	if err := t.team(ctx, team); err != nil {
		return err
	}
	return t.by.need(Admin, "tell a webhook", team)
}

func (w *Webhook) check() error {
	u, err := url.Parse(w.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || strings.ContainsFunc(w.URL, func(r rune) bool { return r <= ' ' || r > '~' }):
		return invalid("url", "is no URL of a receiver; write https://HOST/PATH")
	case u.User != nil:
		return invalid("url", "has a user; each message is signed in place of that: leave it out")
	case u.Fragment != "":
		return invalid("url", "has a #, behind which nothing is sent; leave it out")
	case len(w.URL) > maxWebhookURL:
		return invalid("url", "has %d bytes; it may have %d", len(w.URL), maxWebhookURL)
	case w.Form != JSON && w.Form != Slack:
		return invalid("form", "%q is no form; write json or slack", clip(string(w.Form)))
	}
	for i, kind := range w.Kinds {
		if !slices.Contains(MessageKinds(), kind) || slices.Contains(w.Kinds[:i], kind) {
			return invalid("kinds", "%q is no kind, or stands twice; write some of %s, or none for all", clip(kind), strings.Join(MessageKinds(), ", "))
		}
	}
	return nil
}

func (t *tx) addWebhook(ctx context.Context, w *Webhook, kinds string) error {
	n, err := count(ctx, t, "webhooks", "")
	if err != nil {
		return err
	}
	if n >= MaxWebhooks {
		return &Error{Kind: Quota, Text: fmt.Sprintf("there are %d webhooks, and may not be more; remove unused ones", n)}
	}
	w.Secret = newSecret()
	return t.exec(ctx, `INSERT INTO webhooks (id, team, url, form, kinds, disabled, made, author, secret, audited, noticed)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, (SELECT c.audited FROM counters c), (SELECT c.noticed FROM counters c))`,
		w.ID, w.Team, w.URL, string(w.Form), kinds, number(w.Disabled), t.at, t.by.Name, w.Secret)
}

// newSecret is a key for signing, as Standard Webhooks write it.
func newSecret() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // it never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key[:])
}

const secretPrefix = "whsec_"

// RenewWebhook gives a webhook a new secret, which it has as Secret. The one before signs beside it for a day. It takes the role
// Admin for its team.
func (s *Store) RenewWebhook(ctx context.Context, by Actor, id, reason string) (Webhook, error) {
	secret := newSecret()
	err := s.changeWebhook(ctx, by, "webhook.renew", Webhook{ID: id}, false, reason, func(t *tx, old Webhook) error {
		if err := t.mayTell(ctx, old.Team); err != nil {
			return err
		}
		return t.exec(ctx, `UPDATE webhooks SET old_secret = secret, old_until = $2, secret = $3 WHERE id = $1`, id, t.at+oldSecret.Microseconds(), secret)
	})
	if err != nil {
		return Webhook{}, err
	}
	now, err := s.WebhookToTell(ctx, id)
	now.Secret = secret
	return now, err
}

// RetryWebhook has what a webhook failed to be told be sent at once, and not when it is due. It takes the role Admin for its team.
func (s *Store) RetryWebhook(ctx context.Context, by Actor, id, reason string) (Webhook, error) {
	err := s.changeWebhook(ctx, by, "webhook.retry", Webhook{ID: id}, false, reason, func(t *tx, old Webhook) error {
		if err := t.mayTell(ctx, old.Team); err != nil {
			return err
		}
		switch {
		case old.Disabled:
			return &Error{Kind: Stale, Text: "the webhook is disabled, and nothing is sent; switch it on first"}
		case old.Failed == 0:
			return &Error{Kind: Stale, Text: "nothing waits to be tried again: the last message was delivered"}
		}
		return t.exec(ctx, `UPDATE webhooks SET next_try = 0 WHERE id = $1`, id)
	})
	if err != nil {
		return Webhook{}, err
	}
	return s.WebhookToTell(ctx, id)
}

// RemoveWebhook ends a webhook. Messages that wait are not delivered any more. It takes the role Admin for its team.
func (s *Store) RemoveWebhook(ctx context.Context, by Actor, id, reason string) error {
	return s.changeWebhook(ctx, by, "webhook.remove", Webhook{ID: id}, false, reason, func(t *tx, old Webhook) error {
		if err := t.mayTell(ctx, old.Team); err != nil {
			return err
		}
		if err := t.exec(ctx, `DELETE FROM deliveries WHERE webhook = $1`, id); err != nil {
			return err
		}
		return t.exec(ctx, `DELETE FROM webhooks WHERE id = $1`, id)
	})
}

const webhookColumns = `id, team, url, form, kinds, disabled, made, author, failed, error, next_try, given_up, secret, old_secret, old_until, audited, noticed`

func scanWebhook(found row) (w Webhook, err error) {
	var kinds string
	var made, next, until int64
	err = found.Scan(&w.ID, &w.Team, &w.url, &w.Form, &kinds, &w.Disabled, &made, &w.Author, &w.Failed, &w.Error, &next, &w.GivenUp, &w.secret, &w.old, &until, &w.audited, &w.noticed)
	w.URL, w.Kinds, w.Made, w.oldUntil = hostOf(w.url), strings.Fields(kinds), moment(made), moment(until)
	if next > 0 {
		w.NextTry = moment(next)
	}
	return w, err
}

// hostOf is what may be shown of a URL.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "a URL that can't be read"
	}
	if strings.Trim(u.Path, "/") == "" && u.RawQuery == "" {
		return u.Scheme + "://" + u.Host
	}
	return u.Scheme + "://" + u.Host + "/…"
}

func findWebhook(ctx context.Context, q queryer, id string) (Webhook, error) {
	w, err := scanWebhook(q.QueryRowContext(ctx, `SELECT `+webhookColumns+` FROM webhooks WHERE id = $1`, printable(id, MaxName)))
	if isNone(err) {
		return w, notFound("there is no webhook %s", clip(id))
	}
	return w, err
}

// WebhookToTell is one webhook, likewise.
func (s *Store) WebhookToTell(ctx context.Context, id string) (Webhook, error) {
	w, err := findWebhook(ctx, s.read, id)
	return w, s.failed(err)
}

// Webhook is one webhook. It takes the role Admin for its team, and fails as NotFound.
func (s *Store) Webhook(ctx context.Context, by Actor, id string) (Webhook, error) {
	w, err := s.WebhookToTell(ctx, id)
	if err == nil {
		err = by.maySee(&w)
	}
	if err != nil {
		return Webhook{}, err
	}
	return w, nil
}

func (a *Actor) maySee(w *Webhook) error {
	if w.Team == AllTeams {
		return a.need(Admin, "see a webhook of all teams")
	}
	return a.need(Admin, "see a webhook", w.Team)
}

// Webhooks lists the webhooks that an actor may see, by team and age. It takes the role Admin.
func (s *Store) Webhooks(ctx context.Context, by Actor) (list []Webhook, err error) {
	if by.Role < Admin {
		return nil, forbidden("to list webhooks takes the role %s; %s has %s", Admin, by.Name, by.Role)
	}
	list, err = s.WebhooksToTell(ctx)
	return slices.DeleteFunc(list, func(w Webhook) bool { return by.maySee(&w) != nil }), err
}

// WebhooksToTell is all webhooks, for who sends.
func (s *Store) WebhooksToTell(ctx context.Context) (list []Webhook, err error) {
	list, err = find(ctx, s.read, scanWebhook, `SELECT `+webhookColumns+` FROM webhooks ORDER BY team, made, id`)
	return list, s.failed(err)
}

// Delivery is a try to deliver a message. The API gives it as it is.
type Delivery struct {
	Message string    `json:"message"` // its id, which is the same at each try
	Kind    string    `json:"kind"`
	At      time.Time `json:"at"`
	Status  int       `json:"status,omitempty"` // of the answer; 0: there was none
	Error   string    `json:"error,omitempty"`  // empty: it was delivered
	Tries   int64     `json:"tries"`            // of the message, with this one
	Millis  int64     `json:"milliseconds"`     // that it took
}

// Deliveries is the last tries of a webhook, the newest first. It takes the role Admin for its team.
func (s *Store) Deliveries(ctx context.Context, by Actor, id string) (list []Delivery, err error) {
	if _, err := s.Webhook(ctx, by, id); err != nil {
		return nil, err
	}
	list, err = find(ctx, s.read, func(found row) (d Delivery, err error) {
		var at int64
		err = found.Scan(&d.Message, &d.Kind, &at, &d.Status, &d.Error, &d.Tries, &d.Millis)
		d.At = moment(at)
		return d, err
	}, `SELECT message, kind, at, status, error, tries, millis FROM deliveries WHERE webhook = $1 ORDER BY at DESC`, printable(id, MaxName))
	return list, s.failed(err)
}
