package main

import (
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
)

// serveLong is what weir serve --help says.
const serveLong = `Run the daemon. When every listener accepts, stdout says so once, and how to call it.
Logs go to stderr. SIGTERM drains and exits 0; another one, half a second later
or more, ends it at once.

Rules are read again when their files change, or the daemon that they come
from has new ones, and on SIGHUP. When the new ones are bad, half written or
missing, the old rules stay active: the log, /readyz and the metric
weir_rules_reload_success say so. The daemon reads rules from another daemon (its
admin listener's /v1/export) every 10 s, and keeps the last good copy in the user's
cache folder, by the hash of the URL, for a start without it.

With --rules xds://HOST:PORT?node=NAME rules come from a control plane that speaks
xDS, such as Envoy Gateway. More options follow with &: ca=FILE, cert=FILE,
key=FILE, server-name=NAME, tls=true, metadata=KEY:VALUE,…,
node-metadata=KEY=VALUE,…, wait=5s, force-start=true, last=FILE.

With --tls-cert and --tls-key all listeners speak TLS. Certificates, keys, tokens
and passwords are read again when their files change, as above; connections
stay. Where --tls-client-ca asks for the certificates of clients, only
/healthz, /healthcheck and /readyz answer without.

With --store redis://HOST:PORT several daemons share one count; rediss, redis+unix,
redis+sentinel, redis+cluster, memcached, nats and postgres work, too, and so does
an event log, by which daemons tell each other what they let pass:
kafka://HOST:PORT/TOPIC or nats://HOST:PORT?log=STREAM. While the store does not
answer, each rule's fallback decides, and log, /readyz and
weir_store_unavailable_servers say so. weir doctor --store URL examines its servers.

With --store cluster: the daemons that --join each other share their counts
without any server: see weir cluster.

Each flag may come from the environment instead, as WEIR_ and its name in
capitals with _ for -: WEIR_STORE, WEIR_TLS_CERT, WEIR_GRPC_STORE=true. The flag
wins, an empty variable counts as none, and the log names variables that begin with
WEIR_ and are no flag, with the nearest that is one.

With OTEL_EXPORTER_OTLP_ENDPOINT in the environment, a span of each call goes
to an OpenTelemetry collector there, and all metrics each minute.

GOGC is 400 unless the environment says otherwise, and GOMEMLIMIT three
quarters of the memory that the machine or its container has: collecting less
often saves a fifth of the time, and the limit keeps it from costing too much
memory.`

func serveCommand() *cobra.Command {
	var c daemon.Config
	var l logging
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long:  serveLong,
		Example: `  weir serve
  weir serve --rules /etc/weir/rules --http 0.0.0.0:8080 --grpc 0.0.0.0:8081
  weir serve --rules /etc/weir/rules --store redis://10.0.0.5:6379
  weir serve --rules http://127.0.0.1:9082/v1/export
  weir serve --rules https://weir.example:8082/v1/export --rules-ca ca.pem --rules-token-file token
  weir serve --rules 'xds://envoy-gateway:18001?node=envoy-ratelimit&ca=ca.crt&cert=tls.crt&key=tls.key'`,
		Args: noArguments,
	}
	serveFlags(cmd.Flags(), &c)
	logFlags(cmd.Flags(), &l)
	storeCompletion(cmd)
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		from, err := readEnvironment(cmd.Flags(), os.Getenv)
		if err != nil {
			return err
		}
		return runDaemon(cmd, &c, &l, from, func(*slog.Logger) {})
	})
	return cmd
}

// runDaemon runs a daemon to its end. from names the variables that flags came of. The log hears of say first.
func runDaemon(cmd *cobra.Command, c *daemon.Config, l *logging, from fromEnvironment, say func(*slog.Logger)) (err error) {
	if c.Log, err = l.open(cmd.ErrOrStderr(), from); err != nil {
		return err
	}
	c.Stdout = cmd.OutOrStdout()
	c.Version = version()
	c.NotifySocket = os.Getenv("NOTIFY_SOCKET")
	say(c.Log)
	warnOfUnknown(cmd.Flags(), os.Environ(), c.Log)
	d, err := daemon.New(*c)
	if err != nil {
		return from.named(err)
	}
	tuneMemory(os.Getenv, c.Log)
	signal.Ignore(syscall.SIGPIPE) // who reads the log may go away, and the daemon stays
	defer onHangup(d.Reload)()
	return from.named(d.Run(cmd.Context()))
}

