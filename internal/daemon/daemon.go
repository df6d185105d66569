// Package daemon puts the parts together: rules and a store, the listeners before
// them, metrics, and a life from start to drained.
//
// It opens the listeners, drains them, and counts. The listeners don't know each other;
// what Envoy's messages mean is in package envoy, which the HTTP and the gRPC one use, and
// how times and the RateLimit fields are written in package fields.
package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/weir-limit/weir/internal/changes"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/httpapi"
	"github.com/weir-limit/weir/internal/listen"
	"github.com/weir-limit/weir/internal/overload"
	"github.com/weir-limit/weir/internal/resp"
	"github.com/weir-limit/weir/internal/rls"
	"github.com/weir-limit/weir/internal/rulefeed"
	"github.com/weir-limit/weir/internal/shadow"
	"github.com/weir-limit/weir/internal/tracing"
	"github.com/weir-limit/weir/rules"
	"github.com/weir-limit/weir/rules/source"
)

// Daemon answers who may pass. It is made by New and run once.
type Daemon struct {
	config  Config
	source  *source.Source // nil: no files
	feed    *rulefeed.Feed // nil: no rule database
	changes *changes.Gate  // likewise
	parts   parts
	loaded  atomic.Pointer[loaded]
	storage *storage
	limiter *meter
	denials *rules.Denials
	board   shadow.Board
	// clientName is what to say in the place of a client's name.
	clientName func(string) string
	metrics    *metrics
	registry   *prometheus.Registry
	draining   atomic.Bool
	started    time.Time
	opened     atomic.Pointer[doors] // nil before they are open
	keys       keys
	watcher    *overload.Watcher
	httpGate   overload.Gate
	grpcGate   overload.Gate
	looking    sync.Mutex        // held to look at keys
	receipts   *httpapi.API      // that settles receipts of other nodes; guarded by looking; nil: before, or there is none
	traces     *tracing.Settings // nil: there are no traces
	tracer     *tracing.Tracer   // likewise

	candidates *source.Source // of rules that run beside those in force; nil: from nowhere
	comparing  sync.Mutex     // held to change what is compared
	candidate  *rules.Set     // that runs, of files; guarded by comparing
	trials     []*rules.Set   // likewise, of the rule database

	uncountableSaid atomic.Int64 // when the log last said it, in Unix nanoseconds; 0: never
}

// New makes a daemon. It reads the rules, and opens nothing yet. It fails with
// a *rules.Error or a *ConfigError, joined when there are several, or when the rules can't be read. Run reads them again when they change.
func New(c Config) (*Daemon, error) {
	c.fill()
	keys, bad := openKeys(&c)
	traces, odd := readTraces()
	if err := errors.Join(c.check(), bad, odd); err != nil {
		return nil, err
	}
	for _, w := range keys.watched {
		w.sayExposed(c.Log)
	}
	d := &Daemon{
		config: c, started: time.Now(), clientName: namesOfClients(c.HashKeys), denials: rules.NewDenials(),
		registry: prometheus.NewRegistry(), keys: keys, traces: traces,
	}
	d.grpcGate.Standing = true
	d.watcher = overload.NewWatcher(&d.httpGate, &d.grpcGate)
	if err := d.openParts(); err != nil {
		return nil, err
	}
	if err := errors.Join(d.load(), d.loadCandidates()); err != nil {
		d.closeFeed()
		d.closeStorage()
		return nil, err
	}
	return d, nil
}

// openParts makes the parts that others stand on: rules' source, store, limiter
// and metrics.
func (d *Daemon) openParts() (err error) {
	if d.storage, err = openStorage(d.config.Store, guard.Options{Changed: d.storeChanged, Uncountable: d.uncountable}); err != nil {
		return err
	}
	if s := d.storage.snapshots; s != nil && s.unread != nil {
		d.config.Log.Error("counts from before are lost", "error", s.unread)
	}
	if d.source, err = openSource(&d.config, d.storage.traits); err != nil {
		d.closeStorage()
		return err
	}
	if d.feed, err = openFeed(&d.config, d.fits); err != nil {
		d.closeStorage()
		return err
	}
	if d.candidates, err = openCandidates(&d.config, d.fits); err != nil {
		d.closeStorage()
		return err
	}
	d.metrics = newMetrics(d.registry, d.config.Version, d.storage, d.ready)
	d.registry.MustRegister(d.overloadMetrics()...)
	d.keys.register(d.registry)
	d.registry.MustRegister(newDenialMetrics(d.denials))
	d.limiter = newMeter(rules.NewLimiter(d.storage.store, nil), d.metrics.decided)
	if d.feed != nil {
		d.registry.MustRegister(d.databaseMetric())
		if err := d.openChanges(); err != nil {
			d.closeStorage()
			return err
		}
	}
	d.registry.MustRegister(newTrafficMetrics(d.limiter.book), newShadowMetrics(&d.board))
	if err := d.limiter.Remember(d.denials); err != nil {
		d.closeStorage()
		return err
	}
	return nil
}

