package daemon

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/openidtest"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/certtest"
	"github.com/weir-limit/weir/internal/porttest"
)

// withProvider is a daemon where a provider signs people in.
func withProvider(t *testing.T, issuer string) Config {
	t.Helper()
	return Config{
		Data: t.TempDir(), ExternalURL: "https://limits.example.com", OIDCIssuer: issuer, OIDCClientID: openidtest.Client,
		OIDCClientSecretFile: certtest.File(t, "secret", []byte(openidtest.Secret+"\n")), OIDCRolesFile: certtest.File(t, "roles", []byte("publish shop shop-leads\npropose {team} dev-{team}\n")),
	}
}

// TestProviderFlags: half a provider is refused, and what is missing is named.
func TestProviderFlags(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Config)
		flag   string
		says   string
	}{
		"without TLS":     {func(c *Config) { c.OIDCIssuer = "http://login.example.com" }, "--oidc-issuer", "with https"},
		"a password":      {func(c *Config) { c.OIDCIssuer = "https://ann:secret@login.example.com" }, "--oidc-issuer", "with https"},
		"no URL":          {func(c *Config) { c.OIDCIssuer = "login.example.com" }, "--oidc-issuer", "with https"},
		"discovery":       {func(c *Config) { c.OIDCIssuer += "/.well-known/openid-configuration" }, "--oidc-issuer", "write what stands before"},
		"no client":       {func(c *Config) { c.OIDCClientID = "" }, "--oidc-client-id", "is missing"},
		"no roles":        {func(c *Config) { c.OIDCRolesFile = "" }, "--oidc-roles-file", "nobody would have a role"},
		"no database":     {func(c *Config) { c.Data, c.AdminTokenFile = "", certtest.File(t, "tokens", []byte(oneToken)) }, "--oidc-issuer", "give --data"},
		"no URL of pages": {func(c *Config) { c.ExternalURL = "" }, "--oidc-issuer", "by --external-url too"},
		"no provider":     {func(c *Config) { c.OIDCIssuer = "" }, "", "give --oidc-issuer URL too"},
		"a bad role":      {func(c *Config) { c.OIDCRolesFile = certtest.File(t, "roles", []byte("owner shop leads\n")) }, "--oidc-roles-file", `line 1 has the role "owner"`},
		"a short secret":  {func(c *Config) { c.OIDCClientSecretFile = certtest.File(t, "secret", []byte("short\n")) }, "--oidc-client-secret-file", "can be guessed"},
	} {
		config := withProvider(t, "https://login.example.com")
		c.change(&config)
		_, err := New(config)
		bad, ok := errors.AsType[*ConfigError](err)
		if !ok || c.flag != "" && bad.Flag != c.flag || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProviderAway: a daemon starts without its provider, says at the sign-in that it is away, and takes tokens.
func TestProviderAway(t *testing.T) {
	t.Parallel()
	r := start(t, withProvider(t, "http://"+porttest.Free(t)))
	status, page := get(t, "http://"+r.admin+"/ui/sign-in/start")
	if status != http.StatusServiceUnavailable || !strings.Contains(page, "does not answer") || !strings.Contains(page, `name="token"`) {
		t.Error(status, page)
	}
	if _, err := r.daemon.signIn(t.Context(), token(t, r, rulestore.Read, "shop")); err != nil {
		t.Error(err)
	}
}

// TestRolesFile: who somebody is follows the file of roles, also while they are signed in.
func TestRolesFile(t *testing.T) {
	t.Parallel()
	c := withProvider(t, "https://login.example.com")
	r := start(t, c)
	ann := &rulestore.Person{Issuer: c.OIDCIssuer, Subject: "ann", Name: "oidc/ann@example.com", Groups: []string{"guests", "dev-mail", "shop-leads"}}
	by, giving, err := r.daemon.person(ann)
	if err != nil || !by.May(rulestore.Publish, "shop") || by.May(rulestore.Publish, "mail") || !by.May(rulestore.Propose, "mail") || strings.Join(giving, " ") != "dev-mail shop-leads" {
		t.Error(by, giving, err)
	}
	certtest.Write(t, c.OIDCRolesFile, []byte("read shop shop-leads\n"))
	r.daemon.lookAtKeys(true)
	if by, _, err := r.daemon.person(ann); err != nil || by.May(rulestore.Propose, "shop") || !by.May(rulestore.Read, "shop") || by.May(rulestore.Read, "mail") {
		t.Error(by, err)
	}
	ann.Issuer = "https://evil.example"
	if by, _, err := r.daemon.person(ann); !rulestore.IsKind(err, rulestore.Unknown) {
		t.Error("an account of another provider counts:", by, err)
	}
}