func serveFlags(f *pflag.FlagSet, c *daemon.Config) {
	f.StringVar(&c.Rules, "rules", "", "`PATH` of a rule file, of a folder of them, or URL of a daemon's /v1/export or of a control plane, xds://… (default: built-in demo rules)")
	f.StringVar(&c.Candidate, "candidate", "", "`PATH` of a rule file, or of a folder of them, whose domains run beside the active ones, deny no client, and are compared: see GET /v1/shadow (default: none)")
	f.StringVar(&c.RulesTokenFile, "rules-token-file", "", "`FILE` whose first line is the token to show the daemon that rules come from")
	f.StringVar(&c.RulesCA, "rules-ca", "", "`FILE` with the CA to trust there (default: the CAs of this machine)")
	f.StringVar(&c.RulesCert, "rules-cert", "", "`FILE` with a certificate to show there")
	f.StringVar(&c.RulesKey, "rules-key", "", "`FILE` with its key")
	f.StringVar(&c.Store, "store", daemon.DefaultStore, "`URL` of where counts are kept")
	f.StringVar(&c.StorePasswordCommand, "store-password-command", "", "`CMD` that prints the password of a store in Redis, run for each new connection and at most once a second; without a shell (default: the password of the URL)")
	f.StringVar(&c.HTTP, "http", daemon.DefaultHTTP, "`ADDR` of HTTP and JSON, or unix:///PATH of a socket for this machine")
	f.StringVar(&c.GRPC, "grpc", daemon.DefaultGRPC, "`ADDR` of Envoy's rate limit service, or unix:///PATH of a socket for this machine")
	f.Var((*timeOrNone)(&c.GRPCMaxAge), "grpc-max-connection-age", "`TIME` after which a gRPC client is told to open another connection, for balancers that spread connections (default: never)")
	f.StringVar(&c.UsageLog, "usage-log", "", "`URL` of where each second's usage is logged by rule and key, for billing and audit: file:DIR, kafka://HOST:PORT/TOPIC or nats://HOST:PORT/SUBJECT (default: nowhere)")
	f.BoolVar(&c.GRPCStore, "grpc-store", false, "offer the store at the gRPC listener to programs that bring limits of their own (Go package client)")
	f.StringVar(&c.GRPCStoreTokenFile, "grpc-store-token-file", "", "`FILE` with the tokens that these must show, one a line; off loopback they need one, or a certificate (default: none)")
	f.StringVar(&c.Metrics, "metrics", "", "`ADDR` of metrics alone, HOST:PORT or HOST:PORT/PATH, which takes no token (default: at --admin only)")
	f.StringVar(&c.MetricNames, "metric-names", daemon.NamesWeir, "`NAMES` of metrics: weir, or ratelimit for those of envoyproxy/ratelimit beside them")
	f.StringVar(&c.MetricLabels, "metric-labels", "", "`NAME=VALUE,…` of labels for metrics with ratelimit's names, and tags for --statsd (default: none)")
	f.StringVar(&c.NearLimitRatio, "near-limit-ratio", "0.8", "`RATIO` of a limit that is used when metrics count a request as near it, from 0 to 1")
	f.StringVar(&c.Statsd, "statsd", "", "`URL` of a statsd server that is told ratelimit's statistics: tcp://HOST:PORT or udp://HOST:PORT, with ?every=10s or tags=dogstatsd (default: none)")
	f.StringVar(&c.Debug, "debug", "", "`ADDR` of /rlconfig and /stats, as at ratelimit's debug port; it takes no token (default: off)")
	f.StringVar(&c.Admin, "admin", daemon.DefaultAdmin, "`ADDR` of metrics, profiles and the active rules")
	f.StringVar(&c.ExternalURL, "external-url", "", "`URL` that browsers open to reach the pages of the admin listener through a proxy, as https://limits.example.com (default: the listener itself)")
	f.StringVar(&c.OIDCIssuer, "oidc-issuer", "", "`URL` of an OpenID Connect provider that signs people in at the pages, as it names itself; needs --data and --external-url (default: they show tokens)")
	f.StringVar(&c.OIDCClientID, "oidc-client-id", "", "`ID` that the provider has given to Weir")
	f.StringVar(&c.OIDCClientSecretFile, "oidc-client-secret-file", "", "`FILE` whose first line is the secret that it has given (default: none, for a public client)")
	f.StringVar(&c.OIDCRolesFile, "oidc-roles-file", "", "`FILE` that says which role its groups give for which teams: publish shop,mail Shop leads")
	f.StringVar(&c.OIDCGroupsClaim, "oidc-groups-claim", daemon.DefaultGroupsClaim, "`NAME` of the claim that has a person's groups")
	f.StringVar(&c.RESP, "resp", daemon.DefaultRESP, "`ADDR` of the Redis protocol, such as 127.0.0.1:6379")
	f.BoolVar(&c.DynamicMetadata, "dynamic-metadata", false, "give Envoy the domain and descriptors of each request back as dynamic metadata; the metadata of rules goes back in any case")
	f.BoolVar(&c.ShadowMode, "shadow-mode", false, "let all requests of Envoy pass, and tell it in their statuses what would be denied")
	f.StringVar(&c.ResponseHeaders, "response-headers", "", "`LIMIT,REMAINING,RESET` of header fields that Envoy adds to its answers, for the nearest limit (default: none)")
	f.BoolVar(&c.HealthcheckNeedsRules, "healthcheck-needs-rules", false, "have /healthcheck say 500 without rules and while the daemon drains; it else says that the process lives")
	f.StringVar(&c.TLSCert, "tls-cert", "", "`FILE` with the certificate of all listeners, followed by the chain to its CA (default: no TLS)")
	f.StringVar(&c.TLSKey, "tls-key", "", "`FILE` with its key")
	f.StringVar(&c.TLSClientCA, "tls-client-ca", "", "`FILE` with the CA of the certificates that clients must show (default: they need none)")
	f.StringVar(&c.TLSClientSAN, "tls-client-san", "", "`NAME` that these certificates must be for (default: any)")
	f.StringVar(&c.TLSListeners, "tls-listeners", "", "`LISTENER,…` that speak TLS, of http, grpc, admin, resp, metrics and debug (default: all)")
	f.StringVar(&c.AdminTokenFile, "admin-token-file", "", "`FILE` with the tokens that open all of the admin listener, one a line; off loopback it needs this or --data (default: with --data tokens of the rule database, else none)")
	f.BoolVar(&c.HashKeys, "hash-keys", false, "show hashes of the most limited clients, under a key drawn at the start, in place of their names")
	f.StringVar(&c.RESPPasswordFile, "resp-password-file", "", "`FILE` with the passwords of the Redis protocol, one a line (default: it needs none)")
	f.StringVar(&c.Cluster, "cluster", daemon.DefaultCluster, "`ADDR` for other nodes, TCP and UDP, and this one's name; used with --store cluster:")
	f.StringVar(&c.Join, "join", "", "`ADDR,…` of other nodes (default none: it waits to be joined)")
	f.StringVar(&c.ClusterName, "cluster-name", "", "`NAME` of the cluster; nodes with another one, or with none, are refused (default: it has none)")
	f.BoolVar(&c.Bootstrap, "bootstrap", false, "this node is the first of a new cluster: it forgets the members that it knew; give it once, and not where a supervisor starts the node again")
	f.StringVar(&c.ClusterKeyFile, "cluster-key-file", "", "`FILE` with the keys that all nodes share, one a line in hexadecimal digits; needed off loopback")
	f.StringVar(&c.Data, "data", "", "`DIR` of the rule database, or the URL of one in PostgreSQL, postgres://… (default none)")
	f.StringVar(&c.WebhookNetworks, "webhook-networks", "", "`CIDR,…` of networks that webhooks may be in, as 10.0.0.0/8, beside public addresses; also without TLS (default: none)")
}

// onHangup calls f at each SIGHUP, until stop.
func onHangup(f func()) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	var g sync.WaitGroup
	g.Go(func() {
		for range hangups {
			f()
		}
	})
	return func() {
		signal.Stop(hangups)
		close(hangups)
		g.Wait()
	}
}
