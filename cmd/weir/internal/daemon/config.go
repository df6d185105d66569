package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/envoy"
	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
)

// Config is what a daemon is told. Each field says what it is when empty.
type Config struct {
	// Rules is a rule file, a folder of them, the URL of a daemon's /v1/export, or the
	// URL of a control plane, as package xds has it. Empty: the built-in demo rules, or with Data none.
	Rules string
	// RulesCache is the file that keeps the last good copy of rules from a URL.
	// Empty: source.DefaultCache.
	RulesCache string
	// RulesTokenFile has the token to show the daemon that rules come from, RulesCA
	// the CA to believe, RulesCert and RulesKey a certificate to show it. They are
	// read again when they change. Empty: none, and the CAs of this machine.
	RulesTokenFile, RulesCA, RulesCert, RulesKey string
	// Candidate is a rule file or a folder of them whose domains run beside those in
	// force, without a say, to be compared. Empty: none.
	Candidate string
	// Store is where counts are kept. Empty: "memory:".
	Store string
	// StorePasswordCommand is a command that prints the password of a store in Redis, for each connection that is
	// made. No shell reads it. Empty: the password is in Store, or there is none.
	StorePasswordCommand string
	// ExternalURL is where browsers reach the pages of the admin listener through a proxy:
	// https://HOST. Empty: at the listener itself.
	ExternalURL string
	// OIDCIssuer is the URL of a provider of OpenID Connect that signs people in at the pages, as it names itself, OIDCClientID what it calls the daemon, and
	// OIDCClientSecretFile the file with the secret that it has given. OIDCRolesFile says which role its groups give for which teams, and
	// OIDCGroupsClaim how the claim with the groups is called. The files are read again when they change. Empty: there is no provider; the client has no
	// secret; DefaultGroupsClaim.
	OIDCIssuer, OIDCClientID, OIDCClientSecretFile, OIDCRolesFile, OIDCGroupsClaim string
	// HTTP, GRPC and Admin are the addresses of the listeners, HOST:PORT, where port
	// 0 is any that is free. Empty: 127.0.0.1, with 8080, 8081 and 8082. HTTP and GRPC
	// may each be a socket of this machine instead, unix:///PATH.
	HTTP, GRPC, Admin string
	// GRPCStore lends the store to programs at the gRPC listener, by package client.
	GRPCStore bool
	// RESP is the address of the Redis protocol, or "off". Empty: "off".
	RESP string
	// UsageLog is the URL of where usage is logged, for billing and audit. Empty: nowhere.
	UsageLog string
	// DynamicMetadata gives Envoy back what it asked, as dynamic metadata of each
	// answer. The metadata of rules goes back in any case.
	DynamicMetadata bool
	// ShadowMode lets all requests of Envoy pass. Their statuses tell what would be denied, and nothing of that is charged.
	ShadowMode bool
	// ResponseHeaders are the names of header fields that Envoy adds to its answers, for the count of the nearest limit, what is left
	// of it, and the seconds until it begins anew: "LIMIT,REMAINING,RESET". Empty: none.
	ResponseHeaders string
	// HealthcheckNeedsRules has /healthcheck say 500 without rules and while the daemon drains. It else says that the process lives.
	HealthcheckNeedsRules bool
	// Metrics is the address of a listener that answers with the metrics alone and takes no token, HOST:PORT or HOST:PORT/PATH.
	// Empty: there is none.
	Metrics string
	// MetricNames are the names of metrics: NamesWeir, or NamesRatelimit for those of envoyproxy/ratelimit, too. Empty: NamesWeir.
	MetricNames string
	// MetricLabels are labels of metrics with ratelimit's names, and tags of statistics: "NAME=VALUE,…". Empty: none.
	MetricLabels string
	// NearLimitRatio is how much of a limit is used when a request that passes is near it, from 0 to 1, as "0.8". Empty: 0.8.
	NearLimitRatio string
	// Statsd is the URL of a statsd server that is told ratelimit's statistics, tcp://HOST:PORT or udp://HOST:PORT. Empty: none is.
	Statsd string
	// Debug is the address of a listener that answers what the debug port of envoyproxy/ratelimit does. Empty: there is none.
	Debug string
	// HashKeys puts hashes in the place of clients' names in what the admin listener
	// tells of them, but for explanations.
	HashKeys bool
	// TLSCert and TLSKey are files with the certificate of all listeners and its key,
	// TLSClientCA one with the CA of the certificates that clients must show. They
	// are read again when they change. Empty: no TLS, and no such certificates.
	TLSCert, TLSKey, TLSClientCA string
	// TLSListeners are the listeners that speak TLS, of those in Listeners, separated by commas. Empty: all.
	TLSListeners string
	// TLSClientSAN is a name that the certificates of clients must have. Empty: any of TLSClientCA will do.
	TLSClientSAN string
	// AdminTokenFile has the tokens that open the admin listener, RESPPasswordFile the
	// passwords of the Redis listener, GRPCStoreTokenFile the tokens of programs that the
	// store is lent to, one a line. They are read again when they change. Empty: none
	// is needed, but off loopback of the admin listener and of such programs.
	AdminTokenFile, RESPPasswordFile, GRPCStoreTokenFile string
	// Cluster is the address for other nodes, TCP and UDP, where port 0 is any that is
	// free. It is used when Store is "cluster:". Empty: DefaultCluster.
	Cluster string
	// Join is the addresses of other nodes, separated by commas. Its own is ignored.
	// Empty: it waits to be joined.
	Join string
	// ClusterName is the name of the cluster; nodes of clusters with other names, or with
	// none, are refused. Empty: it has none.
	ClusterName string
	// Bootstrap tells a node that it is the first of a new cluster: it forgets the members that it knew.
	Bootstrap bool
	// ClusterKeyFile has the keys that all nodes share, one a line. It is read again
	// when it changes. Empty: none, which only loopback allows.
	ClusterKeyFile string
	// Data is a folder for the rule database, or the URL of a PostgreSQL database
	// that several nodes share, postgres://…. Empty: rules come from Rules alone.
	Data string
	// WebhookNetworks are networks where webhooks may go beside the public Internet, separated by commas. Empty: none.
	WebhookNetworks string

	// GRPCMaxAge is for how long a connection of gRPC takes calls. 0: for ever.
	GRPCMaxAge time.Duration
	// LameDuck is how long a daemon that is told to stop says so at /readyz and
	// in its gRPC health while it answers as before, so that load balancers send
	// nothing more. 0: DefaultLameDuck.
	LameDuck time.Duration
	// Drain is how long calls in flight may then take before they are cut off.
	// 0: DefaultDrain.
	Drain time.Duration

	// NotifySocket is where systemd hears READY=1 and STOPPING=1. Empty: nowhere.
	NotifySocket string
	// Stdout gets the ready line. Nil: nobody does.
	Stdout io.Writer
	// Log gets what people should know. Nil: nobody does.
	Log *slog.Logger
	// Version is told by the metrics.
	Version string

	rulesPoll time.Duration // source.Options.Poll; tests do not wait so long
	lookEvery time.Duration // lookEvery; the same
	saveEvery time.Duration // SnapshotEvery; the same
	goVersion string        // runtime.Version; tests have others

	statsd  *telemetry.Statsd // of Statsd; nil: there is none
	headers envoy.Headers     // of ResponseHeaders
	labels  []string          // of MetricLabels, names and values by turns
	near    int64             // of NearLimitRatio, in millionths
}

