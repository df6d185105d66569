package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/weir-limit/weir/cmd/weir/internal/browsertest"
	"github.com/weir-limit/weir/internal/porttest"
	"github.com/weir-limit/weir/internal/postgrestest"
)

// Where Debian's package glewlwyd has its parts.
const (
	glewlwydSchema = "/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3"
	glewlwydPages  = "/usr/share/glewlwyd/webapp"
	glewlwydConfig = "/usr/share/glewlwyd/templates/config.json"
)

// clientSecret is that of the client weir.
const clientSecret = "0123456789abcdef-weir"

// idp is a real provider of OpenID Connect, with people in groups.
type idp struct {
	url string // of the server
	*http.Client
}

func (g *idp) issuer() string { return g.url + "/api/oidc" }

// glewlwyd starts one that knows ann, in groups, and bob, in none, and the client weir at an origin.
func glewlwyd(t *testing.T, origin string) *idp {
	t.Helper()
	path, sqlite := program(t, "glewlwyd"), program(t, "sqlite3")
	dir, at := t.TempDir(), porttest.Free(t)
	host, port, _ := strings.Cut(at, ":")
	database, pages := filepath.Join(dir, "glewlwyd.db"), filepath.Join(dir, "pages")
	made := command(t, sqlite, database, ".read "+glewlwydSchema)
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	// It serves no links, and the package's pages have a folder in the place of their configuration.
	for _, args := range [][]string{{"-rL", glewlwydPages, pages}, {"-rT", glewlwydConfig, filepath.Join(pages, "config.json")}} {
		_ = os.RemoveAll(filepath.Join(pages, "config.json"))
		if out, err := command(t, "cp", args...).CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
	}
	g := &idp{"http://" + at, new(http.Client)}
	config := write(t, filepath.Join(dir, "glewlwyd.conf"), fmt.Sprintf(`port=%s
bind_address="%s"
external_url="%s"
login_url="login.html"
api_prefix="api"
static_files_path="%s/"
log_mode="console"
log_level="WARNING"
cookie_secure=0
session_key="GLEWLWYD2_SESSION_ID"
admin_session_authentication="cookie"
admin_scope="g_admin"
profile_scope="g_profile"
user_module_path="/usr/lib/glewlwyd/user"
client_module_path="/usr/lib/glewlwyd/client"
user_auth_scheme_module_path="/usr/lib/glewlwyd/scheme"
plugin_module_path="/usr/lib/glewlwyd/plugin"
hash_algorithm="SHA512"
database={ type="sqlite3"; path="%s"; };
static_files_mime_types=(
	{ extension=".html"; mime_type="text/html" }, { extension=".css"; mime_type="text/css" },
	{ extension=".js"; mime_type="application/javascript" }, { extension=".json"; mime_type="application/json" })
`, port, host, g.url, pages, database))
	p := start(t, command(t, path, "--config-file="+config))
	p.listening(t, at)
	g.fill(t, origin)
	return g
}

// fill tells the provider of its people and of the client weir.
func (g *idp) fill(t *testing.T, origin string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	g.Jar = jar
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	type object = map[string]any
	g.ask(t, http.MethodPost, "/api/auth/", object{"username": "admin", "password": "password"})
	g.ask(t, http.MethodPut, "/api/mod/user/database", object{
		"module": "database", "name": "database", "display_name": "people", "order_rank": 0, "readonly": false,
		"parameters": object{"use-glewlwyd-connection": true, "data-format": object{
			"groups":         object{"multiple": true, "read": true, "write": true},
			"email_verified": object{"multiple": false, "read": true, "write": true},
		}},
	})
	g.ask(t, http.MethodPut, "/api/mod/user/database/reset", nil)
	scopes := []string{"openid", "profile", "email", "groups"}
	for _, s := range scopes[1:] {
		g.ask(t, http.MethodPost, "/api/scope/", object{"name": s, "display_name": s, "password_required": false, "scheme": object{}})
	}
	claim := func(name, property, kind, scope string) object {
		return object{
			"name": name, "user-property": property, "type": kind, "boolean-value-true": "true", "boolean-value-false": "false", "mandatory": false, "on-demand": false,
			"scope": []string{scope},
		}
	}
	g.ask(t, http.MethodPost, "/api/mod/plugin/", object{
		"module": "oidc", "name": "oidc", "display_name": "oidc", "order_rank": 0, "readonly": false,
		"parameters": object{
			"iss": g.issuer(), "jwt-type": "rsa", "jwt-key-size": "256", "key": string(private), "cert": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
			"access-token-duration": 3600, "refresh-token-duration": 3600, "code-duration": 600, "refresh-token-rolling": false, "allow-non-oidc": false,
			"auth-type-code-enabled": true, "auth-type-token-enabled": false, "auth-type-id-token-enabled": true, "auth-type-none-enabled": false,
			"auth-type-password-enabled": false, "auth-type-client-enabled": false, "auth-type-device-enabled": false, "auth-type-refresh-enabled": false,
			"pkce-allowed": true, "pkce-required": true, "subject-type": "public", "jwks-show": true, "allowed-scope": scopes,
			"claims": []object{
				claim("groups", "groups", "string", "groups"), claim("email_verified", "email_verified", "boolean", "email"),
				claim("preferred_username", "username", "string", "profile"),
			},
			"email-claim": "mandatory", "name-claim": "no", "session-management-allowed": true, "front-channel-logout-allowed": false, "back-channel-logout-allowed": false,
			"session-cookie-name": "GLEWLWYD2_OIDC_SESSION", "session-cookie-expiration": 3600,
		},
	})
	g.ask(t, http.MethodPost, "/api/client/", object{
		"client_id": "weir", "name": "Weir", "enabled": true, "confidential": true, "client_secret": clientSecret, "redirect_uri": []string{origin + "/ui/sign-in/back"},
		"authorization_type": []string{"code"}, "token_endpoint_auth_method": []string{"client_secret_basic"}, "post_logout_redirect_uri": origin + "/ui/sign-in", "scope": []string{},
	})
	for name, groups := range map[string][]string{"ann": {"Shop leads", "dev-mail"}, "bob": {"guests"}} {
		g.ask(t, http.MethodPost, "/api/user/", object{
			"username": name, "name": name, "email": name + "@example.com", "email_verified": "true", "password": "password-of-" + name, "enabled": true,
			"groups": groups, "scope": append([]string{"g_profile"}, scopes...),
		})
	}
}