// fits refuses rules that the store can't keep.
func (d *Daemon) fits(set *rules.Set) error { return set.Fits(d.storage.traits) }

func (d *Daemon) ready() bool { return d.limiter.Set() != nil && !d.draining.Load() }

// doors are the open listeners of a daemon.
type doors struct {
	http, admin     *http.Server
	grpc            *rls.Server
	resp            *resp.Server
	httpAt, grpcAt  *listen.Listener
	adminAt, respAt *listen.Listener // respAt is nil when it is off
}

// Run opens the listeners, says on Stdout that it is ready, and answers until ctx
// ends; then it drains and returns nil. It fails when a listener can't be opened or
// breaks.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.closeStorage()
	defer d.closeFeed()
	if err := d.openTraces(ctx); err != nil {
		return err
	}
	o, err := d.open(ctx)
	if err != nil {
		d.closeTraces(ctx)
		return err
	}
	d.opened.Store(&o)
	d.sayOpen(o)
	d.sayHTTP2()
	if d.storage.remote != nil {
		d.storage.remote.Meet(ctx)
	}
	if d.storage.node != nil {
		if err := d.join(ctx, o.httpAt.Addr()); err != nil {
			d.closeTraces(ctx)
			return errors.Join(err, o.close())
		}
	}
	g, broken := errgroup.WithContext(ctx)
	o.serve(g)
	d.keep(broken, g)
	o.grpc.SetServing(d.ready())

	d.sayReady(o)
	d.sayFirstToken(ctx)
	d.notify("READY=1")
	<-broken.Done() // ctx has ended, or a listener has broken
	d.drain(ctx, o)
	err = g.Wait()
	if d.storage.snapshots != nil {
		d.saveSnapshot() // nobody counts any more
	}
	return err
}

// sayOpen warns of listeners that can be reached from elsewhere, and should not be as they
// are.
func (d *Daemon) sayOpen(o doors) {
	if !d.config.adminLocal() && d.keys.tls == nil {
		d.config.Log.Warn("the admin listener can be reached from elsewhere without TLS, and its token be read on the way; give --tls-cert and --tls-key")
	}
	if o.respAt == nil || d.config.RESPPasswordFile != "" || d.config.TLSClientCA != "" {
		return
	}
	if !listen.IsLoopback(o.respAt.Addr()) {
		d.config.Log.Warn("the Redis listener can be reached from elsewhere, and asks for no password; give --resp-password-file or --tls-client-ca, or write a loopback address, as --resp 127.0.0.1:6379")
	}
}

// serve answers at all listeners until they are closed; those that are closed in order
// give no error.
func (o *doors) serve(g *errgroup.Group) {
	g.Go(func() error { return serve("http", o.http.Serve(o.httpAt.Safe())) })
	g.Go(func() error { return serve("admin", o.admin.Serve(o.adminAt.Safe())) })
	g.Go(func() error { return serve("grpc", o.grpc.Serve(o.grpcAt)) })
	if o.respAt != nil {
		g.Go(func() error { return serve("resp", o.resp.Serve(o.respAt.Safe())) })
	}
}

// keep does what goes on beside the listeners, until ctx ends.
func (d *Daemon) keep(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return d.watcher.Run(ctx) })
	g.Go(func() error { return d.watchCandidates(ctx) })
	g.Go(func() error { return d.keepBook(ctx) })
	for _, part := range []struct {
		there bool
		run   func(context.Context)
	}{
		{true, d.forgetDenials},
		{d.source != nil, func(ctx context.Context) { d.source.Watch(ctx, d.reloaded) }},
		{d.feed != nil, func(ctx context.Context) { d.feed.Watch(ctx, d.published) }},
		{d.feed != nil, d.sharers().Keep},
		{len(d.keys.watched) > 0, d.watchKeys},
		{d.storage.node != nil, func(ctx context.Context) { d.storage.node.KeepMeasuring(ctx) }},
		{d.storage.snapshots != nil, d.saveSnapshots},
	} {
		if part.there {
			g.Go(func() error {
				part.run(ctx)
				return nil
			})
		}
	}
}

