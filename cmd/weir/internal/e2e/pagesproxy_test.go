package e2e

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/browsertest"
	"github.com/weir-limit/weir/internal/certtest"
	"github.com/weir-limit/weir/internal/porttest"
)

// bringsPages is a proxy that brings the pages of a daemon's admin listener to browsers.
type bringsPages struct {
	name, scheme string
	// start starts it at an address of this machine.
	start func(t *testing.T, at, admin string)
}

// free is a free address of this machine, and the origin of pages behind the proxy there.
func (p *bringsPages) free(t *testing.T) (at, origin string) {
	t.Helper()
	at = porttest.Free(t)
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	return at, p.scheme + "://" + net.JoinHostPort(browsertest.Site, port)
}

// proxiesOfPages are those of the recipes, and some that are set up as people do without reading them.
func proxiesOfPages() []bringsPages {
	viaNginx := func(change ...string) func(*testing.T, string, string) {
		return func(t *testing.T, at, admin string) {
			t.Helper()
			certificate, key := certtest.NewCA(t).Issue(t, browsertest.Site).Files(t)
			text := recipe(t, filepath.Join(recipes, "pages-nginx.conf"), "listen 443 ssl;", "listen "+at+" ssl;", "127.0.0.1:8082", admin,
				"/etc/ssl/limits.example.com.pem", certificate, "/etc/ssl/limits.example.com.key", key)
			text = strings.NewReplacer(change...).Replace(text)
			dir := t.TempDir()
			write(t, filepath.Join(dir, "weir.conf"), text)
			p := start(t, nginxCommand(t, dir, "include weir.conf;"))
			p.listening(t, at)
		}
	}
	return []bringsPages{
		{"nginx", "https", viaNginx()},
		{"nginx, which names the daemon", "https", viaNginx("proxy_set_header Host $http_host;", "")},
		{"nginx without TLS", "http", viaNginx(" ssl;", ";")},
		{"nginx without TLS, which names the daemon", "http", viaNginx(" ssl;", ";", "proxy_set_header Host $http_host;", "")},
		{"Caddy", "https", func(t *testing.T, at, admin string) {
			t.Helper()
			path, home := program(t, "caddy"), t.TempDir()
			_, port, err := net.SplitHostPort(at)
			if err != nil {
				t.Fatal(err)
			}
			text := recipe(t, filepath.Join(recipes, "pages-Caddyfile"), "\nlimits.example.com {", "\nhttps://limits.example.com:"+port+" {\n\tbind 127.0.0.1\n\ttls internal", "127.0.0.1:8082", admin)
			file := write(t, filepath.Join(home, "Caddyfile"), "{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n"+text)
			cmd := command(t, path, "run", "--config", file, "--adapter", "caddyfile")
			cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home)
			p := start(t, cmd)
			p.listening(t, at)
			eventually(t, "Caddy makes no certificate", func() bool {
				dialer := tls.Dialer{Config: &tls.Config{ServerName: browsertest.Site, InsecureSkipVerify: true}}
				c, err := dialer.DialContext(t.Context(), "tcp", at)
				return err == nil && c.Close() == nil
			})
		}},
	}
}

// visitor is a browser without a screen, which takes browsertest.Site for this machine.
type visitor struct {
	*client

	origin string
	// modern browsers say of what is fetched by https where it comes from.
	modern bool
}

func newVisitor(t *testing.T, origin string, modern bool) *visitor {
	t.Helper()
	c := newClient(t)
	carry := c.Transport.(*http.Transport)
	carry.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Jar = jar
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &visitor{c, origin, modern}
}

func (v *visitor) get(path string) answer {
	v.t.Helper()
	return v.ask(http.MethodGet, v.origin+path, "")
}

