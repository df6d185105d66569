package webui

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// tokensPage is what tokens.html shows.
type tokensPage struct {
	Rows []tokenRow
	Next string
	Form tokenForm
	// Made is the text of a token that was just made, which nobody can read again.
	Made    string
	MadeFor string
	End     stepForm // that revokes one, as it was sent
	EndID   string
}

type tokenRow struct {
	rulestore.Token

	State string // valid, ends soon, expired or revoked
	Mine  bool   // this session shows it
}

// tokenForm is the form that makes a token, as it was sent.
type tokenForm struct {
	Actor, Role, Teams string
	Days               int64 // that it lives; 0: until it is revoked
	Reason             string
	Faults             map[string]string
}

// tokens lists those that the actor may revoke.
func (p *Pages) tokens(v *visit) error {
	form := tokenForm{Role: "propose", Days: 90, Teams: v.ownTeam()}
	return v.showTokens(http.StatusOK, tokensPage{Form: form})
}

func (v *visit) showTokens(status int, page tokensPage) error {
	list, next, err := v.store.Tokens(v.r.Context(), v.actor, v.query("behind"), pageSize)
	if err != nil {
		return err
	}
	for _, k := range list {
		page.Rows = append(page.Rows, tokenRow{k, stateOf(&k, time.Now()), k.ID == v.actor.Token})
	}
	if next != "" {
		page.Next = Home + "tokens?" + url.Values{"behind": {next}}.Encode()
	}
	return v.show(status, "tokens", "Tokens", page)
}

func stateOf(k *rulestore.Token, now time.Time) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return "expired"
	}
	if k.EndsSoon(now) {
		return "ends soon"
	}
	return "valid"
}

// Valid is whether the token lets somebody in.
func (r *tokenRow) Valid() bool { return r.State == "valid" || r.State == "ends soon" }

// makeToken makes a token, and shows it in its answer: nothing keeps it.
func (p *Pages) makeToken(v *visit) error {
	form := v.r.PostFormValue
	f := tokenForm{Actor: strings.TrimSpace(form("actor")), Role: form("role"), Teams: form("teams"), Reason: form("reason")}
	var err error
	if f.Days, err = strconv.ParseInt(form("days"), 10, 64); err != nil {
		f.Days = -1 // which no token lives; 0 would be for ever
	}
	k, text, err := v.createToken(&f)
	if err == nil {
		return v.showTokens(http.StatusCreated, tokensPage{Form: tokenForm{Role: f.Role, Days: f.Days, Teams: f.Teams}, Made: text, MadeFor: k.Actor})
	}
	if f.Faults = faultsOf(err); f.Faults == nil || kindOf(err) == rulestore.Forbidden && v.actor.Role < rulestore.Admin {
		return err
	}
	return v.showTokens(statusOf(err), tokensPage{Form: f})
}

func (v *visit) createToken(f *tokenForm) (rulestore.Token, string, error) {
	role, err := rulestore.ParseRole(f.Role)
	if err != nil {
		return rulestore.Token{}, "", err
	}
	k := rulestore.Token{Actor: f.Actor, Role: role, Teams: strings.FieldsFunc(f.Teams, func(r rune) bool { return r == ' ' || r == ',' })}
	const longest = 10 * 366
	if f.Days < 0 || f.Days > longest {
		return rulestore.Token{}, "", &rulestore.Error{Kind: rulestore.Invalid, Field: "expires", Text: "can't be read; choose one of the list"}
	}
	if f.Days > 0 {
		k.Expires = time.Now().Add(time.Duration(f.Days) * 24 * time.Hour)
	}
	return v.store.CreateToken(v.r.Context(), v.actor, k, f.Reason)
}

// revokeToken ends a token.
func (p *Pages) revokeToken(v *visit) error {
	id, sent := v.r.PostFormValue("token"), stepForm{Reason: v.r.PostFormValue("reason")}
	err := v.store.RevokeToken(v.r.Context(), v.actor, id, sent.Reason)
	if err == nil {
		return v.see(Home+"tokens", "The token "+id+" is revoked. Its sessions have ended.")
	}
	if sent.Faults = faultsOf(err); sent.Faults == nil || v.actor.Role < rulestore.Admin {
		return err
	}
	return v.showTokens(statusOf(err), tokensPage{Form: tokenForm{Role: "propose", Days: 90}, End: sent, EndID: id})
}

// teamsPage is what teams.html shows.
type teamsPage struct {
	Rows []rulestore.Team
	Next string
	May  bool // change quotas
	Form quotaForm
	Most int64
}

// quotaForm is the form that says how many rules a team may have, as it was sent.
type quotaForm struct {
	Team, Quota, Reason string
	Faults              map[string]string
}

// teams lists teams, with how many rules they have and may have.
func (p *Pages) teams(v *visit) error { return v.showTeams(http.StatusOK, quotaForm{}) }

func (v *visit) showTeams(status int, sent quotaForm) error {
	list, err := v.store.Teams(v.r.Context(), v.query("behind"), pageSize+1)
	if err != nil {
		return err
	}
	page := teamsPage{Form: sent, May: v.may(rulestore.Admin), Most: rulestore.MaxQuota}
	if len(list) > pageSize {
		list = list[:pageSize]
		page.Next = Home + "teams?" + url.Values{"behind": {list[pageSize-1].Name}}.Encode()
	}
	page.Rows = list
	return v.show(status, "teams", "Teams", page)
}

// setQuota takes the form of a team.
func (p *Pages) setQuota(v *visit) error {
	form := v.r.PostFormValue
	sent := quotaForm{Team: form("team"), Quota: strings.TrimSpace(form("quota")), Reason: form("reason")}
	quota, err := strconv.ParseInt(sent.Quota, 10, 64)
	if err != nil {
		sent.Faults = map[string]string{"quota": fmt.Sprintf("Write a whole number from 0 to %d.", rulestore.MaxQuota)}
		return v.showTeams(http.StatusBadRequest, sent)
	}
	err = v.store.SetQuota(v.r.Context(), v.actor, sent.Team, quota, sent.Reason)
	if err == nil {
		return v.see(Home+"teams", fmt.Sprintf("Team %s may have %d rules.", sent.Team, quota))
	}
	if sent.Faults = faultsOf(err); sent.Faults == nil || !v.may(rulestore.Admin) {
		return err
	}
	return v.showTeams(statusOf(err), sent)
}
