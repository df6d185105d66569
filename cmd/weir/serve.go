package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/weir-limit/weir/internal/daemon"
)

func serveCommand() *cobra.Command {
	var c daemon.Config
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Run the daemon. When every door accepts, stdout says so once, and how to ask.
Logs go to stderr. SIGTERM drains and exits 0; a second one ends it at once.

GOGC is 400 unless the environment says otherwise, and GOMEMLIMIT three
quarters of the memory that the machine or its container has: collecting less
often saves a fifth of the time, and the limit keeps it from costing too much
memory.`,
		Example: `  weir serve
  weir serve --rules /etc/weir/rules --http 0.0.0.0:8080 --grpc 0.0.0.0:8081`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&c.Rules, "rules", "", "`PATH` of a rule file, or of a folder of them (default: built-in demo rules)")
	f.StringVar(&c.Store, "store", daemon.DefaultStore, "`URL` of where counts are kept")
	f.StringVar(&c.HTTP, "http", daemon.DefaultHTTP, "`ADDR` of HTTP and JSON")
	f.StringVar(&c.GRPC, "grpc", daemon.DefaultGRPC, "`ADDR` of Envoy's rate limit service")
	f.StringVar(&c.Admin, "admin", daemon.DefaultAdmin, "`ADDR` of metrics and profiles")
	f.StringVar(&c.RESP, "resp", daemon.DefaultRESP, "`ADDR` of the Redis protocol, such as 127.0.0.1:6379")
	f.String("cluster", "127.0.0.1:8083", "`ADDR` for other nodes, TCP and UDP; used with --store cluster:")
	f.StringVar(&c.Join, "join", "", "`ADDR,…` of other nodes (not built yet; default none)")
	f.StringVar(&c.Data, "data", "", "`DIR` of the rule database (not built yet; default none)")
	f.StringVar(&c.File, "config", "", "configuration `FILE` (not built yet; default none)")
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		c.Stdout = cmd.OutOrStdout()
		c.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
		c.Version = version()
		d, err := daemon.New(c)
		if err != nil {
			return err
		}
		tuneMemory(os.Getenv, c.Log)
		return d.Run(cmd.Context())
	})
	return cmd
}
