package webui

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/openid"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

const (
	// awayTime is how long somebody may take to sign in at the provider.
	awayTime = 10 * time.Minute
	// maxTo is how long the address of a page may be that a browser remembers meanwhile, in bytes. Behind a longer one comes the first page.
	maxTo = 1000
	// maxSeen is how many groups the page names that refuses somebody, and maxSeenName how many bytes of each.
	maxSeen     = 20
	maxSeenName = 100
	// maxWhy is how many bytes of an error about the provider, which may have an answer of it, the log has, and maxSaid how many bytes of what the provider says to
	// people.
	maxWhy  = 1000
	maxSaid = 300
)

// The pages of a sign-in at the provider: there, and back.
const (
	wayThere = Home + "sign-in/start"
	// WayBack is the path to which the provider sends browsers back.
	WayBack = Home + "sign-in/back"
)

// provider is what the page to sign in says of it.
type provider struct {
	Name  string // of the provider
	Start string // a URL
	// End is a URL where somebody signs out there who has signed out here; empty: nobody has, or there is none.
	End string
}

// provided is what to say of the provider on the way to a page; nil: there is none.
func (p *Pages) provided(to string) *provider {
	if p.options.Provider == nil {
		return nil
	}
	// At the host that the provider knows: a cookie of another would not come back.
	return &provider{Name: p.options.Provider.Name(), Start: p.options.External + wayThere + "?to=" + url.QueryEscape(to)}
}

// awayCookie is that of a browser which is at the provider. The provider sends it back from another site, so that it is Lax.
func (p *Pages) awayCookie(value string, life time.Duration) *http.Cookie {
	c := &http.Cookie{
		Name: "weir-away", Value: value, Path: Home + "sign-in/", HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: int(life / time.Second),
	}
	if p.options.Secure {
		c.Name, c.Path, c.Secure = "__Host-weir-away", "/", true
	}
	return c
}

// start sends a browser to the provider.
func (p *Pages) start(v *visit) error {
	if p.options.Provider == nil {
		return p.nowhere(v)
	}
	to, secret := within(v.query("to")), rand.Text()
	if len(to) > maxTo {
		to = Home
	}
	there, err := p.options.Provider.Start(v.r.Context(), secret)
	if err != nil {
		return p.unable(v, to, err)
	}
	http.SetCookie(v.w, p.awayCookie(secret+"."+base64.RawURLEncoding.EncodeToString([]byte(to)), awayTime))
	http.Redirect(v.w, v.r, there, http.StatusSeeOther)
	return nil
}

// back begins a session of somebody whom the provider sends back.
func (p *Pages) back(v *visit) error {
	if p.options.Provider == nil {
		return p.nowhere(v)
	}
	cookie, err := v.r.Cookie(p.awayCookie("", 0).Name)
	if err != nil {
		cookie = new(http.Cookie)
	}
	secret, kept, _ := strings.Cut(cookie.Value, ".")
	where, err := base64.RawURLEncoding.DecodeString(kept)
	to := within(string(where))
	http.SetCookie(v.w, p.awayCookie("", -time.Second)) // it is of one use
	if !openid.Ours(secret, v.query("state")) || err != nil {
		return v.show(http.StatusForbidden, "sign-in", "Sign in", signInForm{
			To: Home, Provider: p.provided(Home),
			Refused: "This sign-in was not begun in this browser, or another one was begun since, or it took longer than " + about(awayTime) + ". Begin again.",
		})
	}
	if bad := v.query("error"); bad != "" {
		why := clip(bad+": "+v.query("error_description"), maxSaid)
		return v.show(http.StatusForbidden, "sign-in", "Sign in", signInForm{To: to, Provider: p.provided(to), Refused: "The provider has not signed you in: " + strings.TrimSuffix(why, ": ")})
	}
	known, err := p.options.Provider.Finish(v.r.Context(), secret, v.query("code"))
	if err != nil {
		return p.unable(v, to, err)
	}
	return p.welcome(v, to, &known)
}

