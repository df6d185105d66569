package webui

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// signInForm is what the page of that name shows.
type signInForm struct {
	To    string // where to go then
	Fault string // what was wrong with the token
	Ended string // why a session has ended; empty: none has, as far as is known
	// Refused is why the provider, or its groups, have not signed somebody in; empty: nobody was refused.
	Refused  string
	Welcome  string    // who has just signed in; empty: nobody
	Provider *provider // nil: there is none
}

func (p *Pages) signInPage(v *visit) error {
	to := within(v.r.URL.Query().Get("to"))
	if p.options.SignIn == nil {
		http.Redirect(v.w, v.r, to, http.StatusSeeOther)
		return nil
	}
	form := signInForm{To: to, Provider: p.provided(to)}
	if p.secret(v.r) != "" {
		err := v.find(time.Now())
		if bad, ok := errors.AsType[*rulestore.Error](err); ok {
			form.Ended = bad.Text
		}
		v.session = nil // the page is the same for all
	}
	return v.show(http.StatusOK, "sign-in", "Sign in", form)
}

// signIn begins a session, under a new id whatever the browser had before.
func (p *Pages) signIn(v *visit) error {
	if p.options.SignIn == nil {
		return p.signInPage(v)
	}
	to, token := within(v.r.PostFormValue("to")), strings.TrimSpace(v.r.PostFormValue("token"))
	if token == "" {
		return v.show(http.StatusBadRequest, "sign-in", "Sign in", signInForm{To: to, Provider: p.provided(to), Fault: "Paste a token: weir token create prints one, and the first start of the daemon leaves one in a file."})
	}
	actor, wrong := p.options.SignIn(v.r.Context(), token)
	switch {
	case kindOf(wrong) == rulestore.Unknown:
		return p.signInRefused(v, to)
	case wrong != nil:
		return wrong
	}
	secret, one := rand.Text(), rulestore.Session{Token: actor.Token}
	if actor.Token == "" {
		one.Proof = proof(secret, token)
	}
	if err := v.begin(secret, one); err != nil {
		return err
	}
	actor.Address = p.options.Address(v.r)
	p.options.Audit(actor, rulestore.Event{Action: rulestore.SignIn})
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
	return nil
}

// signInRefused tells that a token is wrong, and charges the address for it.
func (p *Pages) signInRefused(v *visit, to string) error {
	p.options.Wrong(v.r)
	answer, err := p.options.Attempts.Ask(v.r.Context(), weir.Request{Key: p.options.Client(v.r), Cost: 1})
	switch {
	case err != nil:
		return err
	case answer.Outcome != weir.Allowed:
		wait := int64((answer.RetryAfter + time.Second - 1) / time.Second)
		v.w.Header().Set("Retry-After", strconv.FormatInt(wait, 10))
		return v.show(http.StatusTooManyRequests, "sign-in", "Sign in", signInForm{To: to, Provider: p.provided(to), Fault: "Too many wrong tokens came from your address. Try again in " + strconv.FormatInt(wait, 10) + " s; a right one is taken at once."})
	}
	return v.show(http.StatusUnauthorized, "sign-in", "Sign in", signInForm{To: to, Provider: p.provided(to), Fault: "This token is not known, has expired, or was revoked. Ask an administrator for another."})
}

func (p *Pages) signOut(v *visit) error {
	if err := v.end(); err != nil {
		return err
	}
	if v.session != nil {
		p.options.Audit(v.actor, rulestore.Event{Action: rulestore.SignOut})
	}
	over := p.cookie(v.r, "")
	over.MaxAge = -1
	http.SetCookie(v.w, over)
	v.w.Header().Set("Clear-Site-Data", `"cache"`)
	if out := p.signedOut(v); out != nil {
		v.session = nil
		return v.show(http.StatusOK, "sign-in", "Signed out", signInForm{To: Home, Provider: out})
	}
	http.Redirect(v.w, v.r, Home+"sign-in", http.StatusSeeOther)
	return nil
}

// within is where a browser asks to be sent, if that is one of our pages; else the
// first.
func within(to string) string {
	at, err := url.Parse(to)
	if err != nil || at.IsAbs() || at.Host != "" || at.User != nil || !strings.HasPrefix(to, Home) || strings.ContainsAny(to, "\\\r\n\t") || strings.Contains(at.Path, "..") {
		return Home
	}
	return to
}
