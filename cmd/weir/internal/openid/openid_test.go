package openid_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/cmd/weir/internal/openid"
	"github.com/weir-limit/weir/cmd/weir/internal/openidtest"
)

func open(t *testing.T) (*openidtest.Provider, *openid.Provider) {
	t.Helper()
	liar := openidtest.Start(t)
	return liar, openid.New(openid.Options{
		Issuer: liar.URL, ClientID: openidtest.Client, Secret: func() string { return openidtest.Secret }, GroupsClaim: "groups", Back: "http://127.0.0.1:1/ui/sign-in/back",
	})
}

// sentBack is what the provider sends a browser back with that keeps a secret.
func sentBack(t *testing.T, p *openid.Provider, secret string) url.Values {
	t.Helper()
	there, err := p.Start(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, there, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	at, err := r.Location()
	if err != nil {
		t.Fatal(err)
	}
	return at.Query()
}

func signIn(t *testing.T, p *openid.Provider) (openid.Person, error) {
	t.Helper()
	back := sentBack(t, p, "secret")
	if !openid.Ours("secret", back.Get("state")) {
		t.Fatal("the state is not ours:", back)
	}
	return p.Finish(t.Context(), "secret", back.Get("code"))
}

// TestSignIn: the provider says who somebody is; what its token lacks, its userinfo endpoint tells.
func TestSignIn(t *testing.T) {
	t.Parallel()
	liar, p := open(t)
	ann := openid.Person{Issuer: liar.URL, Subject: "subject-of-ann", Email: "ann@example.com", Username: "ann", Groups: []string{"shop-leads", "dev-mail"}}
	for range 3 {
		got, err := signIn(t, p)
		if at := p.End(got.Token, "https://limits.example.com"); !strings.Contains(at, "id_token_hint=ey") || !strings.HasPrefix(at, liar.URL+"/end?client_id=weir&") {
			t.Error(at)
		}
		if got.Token = ""; err != nil || !cmp.Equal(got, ann) {
			t.Error(got, err)
		}
	}
	if n := liar.Asked("/.well-known/openid-configuration"); n != 1 {
		t.Errorf("it was asked %d times what it says of itself", n)
	}
	if n := liar.Asked("/info"); n != 0 {
		t.Error("userinfo was asked for nothing")
	}
	for _, claim := range []string{"groups", "email", "email_verified", "preferred_username"} {
		liar.Say(claim, nil)
	}
	liar.Inform(map[string]any{"sub": "subject-of-ann", "email": "ann@example.com", "email_verified": "true", "preferred_username": "ann", "groups": []string{"shop-leads", "dev-mail"}})
	got, err := signIn(t, p)
	if got.Token = ""; err != nil || !cmp.Equal(got, ann) {
		t.Error(got, err)
	}
	liar.Inform(map[string]any{"sub": "subject-of-bob", "groups": []string{"weir-admins"}})
	if got, err := signIn(t, p); err == nil {
		t.Error("the userinfo of another person counts:", got)
	}
}

// TestSilentProvider: while a provider is silent, nobody waits who does not need its answer, those that need it share one question, and one that goes
// away waits no longer.
func TestSilentProvider(t *testing.T) {
	t.Parallel()
	liar, p := open(t)
	const discovery = "/.well-known/openid-configuration"
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	liar.Answer(discovery, func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		openidtest.Send(w, liar.Discovery())
	})
	told := make(chan error)
	for range 5 {
		go func() {
			_, err := p.Start(t.Context(), "secret")
			told <- err
		}()
	}
	<-asked
	if end := p.End("", "https://limits.example.com"); end != "" { // it would wait for ever, as nobody answers
		t.Error(end)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err := p.Start(gone, "secret")
	if bad, ok := errors.AsType[*openid.Error](err); !ok || !bad.Away || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(answer)
	for range 5 {
		if err := <-told; err != nil {
			t.Error(err)
		}
	}
	if n := liar.Asked(discovery); n != 1 {
		t.Errorf("it was asked %d times what it says of itself", n)
	}
	if end := p.End("", "https://limits.example.com"); !strings.HasPrefix(end, liar.URL+"/end?") {
		t.Error(end)
	}
}

// TestLies: whatever a provider, or whoever stands between, says wrongly signs nobody in.
func TestLies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lie  func(*testing.T, *openidtest.Provider)
		says string // in the error
	}{
		"nonce":            {say("nonce", "another"), "nonce"},
		"no nonce":         {say("nonce", ""), "nonce"},
		"audience":         {say("aud", "another"), "audience"},
		"two audiences":    {say("aud", []string{"another", openidtest.Client}), "for another client"},
		"authorized party": {say("azp", "another"), "for another client"},
		"issuer":           {say("iss", "https://evil.example"), "different provider"},
		"expired":          {say("exp", time.Now().Add(-time.Second).Unix()), "expired"},
		"no expiry":        {say("exp", 0), "expired"},
		"not yet":          {say("nbf", time.Now().Add(time.Hour).Unix()), "before the nbf"},
		"no subject":       {say("sub", ""), "its subject has 0 bytes"},
		"long subject":     {say("sub", strings.Repeat("x", 256)), "its subject has 256 bytes"},
		"subject's type":   {say("sub", 7), "unmarshal"},
		"unsigned":         {func(_ *testing.T, p *openidtest.Provider) { p.Unsigned() }, "signature algorithm"},
		"client's secret":  {func(_ *testing.T, p *openidtest.Provider) { p.ByClient() }, "signature algorithm"},
		"a stranger's key": {func(t *testing.T, p *openidtest.Provider) { p.ByStranger(t) }, "verify signature"},
		"groups' type":     {say("groups", map[string]any{"weir-admins": true}), "no list of groups"},
		"a group's type":   {say("groups", []any{"shop-leads", 7}), "no list of groups"},
		"groups, a number": {say("groups", 7), "no list of groups"},
		"groups elsewhere": {say("_claim_names", map[string]any{"groups": "src1"}), ""},
		"no token":         {answer("/token", func(w http.ResponseWriter, _ *http.Request) { openidtest.Send(w, map[string]any{"access_token": "x"}) }), "malformed jwt"},
		"no JSON":          {answer("/token", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }), ""},
		"an error":         {answer("/token", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) }), "does not answer"},
		"sends on":         {answer("/token", http.RedirectHandler("/auth", http.StatusTemporaryRedirect).ServeHTTP), "it sends on"},
		"endless keys":     {answer("/keys", endless), "too large"},
		"endless token":    {answer("/token", endless), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			liar, p := open(t)
			c.lie(t, liar)
			got, err := signIn(t, p)
			if _, ok := errors.AsType[*openid.Error](err); !ok || got.Subject != "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%+v, %v", got, err)
			}
			if strings.Contains(fmt.Sprint(err), openidtest.Secret) {
				t.Error("the error has the client's secret:", err)
			}
			liar.Honest()
			if got, err := signIn(t, p); err != nil || got.Subject != "subject-of-ann" {
				t.Error("afterwards:", got, err)
			}
		})
	}
}

