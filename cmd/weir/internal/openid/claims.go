package openid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// maxClaim is how many bytes a subject, an email address or a username may have. A subject that is longer is refused, as the standard has it; an
// address or name is left out.
const maxClaim = 255

// Person is somebody as the provider knows them.
type Person struct {
	Issuer, Subject string   // together they name a person for ever
	Email           string   // which the provider has verified; empty: it has none
	Username        string   // which people may be able to choose; empty: there is none
	Groups          []string // the same group may stand there twice
	Token           string   // that says so, for Provider.End
}

// claims are what the provider says of somebody, not read yet.
type claims map[string]json.RawMessage

// read reads who the provider says somebody is. The userinfo endpoint may tell claims that the token lacks: some providers keep tokens short.
func (p *Provider) read(ctx context.Context, f *found, id *oidc.IDToken, token *oauth2.Token) (Person, error) {
	var said claims
	if err := id.Claims(&said); err != nil {
		return Person{}, untrusted(err)
	}
	if by, ok := said.text("azp"); len(id.Audience) > 1 && !ok || ok && by != p.options.ClientID {
		return Person{}, untrusted(fmt.Errorf("it is for another client, %q", by))
	}
	if id.Subject == "" || len(id.Subject) > maxClaim {
		return Person{}, untrusted(fmt.Errorf("its subject has %d bytes, of 1…%d", len(id.Subject), maxClaim))
	}
	if _, elsewhere := said["_claim_names"]; elsewhere {
		return Person{}, &Error{false, "the provider leaves groups out of its answer, as Entra ID does for people in many groups; have it send the groups of this application only", nil}
	}
	if _, there := said[p.options.GroupsClaim]; !there && Safe(f.UserInfoEndpoint()) {
		info, err := f.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err != nil {
			return Person{}, &Error{true, "the provider " + p.Name() + " does not tell of the person", err}
		}
		var more claims
		if err := info.Claims(&more); err != nil || info.Subject != id.Subject {
			return Person{}, untrusted(errors.Join(err, errors.New("its userinfo is of somebody else")))
		}
		maps.DeleteFunc(more, func(name string, _ json.RawMessage) bool { return said[name] != nil })
		maps.Copy(said, more)
	}
	groups, err := said.groups(p.options.GroupsClaim)
	if err != nil {
		return Person{}, err
	}
	one := Person{Issuer: p.options.Issuer, Subject: id.Subject, Groups: groups}
	one.Token, _ = token.Extra("id_token").(string)
	one.Username, _ = said.text("preferred_username")
	if verified := string(said["email_verified"]); verified == "true" || verified == `"true"` {
		one.Email, _ = said.text("email")
	}
	return one, nil
}

// text is a claim that is a text, and is not too long.
func (c claims) text(name string) (text string, ok bool) {
	if json.Unmarshal(c[name], &text) != nil || text == "" || len(text) > maxClaim {
		return "", false
	}
	return text, true
}

// groups reads the claim that has a person's groups: a list of texts, or one text. Nothing is guessed of another type: a group that is read wrongly gives
// somebody else's rights.
func (c claims) groups(name string) (groups []string, err error) {
	raw, there := c[name]
	if !there || string(raw) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	if err := json.Unmarshal(raw, &groups); err != nil {
		return nil, &Error{false, "the claim " + name + " of the provider's answer is no list of groups; see --oidc-groups-claim", err}
	}
	return slices.DeleteFunc(groups, func(g string) bool { return g == "" }), nil
}