// ask calls the provider's API.
func (g *idp) ask(t *testing.T, method, path string, body any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), method, g.url+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := g.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	said, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s %v", method, path, r.Status, said, err)
	}
}

// TestGlewlwyd: people sign in with a real provider, by way of a balancer before two daemons, in a real browser; their groups give them roles.
func TestGlewlwyd(t *testing.T) {
	t.Parallel()
	data, at := postgrestest.Start(t).Database(t), porttest.Free(t)
	origin := "http://" + at
	g := glewlwyd(t, origin)
	dir := t.TempDir()
	args := []string{
		"--data", data, "--external-url", origin, "--oidc-issuer", g.issuer(), "--oidc-client-id", "weir",
		"--oidc-client-secret-file", write(t, filepath.Join(dir, "secret"), clientSecret+"\n"),
		"--oidc-roles-file", write(t, filepath.Join(dir, "roles"), "publish shop Shop leads\npropose {team} dev-{team}\n"),
	}
	one, token := serveData(t, data, args[2:]...)
	other := startDaemon(t, command(t, binary, serveArgs(args)...))
	balancer(t, at, one, other)
	b := browsertest.Start(t)

	p := &person{b.Open(t, browsertest.Views()[0], origin+"/ui/teams"), &daemon{admin: at}, token, axeCore(t)}
	p.look(t, "provider")
	name := strings.TrimPrefix(g.url, "http://")
	p.follow(t, "Sign in at "+name)
	p.login(t, g, "ann", "form.who")
	p.sees(t, "oidc/ann@example.com")
	p.sees(t, "(up to publish)")
	for range 4 { // at both nodes
		p.open(t, "/ui/")
		p.sees(t, "oidc/ann@example.com")
	}
	p.click(t, `form[action="/ui/sign-out"] button`)
	p.sees(t, "You are signed out here.")
	p.check(t, "signed out")
	p.follow(t, "Sign out at "+name+", too")
	eventually(t, "the provider does not know who wants to sign out", func() bool {
		at := browsertest.Do(t, p.Page, chromedp.Evaluate[string](`location.href`))
		return strings.HasPrefix(at, g.url) && strings.Contains(at, "prompt=end_session")
	})

	// A person in no group of the file stays outside, and a token lets in all the same.
	p.Page = browsertest.Start(t).Open(t, browsertest.Views()[3], origin+"/ui/")
	p.follow(t, "Sign in at "+name)
	p.login(t, g, "bob", "main p.fault")
	p.sees(t, "You may not come in: no group of oidc/bob@example.com has a role now.")
	p.sees(t, "The provider has told of the groups guests.")
	p.check(t, "no role")
	p.fill(t, "#token", token)
	p.press(t, "Sign in")
	p.sees(t, "(admin)")
}

// login signs in at the provider's pages, and waits until the browser is back at a page that has something.
func (p *person) login(t *testing.T, g *idp, name, arrives string) {
	t.Helper()
	g.grant(t, name)
	for field, text := range map[string]string{"#username": name, "#password": "password-of-" + name} {
		browsertest.Do(t, p.Page, chromedp.SendKeys(field, text))
	}
	p.click(t, "#loginbut")
	const script = `(() => { const e = [...document.querySelectorAll("button")].find((e) => e.textContent.trim() === "Continue" && !e.disabled); if (e) e.click(); return Boolean(e); })()`
	eventually(t, "the provider does not go on", func() bool {
		there, err := chromedp.Run(p.Page.Context, chromedp.Evaluate[bool](script))
		return err == nil && there
	})
	eventually(t, "the browser does not come back", func() bool {
		there, err := chromedp.Run(p.Page.Context, chromedp.Evaluate[bool](fmt.Sprintf(`document.readyState === "complete" && Boolean(document.querySelector(%q))`, arrives)))
		return err == nil && there // the browser fails while it changes pages
	})
}

// grant lets Weir know who somebody is.
func (g *idp) grant(t *testing.T, name string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	theirs := &idp{g.url, &http.Client{Jar: jar}}
	theirs.ask(t, http.MethodPost, "/api/auth/", map[string]any{"username": name, "password": "password-of-" + name})
	theirs.ask(t, http.MethodPut, "/api/auth/grant/weir", map[string]any{"scope": "openid profile email groups"})
}