func say(name string, value any) func(*testing.T, *openidtest.Provider) {
	return func(_ *testing.T, p *openidtest.Provider) { p.Say(name, value) }
}

func answer(path string, lie http.HandlerFunc) func(*testing.T, *openidtest.Provider) {
	return func(_ *testing.T, p *openidtest.Provider) { p.Answer(path, lie) }
}

// endless is an answer of 4 MiB.
func endless(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for range 64 {
		if _, err := w.Write([]byte(strings.Repeat(" ", 64<<10))); err != nil {
			return
		}
	}
}

// TestClaims: an address that is not verified is none, groups may be one text or many, and what is too long is left out.
func TestClaims(t *testing.T) {
	t.Parallel()
	liar, p := open(t)
	many := make([]string, 10_000)
	for i := range many {
		many[i] = fmt.Sprint("group-", i)
	}
	for name, c := range map[string]struct {
		claim string
		value any
		good  func(openid.Person) bool
	}{
		"not verified":       {"email_verified", false, func(a openid.Person) bool { return a.Email == "" && a.Username == "ann" }},
		"nothing said":       {"email_verified", nil, func(a openid.Person) bool { return a.Email == "" }},
		"a text":             {"email_verified", "true", func(a openid.Person) bool { return a.Email == "ann@example.com" }},
		"another text":       {"email_verified", "yes", func(a openid.Person) bool { return a.Email == "" }},
		"a number":           {"email_verified", 1, func(a openid.Person) bool { return a.Email == "" }},
		"a long address":     {"email", strings.Repeat("a", 250) + "@b.com", func(a openid.Person) bool { return a.Email == "" }},
		"no address":         {"email", []string{"ann@example.com"}, func(a openid.Person) bool { return a.Email == "" }},
		"one group":          {"groups", "shop-leads", func(a openid.Person) bool { return slices.Equal(a.Groups, []string{"shop-leads"}) }},
		"no group":           {"groups", []string{""}, func(a openid.Person) bool { return len(a.Groups) == 0 }},
		"null":               {"groups", []any{}, func(a openid.Person) bool { return len(a.Groups) == 0 }},
		"10,000 groups":      {"groups", many, func(a openid.Person) bool { return len(a.Groups) == 10_000 }},
		"username's type":    {"preferred_username", 7, func(a openid.Person) bool { return a.Username == "" && a.Email != "" }},
		"audience in a list": {"aud", []string{openidtest.Client}, func(a openid.Person) bool { return a.Subject != "" }},
	} {
		liar.Honest()
		liar.Say(c.claim, c.value)
		if got, err := signIn(t, p); err != nil || !c.good(got) {
			t.Errorf("%s: %.300s, %v", name, fmt.Sprint(got), err)
		}
	}
}

