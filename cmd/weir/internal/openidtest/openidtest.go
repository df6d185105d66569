// Package openidtest has an OpenID Connect provider for tests. It signs everybody in at once, and lies as it is told.
package openidtest

import (
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// The one client of each provider.
const (
	Client = "weir"
	Secret = "0123456789abcdef-client"
)

// Provider is a provider at a loopback address, until the test ends.
type Provider struct {
	URL string // which is its issuer

	key *rsa.PrivateKey

	mu      sync.Mutex
	says    map[string]any // claims
	info    map[string]any // claims of the userinfo endpoint; nil: there is none
	alg     string
	sign    func(text string) []byte
	lies    map[string]http.HandlerFunc // by path
	replays bool
	codes   map[string]url.Values // what the browser brought along
	asked   map[string]int        // by path
}

// Start starts one that tells of ann, of two groups.
func Start(t testing.TB) *Provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{key: key, lies: map[string]http.HandlerFunc{}, codes: map[string]url.Values{}, asked: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("/keys", p.keys)
	mux.HandleFunc("/auth", p.auth)
	mux.HandleFunc("/token", p.token)
	mux.HandleFunc("/info", p.userinfo)
	mux.HandleFunc("/end", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("signed out at the provider")) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked[r.URL.Path]++
		lie := p.lies[r.URL.Path]
		p.mu.Unlock()
		if lie != nil {
			lie(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.URL = server.URL
	p.Honest()
	return p
}

// Honest ends all lies.
func (p *Provider) Honest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lies, p.info, p.replays = map[string]http.HandlerFunc{}, nil, false
	p.alg, p.sign = "RS256", p.rs256
	p.says = map[string]any{"sub": "subject-of-ann", "email": "ann@example.com", "email_verified": true, "preferred_username": "ann", "groups": []string{"shop-leads", "dev-mail"}}
}

// Say has the next tokens say a claim; nil: not to.
func (p *Provider) Say(name string, value any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.says[name] = value; value == nil {
		delete(p.says, name)
	}
}

// Inform has the userinfo endpoint say claims.
func (p *Provider) Inform(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = claims
}

// Unsigned has tokens be signed by nobody, and ByClient by the secret of the client.
func (p *Provider) Unsigned() { p.signBy("none", func(string) []byte { return nil }) }

// ByClient has tokens be signed by the secret of the client, as whoever knows it could.
func (p *Provider) ByClient() {
	p.signBy("HS256", func(text string) []byte {
		h := hmac.New(sha256.New, []byte(Secret))
		h.Write([]byte(text))
		return h.Sum(nil)
	})
}

// ByStranger has tokens be signed by another key than the provider's.
func (p *Provider) ByStranger(t testing.TB) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.signBy("RS256", (&Provider{key: key}).rs256)
}

func (p *Provider) signBy(alg string, sign func(string) []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alg, p.sign = alg, sign
}

// Replay has codes be good for more than one use.
func (p *Provider) Replay() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replays = true
}

// Answer has a path be answered so; nil: as ever.
func (p *Provider) Answer(path string, lie http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lies[path] = lie; lie == nil {
		delete(p.lies, path)
	}
}

// Asked is how often a path was asked for.
func (p *Provider) Asked(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

// Discovery is what it says of itself.
func (p *Provider) Discovery() map[string]any {
	return map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/info",
		"end_session_endpoint": p.URL + "/end", "id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"}, "scopes_supported": []string{"openid", "email", "profile", "groups"},
	}
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) { Send(w, p.Discovery()) }

// Send answers with JSON.
func Send(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the caller may be gone
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	e := big.NewInt(int64(p.key.E)).Bytes()
	Send(w, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "use": "sig", "kid": "one", "n": text(p.key.N.Bytes()), "e": text(e)}}})
}

func text(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// auth sends the browser back at once.
func (p *Provider) auth(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = q
	p.mu.Unlock()
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	code := r.PostFormValue("code")
	p.mu.Lock()
	began, there := p.codes[code]
	if !p.replays {
		delete(p.codes, code)
	}
	p.mu.Unlock()
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !there || id != Client || secret != Secret || began.Get("code_challenge") != text(challenge[:]) || began.Get("code_challenge_method") != "S256" || began.Get("redirect_uri") != r.PostFormValue("redirect_uri") {
		w.WriteHeader(http.StatusBadRequest)
		Send(w, map[string]any{"error": "invalid_grant"})
		return
	}
	Send(w, map[string]any{"access_token": "opaque", "token_type": "Bearer", "expires_in": 60, "id_token": p.issue(began.Get("nonce"))})
}

// issue makes an ID token.
func (p *Provider) issue(nonce string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	claims := map[string]any{"iss": p.URL, "aud": Client, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "nonce": nonce}
	maps.Copy(claims, p.says)
	var parts []string
	for _, part := range []any{map[string]any{"alg": p.alg, "kid": "one", "typ": "JWT"}, claims} {
		b, _ := json.Marshal(part) // of maps of JSON
		parts = append(parts, text(b))
	}
	head := strings.Join(parts, ".")
	return head + "." + text(p.sign(head))
}

func (p *Provider) rs256(head string) []byte {
	sum := sha256.Sum256([]byte(head))
	signed, err := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err) // a key of 2048 bits signs
	}
	return signed
}

func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.info == nil || r.Header.Get("Authorization") != "Bearer opaque" {
		http.Error(w, "nothing", http.StatusUnauthorized)
		return
	}
	Send(w, p.info)
}
