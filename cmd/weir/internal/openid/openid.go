// Package openid has an OpenID Connect provider say who somebody is: by the authorization code flow, with PKCE.
//
// Nothing is kept between the two halves of a sign-in. All that ties them is made of a secret that the browser keeps, so that the second half may
// come to another node.
//
// openid.go is the two halves, claims.go what is read of a person, and call.go how the provider is called.
package openid

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Options are what a Provider is told. All but Secret must be there.
type Options struct {
	Issuer, ClientID string
	// Secret is that of the client, as it is now. Nil: the client has none.
	Secret func() string
	// GroupsClaim is the name of the claim that has a person's groups.
	GroupsClaim string
	// Back is the URL where the provider sends browsers back, as it knows it.
	Back string
}

const (
	// foundFor is how long what the provider says of itself counts, and retryAfter the pause between two tries when it does not.
	foundFor   = time.Hour
	retryAfter = 5 * time.Second
)

// Provider says who somebody is. It is made by New; its methods may be called from many goroutines, and fail with an *Error.
type Provider struct {
	options Options
	client  *http.Client
	calls   chan struct{} // has one for each sign-in that asks the provider now

	mu     sync.Mutex    // never held while the provider is asked
	found  *found        // what it says of itself; nil: it has not said it yet
	at     time.Time     // of the last try
	failed error         // of the last try
	asking chan struct{} // of a try that is under way: closed at its end; nil: none is
}

// New makes a Provider. It calls nobody yet.
func New(o Options) *Provider {
	return &Provider{options: o, client: newClient(), calls: make(chan struct{}, maxCalls)}
}

// Name is what to call the provider to people.
func (p *Provider) Name() string {
	if u, err := url.Parse(p.options.Issuer); err == nil && u.Host != "" {
		return u.Host
	}
	return p.options.Issuer
}

// Error is why nobody could be signed in.
type Error struct {
	Away bool   // the provider can't be asked now; else its answer can't be trusted, or is a refusal
	Text string // for people
	Why  error  // for the log; nil: Text is all
}

func (e *Error) Error() string {
	if e.Why != nil {
		return e.Text + ": " + e.Why.Error()
	}
	return e.Text
}

// Unwrap is Why.
func (e *Error) Unwrap() error { return e.Why }

// found is what the provider says of itself.
type found struct {
	*oidc.Provider
	oauth2.Config // without the client's secret

	End string // where a browser signs out there; empty: nowhere
}

// ready is what the provider says of itself, which is asked for when it was not for an hour. An old answer goes on to count while there is no new one.
// Callers that come together share one question, which takes callTime at most; one that goes away waits no longer.
func (p *Provider) ready(ctx context.Context) (*found, error) {
	now, asking, mine, failed := p.state()
	for now == nil && asking != nil && !mine {
		select {
		case <-asking:
			now, asking, mine, failed = p.state()
		case <-ctx.Done():
			failed, asking = ctx.Err(), nil
		}
	}
	if mine { // the caller may go away; the answer is for all
		now, failed = p.discover(context.WithoutCancel(ctx), asking)
	}
	if now == nil {
		return nil, &Error{true, "the provider " + p.Name() + " does not answer, or not as --oidc-issuer expects", failed}
	}
	return now, nil
}

// state is what is known of the provider. mine is whether the caller is the one that has to ask it, and close asking then.
func (p *Provider) state() (now *found, asking chan struct{}, mine bool, failed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pause := retryAfter
	if p.failed == nil {
		pause = foundFor
	}
	if mine = p.asking == nil && (p.at.IsZero() || time.Since(p.at) >= pause); mine {
		p.asking = make(chan struct{})
	}
	return p.found, p.asking, mine, p.failed
}

// discover asks the provider what it says of itself, and tells those that wait for it.
func (p *Provider) discover(ctx context.Context, asking chan struct{}) (now *found, failed error) {
	failed = errors.New("asking it panicked")
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.at, p.failed, p.asking = time.Now(), failed, nil; failed == nil {
			p.found = now
		}
		now = p.found
		close(asking)
	}()
	now, failed = p.ask(ctx)
	return now, failed
}