func serve(door string, err error) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", door, err)
}

// open opens all listeners, or none.
func (d *Daemon) open(ctx context.Context) (doors, error) {
	o, err := d.answerers()
	if err == nil {
		err = d.listenAt(ctx, &o)
	}
	return o, err
}

// answerers makes what answers at the listeners.
func (d *Daemon) answerers() (o doors, err error) {
	httpTraces, grpcTraces := d.traceHooks()
	api, err := httpapi.New(d.decider(), httpapi.Options{
		Ready: d.ready, Detail: d.detail, Certified: d.config.TLSClientCA != "", Log: d.config.Log, Echo: d.config.DynamicMetadata,
		Gate: &d.httpGate, Refused: d.metrics.overload("http", []string{httpapi.ReasonSeat}),
		Owner: d.owners(), Bound: boundReceipt, Observe: d.metrics.httpCall, Trace: httpTraces, Panicked: d.metrics.panicked("http"),
	})
	if err != nil {
		return o, err
	}
	if err := d.shareReceipts(api); err != nil {
		return o, err
	}
	o.grpc = rls.New(d.decider(), rls.Options{
		Store: d.lending(),
		Gate:  &d.grpcGate, Budget: d.metrics.budget("grpc"), Refused: d.metrics.overload("grpc", rls.Reasons()),
		TLS: d.safe(tls.RequireAndVerifyClientCert, "h2"), HandshakeFailed: d.metrics.handshakeFailed("grpc"),
		Client: httpapi.Neighbourhood, Log: d.config.Log, Echo: d.config.DynamicMetadata, Observe: d.metrics.grpcCall, Trace: grpcTraces, Panicked: d.metrics.panicked("grpc"),
	})
	o.resp = d.redisDoor()
	o.http = d.server("http", d.leaving(d.noPages(api)))
	o.http.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return httpapi.ConnContext(listen.WithSlot(ctx, c), c)
	}
	admin, err := d.adminHandler()
	if err == nil {
		admin, err = d.gate(admin)
	}
	if err != nil {
		return o, err
	}
	o.admin = d.server("admin", admin)
	o.admin.WriteTimeout = adminWriteTimeout
	return o, nil
}

// listenAt opens the listeners' addresses, all or none.
func (d *Daemon) listenAt(ctx context.Context, o *doors) (err error) {
	var opened []net.Listener
	defer func() {
		if err != nil {
			for _, l := range opened {
				err = errors.Join(err, l.Close())
			}
		}
	}()
	for _, door := range d.listeners(o) {
		if door.name == "resp" && door.address == DefaultRESP {
			continue
		}
		l, err := listen.Open(ctx, door.address)
		if err != nil {
			return fmt.Errorf("open the %s listener: %w", door.name, err)
		}
		opened = append(opened, l)
		if err := d.reachedBy(door.name, door.address, l.Addr()); err != nil {
			return err
		}
		*door.at = listen.Bound(l, door.Options)
	}
	return nil
}

// reachedBy refuses a listener that can be reached from elsewhere and may not be. A name
// may have two answers: the one that was looked up to check the flags does not count.
func (d *Daemon) reachedBy(door, address string, at net.Addr) error {
	switch {
	case door == "admin" && !d.config.adminTokens() && !listen.IsLoopback(at):
		return adminNeedsToken(address)
	case door == "grpc" && d.config.GRPCStore && d.config.storeOpen() && at.Network() == "tcp" && !listen.IsLoopback(at):
		return storeNeedsToken(address)
	}
	return nil
}

// listener is how one of the listeners listens.
type listener struct {
	name, address string
	listen.Options

	at **listen.Listener
}

