package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/weir-limit/weir/cmd/weir/internal/configmaps"
	"github.com/weir-limit/weir/cmd/weir/internal/credentials"
	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
)

// The bounds of weir admission.
const (
	// admissionConnections is how many connections it has at a time. The servers of Kubernetes keep a few open.
	admissionConnections = 256
	admissionSilent      = time.Second      // a connection that was silent for so long makes room for a new one
	admissionLook        = time.Second      // how often it looks at the files of its certificate
	admissionDrain       = 10 * time.Second // how long reviews may take when it is to end
)

// admission is what weir admission is told.
type admission struct {
	address, certificate, key, store string
	nodes                            int
}

func admissionCommand() *cobra.Command {
	var a admission
	cmd := &cobra.Command{
		Use:   "admission --tls-cert FILE --tls-key FILE",
		Short: "Have Kubernetes refuse ConfigMaps whose rules weir lint refuses",
		Long: `Review ConfigMaps that hold rules, when Kubernetes asks before it keeps one: a
validating admission webhook, POST /review with AdmissionReview of admission.k8s.io/v1,
over HTTPS. Errors that weir lint finds refuse the ConfigMap, in its words; its warnings
are shown to the author. The *.yaml and *.yml in a ConfigMap are read together, as those
of a folder. --store and --nodes mean what they mean to weir lint.

GET /healthz and /readyz are for probes, and /metrics counts reviews. The certificate is
read again when its files change. When all listeners accept, stdout says so once. SIGTERM
drains and exits 0.

The chart in deploy/helm sets it up, with admission.enabled: true, for ConfigMaps with the
label weir/rules.`,
		Example: `  weir admission --listen 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key --store cluster: --nodes 3`,
		Args:    noArguments,
	}
	f := cmd.Flags()
	f.StringVar(&a.address, "listen", "127.0.0.1:8443", "`ADDR` where Kubernetes asks")
	f.StringVar(&a.certificate, "tls-cert", "", "`FILE` with the certificate, followed by the chain to its CA")
	f.StringVar(&a.key, "tls-key", "", "`FILE` with its key")
	f.StringVar(&a.store, "store", daemon.DefaultStore, "`URL` of where counts will be kept")
	storeCompletion(cmd)
	f.IntVar(&a.nodes, "nodes", 0, "`N` nodes of the cluster, or daemons at the log, for rules that don't say it")
	cmd.RunE = does(func(cmd *cobra.Command, _ []string) error {
		in, err := lintStore(f, a.store, a.nodes)
		if err != nil {
			return err
		}
		if a.certificate == "" || a.key == "" {
			return usagef("Kubernetes asks by HTTPS alone; give --tls-cert and --tls-key")
		}
		return a.run(cmd.Context(), in, cmd.OutOrStdout(), slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
	})
	return cmd
}

// run answers reviews until ctx ends, and then those that have come.
func (a *admission) run(ctx context.Context, in *lintedStore, out io.Writer, log *slog.Logger) error {
	pair, err := credentials.OpenServer(time.Now(), credentials.File{Flag: "--tls-cert", Path: a.certificate},
		credentials.File{Flag: "--tls-key", Path: a.key}, credentials.File{})
	if err != nil {
		return err
	}
	watched := daemon.Watched{Name: "tls", Files: pair}
	watched.SayExposed(log)
	reviewer := configmaps.NewReviewer(in.lint)
	var leaving atomic.Bool
	registry := prometheus.NewRegistry()
	doors := telemetry.NewDoors(registry)
	registry.MustRegister(telemetry.About(version(), func() bool { return !leaving.Load() }), telemetry.Admission(reviewer.Counts, pair))

	opened, err := listen.Open(ctx, a.address)
	if err != nil {
		return fmt.Errorf("open --listen: %w", err)
	}
	protocols, names := listen.Protocols(runtime.Version())
	door := listen.Bound(opened, listen.Options{
		Most: admissionConnections, Silent: admissionSilent,
		TLS: pair.Config(tls.NoClientCert, "", names...), Metrics: doors.Connections("admission"),
	})
	server := listen.Server(admissionRoutes(reviewer, registry, leaving.Load), listen.ServerOptions{
		Protocols: protocols, Log: log.Handler(),
		HandshakeFailed: doors.HandshakeFailed("admission"), ProtocolBroken: func() {}, // no review, and none was lost
	})
	if _, err := fmt.Fprintf(out, "weir admission ready https=%s\n", opened.Addr()); err != nil {
		return errors.Join(err, door.Close())
	}
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := server.Serve(door.Safe()); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		tick := time.NewTicker(admissionLook)
		defer tick.Stop()
		for {
			select {
			case <-running.Done():
				leaving.Store(true)
				draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), admissionDrain)
				defer cancel()
				return listen.Stop(draining, server)
			case now := <-tick.C:
				watched.Look(now, false, log)
			}
		}
	})
	return g.Wait()
}

// admissionRoutes are all that it answers.
func admissionRoutes(reviewer http.Handler, registry *prometheus.Registry, leaving func() bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /review", reviewer)
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if leaving() {
			http.Error(w, "it ends", http.StatusServiceUnavailable)
		}
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	return mux
}
