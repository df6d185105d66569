package ruleapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

func listTeams(c *call) (answer, error) {
	found, err := c.store.Teams(c.r.Context(), c.query["after"], c.limit)
	return answer{body: paged(c, "teams", found, func(t *rulestore.Team) string { return t.Name })}, err
}

// newQuota is how many rules a team may have.
type newQuota struct {
	Quota  *int64
	Reason string
}

func setQuota(c *call, in newQuota) (answer, error) {
	if in.Quota == nil {
		return answer{}, badRequest("quota", "is missing; write how many rules the team may have")
	}
	team := c.r.PathValue("team")
	err := c.store.SetQuota(c.r.Context(), c.by, team, *in.Quota, in.Reason)
	return answer{body: map[string]any{"name": team, "quota": *in.Quota}}, err
}

func listTokens(c *call) (answer, error) {
	found, next, err := c.store.Tokens(c.r.Context(), c.by, c.query["after"], c.limit)
	return answer{body: page("tokens", found, next)}, err
}

// NewToken is a token to be made.
type NewToken struct {
	Actor   string   `json:"actor"`
	Role    string   `json:"role"`
	Teams   []string `json:"teams"`
	Seconds int64    `json:"seconds"` // that it lives; 0: until it is revoked
	Reason  string   `json:"reason"`

	Certificate string `json:"certificate,omitempty"` // the URI in the one that stands for it; empty: it gets a text
}

// longestToken is how long a token may live, in seconds: ten years.
const longestToken = 10 * 366 * 24 * 60 * 60

func createToken(c *call, in NewToken) (answer, error) {
	if in.Seconds < 0 || in.Seconds > longestToken {
		return answer{}, badRequest("seconds", "how long the token lives, must be 0…"+strconv.Itoa(longestToken))
	}
	k, err := in.Make(c.r.Context(), c.store, c.by)
	return answer{status: http.StatusCreated, body: k, location: "/v1/tokens/" + k.ID}, err
}

// Make makes the token in a database.
func (n *NewToken) Make(ctx context.Context, s *rulestore.Store, by rulestore.Actor) (rulestore.Token, error) {
	role, err := rulestore.ParseRole(n.Role)
	if err != nil {
		return rulestore.Token{}, err
	}
	k := rulestore.Token{Actor: n.Actor, Role: role, Teams: n.Teams, Certificate: n.Certificate}
	if n.Seconds > 0 {
		k.Expires = time.Now().Add(time.Duration(n.Seconds) * time.Second)
	}
	k, k.Text, err = s.CreateToken(ctx, by, k, n.Reason)
	return k, err
}

func revokeToken(c *call) (answer, error) {
	err := c.store.RevokeToken(c.r.Context(), c.by, c.r.PathValue("token"), c.query["reason"])
	return answer{body: map[string]bool{"revoked": true}}, err
}

// audit lists what was done and refused, the oldest first behind after, or the
// newest first under before. format=jsonl is for programs that keep it elsewhere.
func audit(c *call) (answer, error) {
	var err error
	a := rulestore.Audited{
		Domain: c.query["domain"], Rule: c.query["rule"], Changes: c.query["changes"] == "true", Limit: c.limit,
	}
	if a.Behind, err = c.number("after"); err != nil {
		return answer{}, err
	}
	if a.Before, err = c.number("before"); err != nil {
		return answer{}, err
	}
	events, err := c.store.Audit(c.r.Context(), a)
	if err != nil {
		return answer{}, err
	}
	scope, err := c.store.Scope(c.r.Context(), c.by)
	if err == nil {
		rulestore.Withhold(events, func(domain, rule string) bool { // a domain of files has no team
			return scope.All || !c.options.InFiles(domain) && scope.Reads(domain, rule)
		})
	}
	if err != nil || c.query["format"] != "jsonl" {
		next := func(e *rulestore.Event) string { return strconv.FormatInt(e.Seq, 10) }
		return answer{body: paged(c, "events", events, next)}, err
	}
	var lines bytes.Buffer
	encode := json.NewEncoder(&lines)
	for _, e := range events {
		if err := encode.Encode(e); err != nil {
			return answer{}, err
		}
	}
	return answer{text: lines.String(), kind: "application/x-ndjson"}, nil
}