// listeners is how the listeners listen, in the order in which they are opened.
func (d *Daemon) listeners(o *doors) []listener {
	most := d.connections()
	// The HTTP listener answers clients without a certificate, too: a probe. No client of
	// Redis says what it speaks. A browser does, and is sent away.
	_, protocols := listen.Protocols(d.config.goVersion)
	httpOptions := listen.Options{
		Most: most, Silent: listen.SilentLeast, Gate: &d.httpGate,
		TLS: d.safe(tls.VerifyClientCertIfGiven, protocols...), Metrics: d.metrics.connections("http"),
	}
	httpOptions.Metrics.Floods, httpOptions.Metrics.Left = d.metrics.flooded("http"), d.metrics.overrun.WithLabelValues("http", "left")
	adminOptions := listen.Options{
		Most: listen.MaxAdminConnections, Seats: true,
		TLS: d.safe(tls.RequireAndVerifyClientCert, protocols...), Metrics: d.metrics.connections("admin"),
	}
	adminOptions.Metrics.Floods = d.metrics.flooded("admin")
	return []listener{
		{"http", d.config.HTTP, httpOptions, &o.httpAt},
		{"grpc", d.config.GRPC, listen.Options{Most: most, Silent: listen.SilentLeast, Metrics: d.metrics.connections("grpc")}, &o.grpcAt},
		{"admin", d.config.Admin, adminOptions, &o.adminAt},
		{"resp", d.config.RESP, listen.Options{
			Most: most, Silent: listen.SilentLeast,
			TLS: d.safe(tls.RequireAndVerifyClientCert, "redis"), Metrics: d.metrics.connections("resp"),
		}, &o.respAt},
	}
}

// close closes listeners at which nobody was answered.
func (o *doors) close() (err error) {
	for _, l := range []*listen.Listener{o.httpAt, o.grpcAt, o.adminAt, o.respAt} {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return err
}

// connections is how many each listener for callers may have.
func (d *Daemon) connections() int {
	doors := 2
	if d.config.RESP != DefaultRESP {
		doors++
	}
	most, files := listen.Connections(doors)
	if most < listen.MaxConnections {
		d.config.Log.Warn("the limit of open files leaves room for fewer connections", "files", files, "connections", most, "usual", listen.MaxConnections)
	}
	return most
}

func (d *Daemon) redisDoor() *resp.Server {
	return resp.New(d.limiter, d.storage.store, resp.Options{
		Version: d.config.Version, Log: d.config.Log,
		Observe: d.metrics.respCalls(), Decided: d.metrics.throttled,
		Reached: d.metrics.respBounds(), Panicked: d.metrics.panicked("resp"),
		Client:   httpapi.Neighbourhood,
		Password: d.keys.password(), HandshakeFailed: d.metrics.handshakeFailed("resp"), Budget: d.metrics.budget("resp"),
	})
}

// leaving makes clients take leave while the daemon drains: each answer then
// closes its connection, so that none is idle when the listener closes, where it
// could be cut off under the next request.
func (d *Daemon) leaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// graces is how many times the lame duck's time idle connections have to end.
const graces = 5

// drain takes leave: first readiness, then, when nobody sends more, the listeners;
// the admin listener last, so that metrics tell of it to the end.
func (d *Daemon) drain(ctx context.Context, o doors) {
	start := time.Now()
	d.config.Log.Info("draining", "lame_duck", d.config.LameDuck, "drain", d.config.Drain)
	d.draining.Store(true)
	d.notify("STOPPING=1")
	o.grpc.SetServing(false)
	time.Sleep(d.config.LameDuck)
	// By now each answer says that its connection closes. Who keeps one open and
	// says nothing for a while is cut off.
	o.httpAt.Leave(graces * d.config.LameDuck)

	// ctx is over, but draining has its own time.
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.config.Drain)
	defer cancel()
	var g errgroup.Group
	g.Go(func() error { return listen.Stop(limit, o.http) })
	g.Go(func() error { return o.grpc.Stop(limit) })
	g.Go(func() error { return o.resp.Stop(limit) })
	if err := g.Wait(); err != nil {
		d.config.Log.Warn("calls were cut off: they took longer than draining may", "error", err)
	}
	d.closeTraces(limit)
	if d.storage.node != nil {
		if err := d.storage.node.Leave(limit); err != nil {
			d.config.Log.Warn("the cluster could not be left in order", "error", err)
		}
	}
	if err := listen.Stop(limit, o.admin); err != nil {
		d.config.Log.Warn("admin calls were cut off", "error", err)
	}
	d.config.Log.Info("drained", "took", time.Since(start))
}

// sayHTTP2 tells once why clients get no HTTP/2 that could have it.
func (d *Daemon) sayHTTP2() {
	if d.keys.tls != nil && !listen.HasSafeHTTP2(d.config.goVersion) {
		d.config.Log.Warn("the HTTP and admin listeners speak HTTP/1.1 only: clients could crash this daemon by HTTP/2; build it with a newer Go",
			"go", d.config.goVersion, "needed", listen.SafeHTTP2)
	}
}