// unable says why somebody could not be signed in by the provider. Tokens work all the same.
func (p *Pages) unable(v *visit, to string, why error) error {
	bad, ok := errors.AsType[*openid.Error](why)
	if !ok {
		return why
	}
	// Anybody can make this fail, by a state of their own: it is logged as often as an address may show wrong tokens.
	answer, err := p.options.Attempts.Ask(v.r.Context(), weir.Request{Key: "provider " + p.options.Client(v.r), Cost: 1})
	if err == nil && answer.Outcome == weir.Allowed {
		p.options.Log.Warn("somebody could not be signed in by the provider", "error", clip(why.Error(), maxWhy), "address", p.options.Address(v.r))
	}
	status := http.StatusForbidden
	if bad.Away {
		status = http.StatusServiceUnavailable
	}
	return v.show(status, "sign-in", "Sign in", signInForm{To: to, Provider: p.provided(to), Refused: upper(bad.Text) + ". The log of the daemon says more. A token signs you in all the same."})
}

// welcome begins the session of a person, if a group of theirs has a role.
func (p *Pages) welcome(v *visit, to string, known *openid.Person) error {
	who := rulestore.Person{Issuer: known.Issuer, Subject: known.Subject, Groups: known.Groups, Hint: known.Token}
	who.Name = rulestore.NameOf(known.Subject, known.Email, known.Username)
	by, groups, err := p.options.Person(&who)
	line := rulestore.Event{Action: rulestore.SignIn, Reason: "as subject " + known.Subject + " of " + known.Issuer}
	if bad, ok := errors.AsType[*rulestore.Error](err); ok {
		line.Refused = bad.Text
		p.options.Audit(rulestore.Actor{Name: who.Name, Address: p.options.Address(v.r)}, line)
		return v.show(http.StatusForbidden, "sign-in", "Sign in", signInForm{
			To: to, Provider: p.provided(to), Refused: "You may not come in: " + bad.Text + ". " + seen(known.Groups) + " An administrator gives groups roles, in the file of --oidc-roles-file.",
		})
	}
	if err != nil {
		return err
	}
	who.Groups = groups
	if err := v.begin(rand.Text(), rulestore.Session{Person: who}); err != nil {
		return err
	}
	by.Address = p.options.Address(v.r)
	p.options.Audit(by, line)
	// A browser that comes from another site sends no strict cookie, also where it is sent on. From this page it does.
	v.w.Header().Set("Refresh", "0; url="+to)
	return v.show(http.StatusOK, "sign-in", "Signed in", signInForm{To: to, Welcome: by.Name})
}

// seen names the groups that the provider has told of.
func seen(groups []string) string {
	if len(groups) == 0 {
		return "The provider has told of no group; see --oidc-groups-claim."
	}
	var names []string
	for _, g := range groups[:min(len(groups), maxSeen)] {
		names = append(names, clip(g, maxSeenName))
	}
	more := ""
	if n := len(groups) - len(names); n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	return "The provider has told of the groups " + strings.Join(names, ", ") + more + "."
}

// clip is as much of a text as may stand on a page.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// personNow is who a person is that has signed in, by the roles that groups give now.
func (p *Pages) personNow(who *rulestore.Person) (rulestore.Actor, error) {
	if p.options.Provider == nil {
		return rulestore.Actor{}, &rulestore.Error{Kind: rulestore.Unknown, Text: "people are not signed in by " + who.Issuer + " any more"}
	}
	by, _, err := p.options.Person(who)
	if bad, ok := errors.AsType[*rulestore.Error](err); ok {
		err = &rulestore.Error{Kind: rulestore.Unknown, Text: bad.Text}
	}
	return by, err
}

// signedOut is what to say to who has just signed out, and goes on to be signed in at the provider; nil: nothing.
func (p *Pages) signedOut(v *visit) *provider {
	if v.session == nil || v.session.Person.Issuer == "" || p.options.Provider == nil {
		return nil
	}
	out := p.provided(Home)
	if out.End = p.options.Provider.End(v.session.Person.Hint, p.options.External+Home+"sign-in"); out.End == "" {
		return nil
	}
	return out
}

// roleOf is an actor's role in words; who has several has the strongest one for some teams.
func roleOf(by *rulestore.Actor) string {
	for _, role := range by.Roles {
		if role != by.Role {
			return "up to " + by.Role.String()
		}
	}
	return by.Role.String()
}