// Defaults of Config.
const (
	DefaultStore    = "memory:"
	DefaultHTTP     = "127.0.0.1:8080"
	DefaultGRPC     = "127.0.0.1:8081"
	DefaultAdmin    = "127.0.0.1:8082"
	DefaultRESP     = "off"
	DefaultLameDuck = 200 * time.Millisecond
	DefaultDrain    = 10 * time.Second
)

// ConfigError says that a Config can't be meant, and what to write instead.
type ConfigError struct {
	Flag string // of weir serve, such as --admin
	Text string
}

func (e *ConfigError) Error() string { return e.Flag + ": " + e.Text }

func (c *Config) fill() {
	c.Store = cmp.Or(c.Store, DefaultStore)
	c.HTTP = cmp.Or(c.HTTP, DefaultHTTP)
	c.GRPC = cmp.Or(c.GRPC, DefaultGRPC)
	c.Admin = cmp.Or(c.Admin, DefaultAdmin)
	c.RESP = cmp.Or(c.RESP, DefaultRESP)
	c.Cluster = cmp.Or(c.Cluster, DefaultCluster)
	c.MetricNames = cmp.Or(c.MetricNames, NamesWeir)
	c.OIDCGroupsClaim = cmp.Or(c.OIDCGroupsClaim, DefaultGroupsClaim)
	c.LameDuck = cmp.Or(c.LameDuck, DefaultLameDuck)
	c.Drain = cmp.Or(c.Drain, DefaultDrain)
	c.lookEvery = cmp.Or(c.lookEvery, lookEvery)
	c.saveEvery = cmp.Or(c.saveEvery, SnapshotEvery)
	c.goVersion = cmp.Or(c.goVersion, runtime.Version())
	c.Stdout = cmp.Or(c.Stdout, io.Discard)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
}