// post sends a form of a page from an origin.
func (v *visitor) post(path, origin string, form url.Values) answer {
	v.t.Helper()
	fields := []string{"Content-Type", "application/x-www-form-urlencoded", "Origin", origin}
	if v.modern {
		site := "same-origin"
		if origin != v.origin {
			site = "cross-site"
		}
		fields = append(fields, "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
	}
	return v.ask(http.MethodPost, v.origin+path, form.Encode(), fields...)
}

// TestPagesBehindProxies: people sign in, look, change something and sign out through a proxy; strangers
// who reach it get nothing without a token.
func TestPagesBehindProxies(t *testing.T) {
	t.Parallel()
	for _, proxy := range proxiesOfPages() {
		t.Run(proxy.name, func(t *testing.T) {
			t.Parallel()
			at, origin := proxy.free(t)
			d, token := serveData(t, t.TempDir(), "--external-url", origin+"/")
			if !strings.Contains(d.output.String(), "try: open "+origin+"/ui/ in a browser") {
				t.Error(d.output)
			}
			proxy.start(t, at, d.admin)
			visits(t, newVisitor(t, origin, false), token)
			if proxy.scheme == "https" {
				visits(t, newVisitor(t, origin, true), token)
			}
			strangers(t, newVisitor(t, origin, true), token)
			// On the machine itself it is reached as before.
			here := newVisitor(t, "http://"+d.admin, true)
			if a := here.post("/ui/sign-in", here.origin, url.Values{"token": {token}}); a.status != http.StatusSeeOther {
				t.Error(a)
			}
			if a := here.ask(http.MethodGet, here.origin+"/ui/", "", "Host", "evil.example"); a.status != http.StatusMisdirectedRequest {
				t.Error(a)
			}
		})
	}
}

func visits(t *testing.T, v *visitor, token string) {
	t.Helper()
	if a := v.get("/"); a.status != http.StatusSeeOther || a.field("Location") != "/ui/" {
		t.Error(a)
	}
	if a := v.get("/ui/"); a.status != http.StatusSeeOther || !strings.HasPrefix(a.field("Location"), "/ui/sign-in") {
		t.Error(a)
	}
	if a := v.post("/ui/sign-in", "https://evil.example", url.Values{"token": {token}}); a.status != http.StatusForbidden || !strings.Contains(a.body, "open "+v.origin) {
		t.Error("of another origin:", a)
	}
	a := v.post("/ui/sign-in", v.origin, url.Values{"token": {token}})
	set, safe := a.field("Set-Cookie"), strings.HasPrefix(v.origin, "https")
	if a.status != http.StatusSeeOther || !strings.Contains(set, "HttpOnly") || strings.Contains(set, "Secure") != safe || strings.HasPrefix(set, "__Host-weir=") != safe {
		t.Fatal(a)
	}
	a = v.get("/ui/domain")
	form := regexp.MustCompile(`name="csrf" value="([^"]+)"`).FindStringSubmatch(a.body)
	if a.status != http.StatusOK || form == nil {
		t.Fatal(a)
	}
	name := "shop"
	if v.modern {
		name = "mail"
	}
	a = v.post("/ui/domain", v.origin, url.Values{"csrf": {form[1]}, "name": {name}, "team": {name}, "reason": {"our first"}})
	if a.status != http.StatusSeeOther {
		t.Error(a)
	}
	if a := v.get("/ui/"); a.status != http.StatusOK || !strings.Contains(a.body, "domain="+name) {
		t.Error(a)
	}
	if a := v.post("/ui/sign-out", v.origin, url.Values{"csrf": {form[1]}}); a.status != http.StatusSeeOther {
		t.Error(a)
	}
	if a := v.get("/ui/"); a.status != http.StatusSeeOther {
		t.Error(a)
	}
}

// strangers get nothing but health, and a right token comes in, however many wrong ones come by the same proxy.
func strangers(t *testing.T, v *visitor, token string) {
	t.Helper()
	for _, path := range []string{
		"/metrics", "/v1/export", "/v1/top", "/v1/series", "/v1/shadow", "/v1/findings", "/v1/schema", "/v1/openapi.json", "/v1/rules", "/v1/explain?id=0123456789abcdef", "/v1/cluster",
		"/debug/pprof/", "/debug/pprof/cmdline", "/none",
	} {
		if a := v.get(path); a.status != http.StatusUnauthorized {
			t.Errorf("GET %s: %v", path, a)
		}
		if a := v.ask(http.MethodGet, v.origin+path, "", "Authorization", "Bearer "+token); a.status == http.StatusUnauthorized || a.status == http.StatusForbidden {
			t.Errorf("GET %s with a token: %v", path, a)
		}
	}
	for _, path := range []string{"/v1/reset", "/v1/explain", "/v1/cluster/forget", "/debug/pprof/symbol"} {
		if a := v.ask(http.MethodPost, v.origin+path, `{"domain":"shop"}`); a.status != http.StatusUnauthorized {
			t.Errorf("POST %s: %v", path, a)
		}
	}
	for _, path := range []string{"/healthz", "/healthcheck", "/readyz"} {
		if a := v.get(path); a.status != http.StatusOK {
			t.Errorf("GET %s: %v", path, a)
		}
	}
	limited := 0
	for range 15 {
		a := v.post("/ui/sign-in", v.origin, url.Values{"token": {"weir_wrong"}})
		b := v.ask(http.MethodGet, v.origin+"/v1/rules", "", "Authorization", "Bearer weir_aaaaaaaaaa_guess")
		if a.status == http.StatusTooManyRequests && b.status == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited == 0 {
		t.Error("wrong tokens have no bound")
	}
	if a := v.ask(http.MethodGet, v.origin+"/v1/rules", "", "Authorization", "Bearer "+token); a.status != http.StatusOK {
		t.Error("strangers lock out:", a)
	}
	if a := v.post("/ui/sign-in", v.origin, url.Values{"token": {token}}); a.status != http.StatusSeeOther {
		t.Error("strangers lock out:", a)
	}
}

// TestPagesWithoutExternalURL: a daemon that does not know of the proxy says at the sign-in which flag is missing.
func TestPagesWithoutExternalURL(t *testing.T) {
	t.Parallel()
	for _, proxy := range proxiesOfPages() {
		t.Run(proxy.name, func(t *testing.T) {
			t.Parallel()
			at, origin := proxy.free(t)
			d, token := serveData(t, t.TempDir())
			proxy.start(t, at, d.admin)
			for _, modern := range []bool{false, true} {
				v := newVisitor(t, origin, modern)
				a := v.post("/ui/sign-in", origin, url.Values{"token": {token}})
				if a.status != http.StatusMisdirectedRequest && a.status != http.StatusForbidden || !strings.Contains(a.body, "start weir serve with --external-url") || a.field("Set-Cookie") != "" {
					t.Errorf("modern %v: %v", modern, a)
				}
			}
		})
	}
}

// TestBrowserBehindProxies: a real browser does the same.
func TestBrowserBehindProxies(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	for _, proxy := range proxiesOfPages() {
		t.Run(proxy.name, func(t *testing.T) {
			at, origin := proxy.free(t)
			d, token := serveData(t, t.TempDir(), "--external-url", origin)
			proxy.start(t, at, d.admin)
			p := &person{b.Open(t, browsertest.Views()[0], origin), d, token, ""}
			p.firstDomain(t)
			p.sees(t, "The domain is there")
			p.click(t, `form[action="/ui/sign-out"] button`)
			p.sees(t, "The first start of the daemon has printed where it left one.")
		})
	}
}