// ask asks the provider what it says of itself.
func (p *Provider) ask(ctx context.Context) (*found, error) {
	got, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.options.Issuer)
	if err != nil {
		return nil, err
	}
	var says struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
		Scopes  []string `json:"scopes_supported"`
		JWKS    string   `json:"jwks_uri"`
		End     string   `json:"end_session_endpoint"`
	}
	if err := got.Claims(&says); err != nil {
		return nil, err
	}
	at := got.Endpoint()
	for name, place := range map[string]string{"authorization_endpoint": at.AuthURL, "token_endpoint": at.TokenURL, "jwks_uri": says.JWKS} {
		if !Safe(place) {
			return nil, fmt.Errorf("its %s is %q, which must be https", name, place)
		}
	}
	at.AuthStyle = oauth2.AuthStyleInHeader
	if p.options.Secret == nil || len(says.Methods) > 0 && !slices.Contains(says.Methods, "client_secret_basic") {
		at.AuthStyle = oauth2.AuthStyleInParams
	}
	scopes := []string{oidc.ScopeOpenID}
	for _, s := range []string{oidc.ScopeProfile, oidc.ScopeEmail, "groups"} {
		if slices.Contains(says.Scopes, s) || len(says.Scopes) == 0 && s != "groups" {
			scopes = append(scopes, s)
		}
	}
	f := &found{Provider: got, Config: oauth2.Config{ClientID: p.options.ClientID, Endpoint: at, RedirectURL: p.options.Back, Scopes: scopes}}
	if Safe(says.End) {
		f.End = says.End
	}
	return f, nil
}

// part is something that belongs to a sign-in, and that nobody can make without its secret.
func part(secret, name string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(name))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// Start is the URL at the provider to which a browser is sent that keeps a secret.
func (p *Provider) Start(ctx context.Context, secret string) (string, error) {
	f, err := p.ready(ctx)
	if err != nil {
		return "", err
	}
	return f.AuthCodeURL(part(secret, "state"), oidc.Nonce(part(secret, "nonce")), oauth2.S256ChallengeOption(part(secret, "verifier"))), nil
}

// Ours is whether the provider sends back the browser that keeps a secret, by the state that comes along.
func Ours(secret, state string) bool {
	return secret != "" && hmac.Equal([]byte(state), []byte(part(secret, "state")))
}

// Finish asks the provider who it is that it sends back with a code, in the browser that keeps a secret.
func (p *Provider) Finish(ctx context.Context, secret, code string) (Person, error) {
	select {
	case p.calls <- struct{}{}:
		defer func() { <-p.calls }()
	default:
		return Person{}, &Error{true, "too many people sign in at this moment; try again", nil}
	}
	f, err := p.ready(ctx)
	if err != nil {
		return Person{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	asked := f.Config
	if p.options.Secret != nil {
		asked.ClientSecret = p.options.Secret()
	}
	token, err := asked.Exchange(ctx, code, oauth2.VerifierOption(part(secret, "verifier")))
	if err != nil {
		return Person{}, p.untaken(err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := f.Verifier(&oidc.Config{ClientID: p.options.ClientID}).Verify(ctx, raw)
	if err != nil {
		return Person{}, untrusted(err)
	}
	if !hmac.Equal([]byte(id.Nonce), []byte(part(secret, "nonce"))) {
		return Person{}, untrusted(errors.New("its nonce is not that of this sign-in"))
	}
	return p.read(ctx, f, id, token)
}

// untaken is that the provider did not take a code.
func (p *Provider) untaken(why error) *Error {
	refused, answered := errors.AsType[*oauth2.RetrieveError](why)
	_, unreached := errors.AsType[*url.Error](why)
	switch {
	case answered && refused.Response.StatusCode < http.StatusInternalServerError:
		return &Error{false, "the provider does not take back what it sent: the code was used already, or is too old", why}
	case answered, unreached:
		return &Error{true, "the provider " + p.Name() + " does not answer", why}
	}
	return untrusted(why)
}

// untrusted is an answer of the provider that counts for nothing.
func untrusted(why error) *Error {
	return &Error{false, "the provider's answer can't be trusted", why}
}

// End is the URL at which the browser of a Person with a token signs out at the provider, and comes back from to another one; empty: there is none, as far as is
// known.
func (p *Provider) End(token, to string) string {
	p.mu.Lock()
	known := p.found
	p.mu.Unlock()
	if known == nil || known.End == "" {
		return ""
	}
	u, err := url.Parse(known.End)
	if err != nil {
		return ""
	}
	q := u.Query()
	q.Set("client_id", p.options.ClientID)
	if token != "" {
		q.Set("id_token_hint", token)
	}
	q.Set("post_logout_redirect_uri", to)
	u.RawQuery = q.Encode()
	return u.String()
}
