package daemon

import (
	"net/url"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/openid"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/webui"
)

// DefaultGroupsClaim is that of Config.OIDCGroupsClaim.
const DefaultGroupsClaim = "groups"

// checkOIDC refuses what is half a provider.
func (c *Config) checkOIDC() error {
	if c.OIDCIssuer == "" {
		for flag, value := range map[string]string{
			"--oidc-client-id": c.OIDCClientID, "--oidc-client-secret-file": c.OIDCClientSecretFile, "--oidc-roles-file": c.OIDCRolesFile,
		} {
			if value != "" {
				return &ConfigError{flag, "it is of no use without a provider; give --oidc-issuer URL too"}
			}
		}
		return nil
	}
	u, err := url.Parse(c.OIDCIssuer)
	switch {
	case err != nil || !openid.Safe(c.OIDCIssuer) || u.RawQuery != "":
		return &ConfigError{"--oidc-issuer", "write the URL of the provider as it names itself, with https, as https://login.example.com/realms/staff"}
	case strings.HasSuffix(u.Path, "/.well-known/openid-configuration"):
		return &ConfigError{"--oidc-issuer", "write what stands before /.well-known/openid-configuration"}
	case c.OIDCClientID == "":
		return &ConfigError{"--oidc-client-id", "is missing; write the ID that the provider has given to Weir"}
	case c.OIDCRolesFile == "":
		return &ConfigError{"--oidc-roles-file", "is missing, and nobody would have a role; write a file with lines as: publish shop Shop leads"}
	case c.Data == "":
		return &ConfigError{"--oidc-issuer", "people sign in where there is a rule database; give --data DIR too"}
	case c.ExternalURL == "":
		return &ConfigError{"--oidc-issuer", "the provider sends browsers back to one URL; give it by --external-url too, as --external-url https://limits.example.com, or on this machine --external-url http://" + c.Admin}
	}
	return nil
}

// openProvider makes what signs people in by their accounts elsewhere; nil: there is none.
func (d *Daemon) openProvider(origin string) *openid.Provider {
	if d.config.OIDCIssuer == "" {
		return nil
	}
	o := openid.Options{
		Issuer: d.config.OIDCIssuer, ClientID: d.config.OIDCClientID, GroupsClaim: d.config.OIDCGroupsClaim, Back: origin + webui.WayBack,
	}
	if d.keys.client != nil {
		o.Secret = d.keys.client.Value
	}
	return openid.New(o)
}

// person is who a person is whom the provider knows, by the roles of their groups now, and which groups give them.
func (d *Daemon) person(p *rulestore.Person) (rulestore.Actor, []string, error) {
	if p.Issuer != d.config.OIDCIssuer {
		return rulestore.Actor{}, nil, &rulestore.Error{Kind: rulestore.Unknown, Text: "people are not signed in by " + p.Issuer + " any more"}
	}
	found, giving := d.keys.roles.Of(p.Groups)
	var grants []rulestore.Grant
	for _, g := range found {
		role, err := rulestore.ParseRole(g.Role)
		if err != nil {
			return rulestore.Actor{}, nil, err
		}
		grants = append(grants, rulestore.Grant{Role: role, Team: g.Team})
	}
	by, err := p.As(grants)
	return by, giving, err
}