// check finds what can't be meant. All faults are told at once.
func (c *Config) check() error {
	var errs []error
	errs = append(errs, CheckStore(c.Store))
	errs = append(errs, c.checkCluster()...)
	if c.WebhookNetworks != "" && c.Data == "" {
		errs = append(errs, &ConfigError{"--webhook-networks", "webhooks are in the rule database; name it by --data"})
	}
	for _, door := range []struct{ flag, address string }{{"--http", c.HTTP}, {"--grpc", c.GRPC}, {"--admin", c.Admin}, {"--resp", c.RESP}} {
		if door.flag == "--resp" && door.address == DefaultRESP {
			continue
		}
		if listen.IsSocket(door.address) && (door.flag == "--http" || door.flag == "--grpc") {
			if err := listen.CheckSocket(strings.TrimPrefix(door.flag, "--"), door.address); err != nil {
				errs = append(errs, &ConfigError{door.flag, err.Error()})
			}
			continue
		}
		address, err := net.ResolveTCPAddr("tcp", door.address)
		switch {
		case err != nil:
			errs = append(errs, &ConfigError{door.flag, err.Error() + "; write HOST:PORT, as 127.0.0.1:8080"})
		case door.flag == "--admin" && !address.IP.IsLoopback() && !c.adminTokens():
			errs = append(errs, adminNeedsToken(door.address))
		case door.flag == "--grpc" && c.GRPCStore && !address.IP.IsLoopback() && c.storeOpen():
			errs = append(errs, storeNeedsToken(door.address))
		}
	}
	errs = append(errs, c.checkTelling()...)
	errs = append(errs, c.checkTLS()...)
	if _, _, err := c.external(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.checkOIDC())
	if listen.IsSocket(c.HTTP) && c.HTTP == c.GRPC {
		errs = append(errs, &ConfigError{"--http", "--grpc has the same socket; give each a path of its own"})
	}
	if c.GRPCStoreTokenFile != "" && !c.GRPCStore {
		errs = append(errs, &ConfigError{"--grpc-store-token-file", "the store is not offered to programs; give --grpc-store too"})
	}
	if c.GRPCMaxAge != 0 && c.GRPCMaxAge < time.Second {
		errs = append(errs, &ConfigError{"--grpc-max-connection-age", fmt.Sprintf("%v is too short; write 1s or more, or 0 for never", c.GRPCMaxAge)})
	}
	if c.RESPPasswordFile != "" && c.RESP == DefaultRESP {
		errs = append(errs, &ConfigError{"--resp-password-file", "the Redis listener is off; open it with --resp ADDR"})
	}
	return errors.Join(errs...)
}

// external is ExternalURL, as an origin, and its host. Both are empty where it is.
func (c *Config) external() (origin, host string, err error) {
	if c.ExternalURL == "" {
		return "", "", nil
	}
	u, err := url.Parse(c.ExternalURL)
	why := ""
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil:
		why = "write the URL that browsers open, as https://limits.example.com"
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		why = "the pages take a whole host, and no path behind it: they are at /ui/ there; write " + u.Scheme + "://" + u.Host + ", and let the proxy hand on all paths of that host"
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r <= ' ' || r > '~' }):
		why = "write the host as browsers send it, in ASCII: xn--…"
	case !c.adminTokens():
		why = "through the proxy, anybody would be let in without a token; give --data DIR or --admin-token-file FILE, too"
	default:
		usual := map[string]string{"https": ":443", "http": ":80"}[u.Scheme] // which browsers leave out
		host = strings.ToLower(u.Hostname())
		origin = u.Scheme + "://" + strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(u.Host, usual), ":"))
		return origin, host, nil
	}
	said := "this URL" // it may have a password
	if err == nil && u.User == nil {
		said = strconv.Quote(c.ExternalURL)
	}
	return "", "", &ConfigError{"--external-url", said + ": " + why}
}

// adminLocal is whether only this machine reaches the admin listener.
func (c *Config) adminLocal() bool { return listen.Local(c.Admin) }

// adminTokens is whether there are tokens to open the admin listener with.
func (c *Config) adminTokens() bool { return c.AdminTokenFile != "" || c.Data != "" }

func adminNeedsToken(address string) error {
	return &ConfigError{"--admin", address + " can be reached from elsewhere, where the admin listener needs a token; " +
		"give --admin-token-file FILE, or write a loopback address, as " + DefaultAdmin}
}

// storeOpen is whether the store is lent to any client that reaches the gRPC listener.
func (c *Config) storeOpen() bool {
	return c.GRPCStoreTokenFile == "" && (c.TLSClientCA == "" || !c.speaksTLS("grpc"))
}

func storeNeedsToken(address string) error {
	return &ConfigError{"--grpc-store", address + " can be reached from elsewhere, where programs that use the store need a token or a certificate; " +
		"give --grpc-store-token-file FILE or --tls-client-ca FILE, or write a loopback address, as --grpc " + DefaultGRPC}
}
