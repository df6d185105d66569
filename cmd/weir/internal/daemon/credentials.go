package daemon

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/credentials"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
)

// lookEvery is how often the daemon looks at the files of credentials. A change counts at the
// second look that sees it.
const lookEvery = time.Second

// keys are the credentials of the listeners. Each is nil when it is not asked for.
type keys struct {
	tls       *credentials.Server
	tokens    *credentials.Secrets    // of the admin listener
	passwords *credentials.Secrets    // of the Redis listener
	lending   *credentials.Secrets    // of programs that the store is lent to
	shared    *credentials.SharedKeys // of the cluster
	client    *credentials.Secret     // of this client of the provider
	roles     *credentials.Roles      // of groups that the provider tells of

	watched []Watched
	expired string // the certificate that was last told to have expired
}

// use has credentials used and watched that were opened, unless that failed.
func use[F Reloaded](k *keys, name string, to *F, opened F, err error) error {
	if err != nil {
		return configError(err)
	}
	*to = opened
	k.watched = append(k.watched, Watched{Name: name, Files: opened})
	return nil
}

// openKeys reads the credentials. Faults are told at once, each a *ConfigError.
func openKeys(c *Config) (keys, error) {
	var k keys
	var errs []error
	now := time.Now()
	switch {
	case c.TLSCert != "" && c.TLSKey != "":
		s, err := credentials.OpenServer(now, credentials.File{Flag: "--tls-cert", Path: c.TLSCert},
			credentials.File{Flag: "--tls-key", Path: c.TLSKey}, credentials.File{Flag: "--tls-client-ca", Path: c.TLSClientCA})
		errs = append(errs, use(&k, "tls", &k.tls, s, err))
	case c.TLSCert != "":
		errs = append(errs, &ConfigError{"--tls-cert", "a certificate is of no use without its key; give --tls-key too"})
	case c.TLSKey != "":
		errs = append(errs, &ConfigError{"--tls-key", "a key is of no use without its certificate; give --tls-cert too"})
	case c.TLSClientCA != "":
		errs = append(errs, &ConfigError{"--tls-client-ca", "clients show certificates in TLS only; give --tls-cert and --tls-key too"})
	}
	secrets := func(name, flag, path string, to **credentials.Secrets) {
		if path != "" {
			s, err := credentials.OpenSecrets(now, credentials.File{Flag: flag, Path: path})
			errs = append(errs, use(&k, name, to, s, err))
		}
	}
	secrets("admin-token", "--admin-token-file", c.AdminTokenFile, &k.tokens)
	secrets("resp-password", "--resp-password-file", c.RESPPasswordFile, &k.passwords)
	secrets("grpc-store-token", "--grpc-store-token-file", c.GRPCStoreTokenFile, &k.lending)
	if c.OIDCClientSecretFile != "" {
		s, err := credentials.OpenSecret(now, credentials.File{Flag: "--oidc-client-secret-file", Path: c.OIDCClientSecretFile})
		errs = append(errs, use(&k, "oidc-client-secret", &k.client, s, err))
	}
	if c.OIDCRolesFile != "" {
		r, err := credentials.OpenRoles(now, credentials.File{Flag: "--oidc-roles-file", Path: c.OIDCRolesFile}, rulestore.Roles())
		errs = append(errs, use(&k, "oidc-roles", &k.roles, r, err))
	}
	if c.ClusterKeyFile != "" {
		shared, err := credentials.OpenSharedKeys(now, credentials.File{Flag: "--cluster-key-file", Path: c.ClusterKeyFile})
		errs = append(errs, use(&k, "cluster-key", &k.shared, shared, err))
	}
	return k, errors.Join(errs...)
}

// password is whether a word opens the Redis listener; nil when all do.
func (k *keys) password() func([]byte) bool {
	if k.passwords == nil {
		return nil
	}
	return k.passwords.Has
}

func configError(err error) error {
	if bad, ok := errors.AsType[*credentials.Error](err); ok {
		return &ConfigError{bad.File.Flag, bad.File.Path + ": " + bad.Text}
	}
	return err
}

// Listeners are the names of all listeners.
func Listeners() []string { return []string{"http", "grpc", "admin", "resp", "metrics", "debug"} }

// speaksTLS is whether a listener speaks TLS.
func (c *Config) speaksTLS(name string) bool {
	return c.TLSCert != "" && (c.TLSListeners == "" || slices.Contains(strings.Split(c.TLSListeners, ","), name))
}

// safe is the TLS of a listener; nil when there is none. clients is how it asks for
// their certificates, protocols what it speaks.
func (d *Daemon) safe(name string, clients tls.ClientAuthType, protocols ...string) *tls.Config {
	if !d.config.speaksTLS(name) {
		return nil
	}
	return d.keys.tls.Config(clients, d.config.TLSClientSAN, protocols...)
}

// checkTLS finds what can't be meant of the listeners that speak TLS.
func (c *Config) checkTLS() (errs []error) {
	if c.TLSListeners != "" {
		for name := range strings.SplitSeq(c.TLSListeners, ",") {
			if !slices.Contains(Listeners(), name) {
				errs = append(errs, &ConfigError{"--tls-listeners", fmt.Sprintf("%q is no listener; write some of %s, with commas", name, strings.Join(Listeners(), ","))})
			}
		}
		if c.TLSCert == "" {
			errs = append(errs, &ConfigError{"--tls-listeners", "no listener speaks TLS without a certificate; give --tls-cert and --tls-key too"})
		}
	}
	if c.TLSClientSAN != "" && c.TLSClientCA == "" {
		errs = append(errs, &ConfigError{"--tls-client-san", "clients show no certificate; give --tls-client-ca too"})
	}
	return errs
}

// lookAtKeys makes new credentials active, and logs that. Bad ones leave the credentials before
// them active.
func (d *Daemon) lookAtKeys(atOnce bool) {
	d.looking.Lock()
	defer d.looking.Unlock()
	now := time.Now()
	for _, w := range d.keys.watched {
		if w.Look(now, atOnce, d.config.Log) && w.Name == "cluster-key" {
			d.rotate()
		}
	}
	if text := d.keys.expiry(now); text != d.keys.expired {
		if d.keys.expired = text; text != "" {
			d.config.Log.Error("the certificate has expired; clients will refuse it", "certificate", text)
		}
	}
}

// metrics are those of the credentials that are in use.
func (k *keys) metrics() (all []prometheus.Metric) {
	for _, w := range k.watched {
		all = append(all, telemetry.CredentialsCurrent(w.Name, w.Files.Failed() == ""))
	}
	if k.tls != nil {
		all = append(all, telemetry.CertificateExpiry(k.tls))
	}
	return all
}

// expiry says that the active certificate has expired, if it has.
func (k *keys) expiry(now time.Time) string {
	if k.tls == nil || now.Before(k.tls.Leaf().NotAfter) {
		return ""
	}
	return "the active certificate expired at " + k.tls.Leaf().NotAfter.UTC().Format(time.RFC3339)
}

// detail is what /readyz should say of the credentials, a line each.
func (k *keys) detail(now time.Time) (lines []string) {
	for _, w := range k.watched {
		if failed := w.Files.Failed(); failed != "" {
			lines = append(lines, fmt.Sprintf("the active credentials are old (%s) because a reload failed: %s", w.Name, failed))
		}
	}
	if text := k.expiry(now); text != "" {
		lines = append(lines, text)
	}
	return lines
}