// TestBrowsers: what came to one browser is worth nothing in another, nor a second time.
func TestBrowsers(t *testing.T) {
	t.Parallel()
	_, p := open(t)
	back := sentBack(t, p, "of ann")
	for secret, state := range map[string]string{"of bob": back.Get("state"), "": back.Get("state"), "of ann": "", "of ann ": back.Get("state")} {
		if openid.Ours(secret, state) {
			t.Errorf("the state %q is %q's", state, secret)
		}
	}
	if openid.Ours("", "") {
		t.Error("no state is nobody's")
	}
	if got, err := p.Finish(t.Context(), "of bob", back.Get("code")); err == nil {
		t.Error("a code of another browser counts:", got) // by PKCE, and by the nonce
	}
	back = sentBack(t, p, "of ann")
	if _, err := p.Finish(t.Context(), "of ann", back.Get("code")); err != nil {
		t.Error(err)
	}
	if got, err := p.Finish(t.Context(), "of ann", back.Get("code")); err == nil || !strings.Contains(err.Error(), "used already") {
		t.Error("a code counts twice:", got, err)
	}
}

// TestAway: a provider that is away, or is none, is asked again after a pause; who comes meanwhile does not wait.
func TestAway(t *testing.T) {
	t.Parallel()
	const place = "/.well-known/openid-configuration"
	for name, lie := range map[string]http.HandlerFunc{
		"away": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) },
		"another issuer": func(w http.ResponseWriter, _ *http.Request) {
			openidtest.Send(w, map[string]any{"issuer": "https://evil.example"})
		},
		"large":    endless,
		"sends on": http.RedirectHandler("/auth", http.StatusFound).ServeHTTP,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			liar, p := open(t)
			liar.Answer(place, lie)
			for range 5 {
				_, err := p.Start(t.Context(), "secret")
				if bad, ok := errors.AsType[*openid.Error](err); !ok || !bad.Away {
					t.Error(err)
				}
			}
			if n := liar.Asked(place); n != 1 {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
	for _, name := range []string{"authorization_endpoint", "token_endpoint", "jwks_uri"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			liar, p := open(t)
			says := liar.Discovery()
			says[name] = "http://evil.example/x"
			liar.Answer(place, func(w http.ResponseWriter, _ *http.Request) { openidtest.Send(w, says) })
			if _, err := p.Start(t.Context(), "secret"); err == nil || !strings.Contains(err.Error(), "must be https") {
				t.Error(err)
			}
		})
	}
}

// TestBusy: more sign-ins than may ask the provider at a time are told so at once.
func TestBusy(t *testing.T) {
	t.Parallel()
	liar, p := open(t)
	back := sentBack(t, p, "secret")
	in, out := make(chan struct{}), make(chan struct{})
	liar.Answer("/token", func(w http.ResponseWriter, _ *http.Request) {
		in <- struct{}{}
		<-out
		http.Error(w, "no", http.StatusBadGateway)
	})
	ended := make(chan error)
	const most = 16
	for range most {
		go func() {
			_, err := p.Finish(t.Context(), "secret", back.Get("code"))
			ended <- err
		}()
		<-in
	}
	if _, err := p.Finish(t.Context(), "secret", back.Get("code")); err == nil || !strings.Contains(err.Error(), "too many people") {
		t.Error(err)
	}
	close(out)
	for range most {
		if err := <-ended; err == nil {
			t.Error("it has signed in")
		}
	}
}

// TestSafe: nothing is sent where others could read it.
func TestSafe(t *testing.T) {
	for place, safe := range map[string]bool{
		"https://login.example.com": true, "https://login.example.com/realms/a?b=c": true, "http://127.0.0.1:8080": true, "http://[::1]/": true, "http://localhost": true,
		"http://login.example.com": false, "https://": false, "": false, "ftp://localhost": false, "https://ann:secret@login.example.com": false, "javascript:alert(1)": false, "http://127.0.0.1.evil.example": false, "https://a/#b": false,
	} {
		if openid.Safe(place) != safe {
			t.Error(place)
		}
	}
}
