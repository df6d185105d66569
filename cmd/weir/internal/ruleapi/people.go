package ruleapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// teamJSON is a team.
type teamJSON struct {
	Name  string `json:"name"`
	Quota int64  `json:"quota"` // rules it may have
	Rules int64  `json:"rules"` // it has
}

func listTeams(c *call) (answer, error) {
	most, err := c.limit()
	if err != nil {
		return answer{}, err
	}
	found, err := c.store.Teams(c.r.Context(), c.query["after"], most)
	if err != nil {
		return answer{}, err
	}
	var list []teamJSON
	for _, t := range found {
		list = append(list, teamJSON{t.Name, t.Quota, t.Rules})
	}
	next := ""
	if n := len(found); n > 0 && (n == most || n == rulestore.MaxPage) {
		next = found[n-1].Name
	}
	return answer{body: page("teams", list, next)}, nil
}

func setQuota(c *call) (answer, error) {
	var in struct {
		Quota  *int64
		Reason string
	}
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	if in.Quota == nil {
		return answer{}, badRequest("quota", "is missing; write how many rules the team may have")
	}
	team := c.r.PathValue("team")
	if err := c.store.SetQuota(c.r.Context(), c.by, team, *in.Quota, in.Reason); err != nil {
		return answer{}, err
	}
	return answer{body: map[string]any{"name": team, "quota": *in.Quota}}, nil
}

// Token is a token; its text is there when it was just made, and never again.
type Token struct {
	ID      string     `json:"id"`
	Actor   string     `json:"actor"`
	Role    string     `json:"role"`
	Teams   []string   `json:"teams"`
	Made    time.Time  `json:"made"`
	Expires *time.Time `json:"expires,omitempty"`
	Revoked *time.Time `json:"revoked,omitempty"`
	Author  string     `json:"author"`
	Token   string     `json:"token,omitempty"`

	Certificate string `json:"certificate,omitempty"` // the URI in the one that stands for it
}

// TokenOf is a token of the database.
func TokenOf(k rulestore.Token) Token {
	out := Token{ID: k.ID, Actor: k.Actor, Role: k.Role.String(), Teams: k.Teams, Made: k.Made, Author: k.Author, Certificate: k.Certificate}
	if !k.Expires.IsZero() {
		out.Expires = &k.Expires
	}
	if !k.Revoked.IsZero() {
		out.Revoked = &k.Revoked
	}
	return out
}

func listTokens(c *call) (answer, error) {
	most, err := c.limit()
	if err != nil {
		return answer{}, err
	}
	found, next, err := c.store.Tokens(c.r.Context(), c.by, c.query["after"], most)
	if err != nil {
		return answer{}, err
	}
	var list []Token
	for _, k := range found {
		list = append(list, TokenOf(k))
	}
	return answer{body: page("tokens", list, next)}, nil
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

func createToken(c *call) (answer, error) {
	var in NewToken
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	role, err := rulestore.ParseRole(in.Role)
	if err != nil {
		return answer{}, err
	}
	k := rulestore.Token{Actor: in.Actor, Role: role, Teams: in.Teams, Certificate: in.Certificate}
	if in.Seconds < 0 || in.Seconds > longestToken {
		return answer{}, badRequest("seconds", "how long the token lives, must be 0…"+strconv.Itoa(longestToken))
	}
	if in.Seconds > 0 {
		k.Expires = time.Now().Add(time.Duration(in.Seconds) * time.Second)
	}
	k, text, err := c.store.CreateToken(c.r.Context(), c.by, k, in.Reason)
	if err != nil {
		return answer{}, err
	}
	out := TokenOf(k)
	out.Token = text
	return answer{status: http.StatusCreated, body: out, location: "/v1/tokens/" + k.ID}, nil
}

func revokeToken(c *call) (answer, error) {
	if err := c.store.RevokeToken(c.r.Context(), c.by, c.r.PathValue("token"), c.query["reason"]); err != nil {
		return answer{}, err
	}
	return answer{body: map[string]bool{"revoked": true}}, nil
}

// Event is a line of the audit.
type Event struct {
	Seq      int64     `json:"seq"`
	Revision int64     `json:"revision,omitempty"`
	At       time.Time `json:"at"`
	Actor    string    `json:"actor"`
	Token    string    `json:"token,omitempty"`
	Team     string    `json:"team,omitempty"`
	Action   string    `json:"action"`
	Domain   string    `json:"domain,omitempty"`
	Rule     string    `json:"rule,omitempty"`
	Version  int64     `json:"version,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Refused  string    `json:"refused,omitempty"`
}

func eventsOf(list []rulestore.Event) []Event {
	out := []Event{}
	for _, e := range list {
		out = append(out, Event{e.Seq, e.Revision, e.At, e.Actor, e.Token, e.Team, e.Action, e.Domain, e.Rule, e.Version, e.Reason, e.Refused})
	}
	return out
}

// audit lists what was done and refused, the oldest first behind after, or the
// newest first under before. format=jsonl is for programs that keep it elsewhere.
func audit(c *call) (answer, error) {
	var err error
	a := rulestore.Audited{Domain: c.query["domain"], Rule: c.query["rule"], Changes: c.query["changes"] == "true"}
	if a.Limit, err = c.limit(); err != nil {
		return answer{}, err
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
	list := eventsOf(events)
	next := ""
	if n := len(events); n > 0 && (n == a.Limit || n == rulestore.MaxPage) {
		next = strconv.FormatInt(events[n-1].Seq, 10)
	}
	if c.query["format"] != "jsonl" {
		return answer{body: page("events", list, next)}, nil
	}
	var lines bytes.Buffer
	encode := json.NewEncoder(&lines)
	for _, e := range list {
		if err := encode.Encode(e); err != nil {
			return answer{}, err
		}
	}
	return answer{text: lines.String(), kind: "application/x-ndjson"}, nil
}
