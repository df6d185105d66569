package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-limit/weir/cmd/weir/internal/h1"
	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/cmd/weir/internal/resp"
	"github.com/weir-limit/weir/cmd/weir/internal/rls"
)

// listeners are the open listeners of a daemon.
type listeners struct {
	grpc            *rls.Server
	httpAt, grpcAt  *listen.Listener
	adminAt, respAt *listen.Listener // respAt is nil when it is off
	// metricsAt and debugAt are nil when they are off.
	metricsAt, debugAt *listen.Listener
}

// listenAt opens the listeners' addresses. Those of callers it closes again where it takes time until
// they are answered: later are these, for listenAgain.
func (d *Daemon) listenAt(ctx context.Context, o *listeners) (later []listener, err error) {
	for _, door := range d.toListen(o) {
		if door.off {
			continue
		}
		at, err := d.listen(ctx, &door)
		if err != nil {
			return nil, err
		}
		if *door.at = at; d.storage.here() || !door.callers || anyPort(door.address) {
			continue // nobody knows yet which port that is
		}
		if err := at.Close(); err != nil {
			return nil, err
		}
		later = append(later, door)
	}
	return later, nil
}

// listen opens a listener's address.
func (d *Daemon) listen(ctx context.Context, door *listener) (*listen.Listener, error) {
	l, err := listen.Open(ctx, door.address)
	if err != nil {
		return nil, fmt.Errorf("open the %s listener: %w", door.name, err)
	}
	at := listen.Bound(l, door.Options)
	d.closing.push("the "+door.name+" listener could not be closed", func(context.Context) error {
		if err := at.Close(); !errors.Is(err, net.ErrClosed) { // its server may have closed it
			return err
		}
		return nil
	})
	return at, d.reachedBy(door.name, door.address, l.Addr())
}

// listenAgain opens the listeners that listenAt has closed. Until then callers are refused: they would wait.
func (d *Daemon) listenAgain(ctx context.Context, o *listeners, later []listener) (*listeners, error) {
	open := *o
	for i := range later {
		door := &later[i]
		at, err := d.listen(ctx, door)
		if err != nil {
			return nil, err
		}
		switch door.name {
		case "http":
			open.httpAt = at
		case "grpc":
			open.grpcAt = at
		case "resp":
			open.respAt = at
		}
	}
	d.opened.Store(&open)
	return &open, nil
}

// anyPort is whether an address has any port that is free.
func anyPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port == "0" && !listen.IsSocket(address)
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

	at      **listen.Listener
	callers bool // calls come by it that decide
	off     bool
}

// toListen is how the listeners listen, in the order in which they are opened.
func (d *Daemon) toListen(o *listeners) []listener {
	most := d.connections()
	// The HTTP listener answers clients without a certificate, too: a probe. No client of
	// Redis says what it speaks. A browser does, and is sent away.
	_, protocols := listen.Protocols(d.config.goVersion)
	httpOptions := listen.Options{
		Most: most, Silent: listen.SilentLeast, Gate: &d.httpGate,
		TLS: d.safe("http", tls.VerifyClientCertIfGiven, protocols...), Metrics: d.metrics.Connections("http"),
	}
	httpOptions.Metrics.Floods, httpOptions.Metrics.Left = d.metrics.Flooded("http"), d.metrics.Left("http")
	// What is not for callers has few connections.
	few := func(name string) listen.Options {
		o := listen.Options{
			Most: listen.MaxAdminConnections, Seats: true,
			TLS: d.safe(name, tls.RequireAndVerifyClientCert, protocols...), Metrics: d.metrics.Connections(name),
		}
		o.Metrics.Floods = d.metrics.Flooded(name)
		return o
	}
	all := []listener{
		{name: "http", address: d.config.HTTP, Options: httpOptions, at: &o.httpAt, callers: true},
		{
			name: "grpc", address: d.config.GRPC, at: &o.grpcAt, callers: true,
			Options: listen.Options{Most: most, Silent: listen.SilentLeast, Metrics: d.metrics.Connections("grpc")},
		},
		{name: "admin", address: d.config.Admin, Options: few("admin"), at: &o.adminAt},
		{
			name: "resp", address: d.config.RESP, at: &o.respAt, callers: true, off: d.config.RESP == DefaultRESP,
			Options: listen.Options{
				Most: most, Silent: listen.SilentLeast,
				TLS: d.safe("resp", tls.RequireAndVerifyClientCert, "redis"), Metrics: d.metrics.Connections("resp"),
			},
		},
	}
	if address, _ := d.config.metricsAt(); address != "" {
		all = append(all, listener{name: "metrics", address: address, Options: few("metrics"), at: &o.metricsAt})
	}
	if d.config.Debug != "" {
		all = append(all, listener{name: "debug", address: d.config.Debug, Options: few("debug"), at: &o.debugAt})
	}
	return all
}

// connections is how many each listener for callers may have.
func (d *Daemon) connections() int {
	callers := 2
	if d.config.RESP != DefaultRESP {
		callers++
	}
	most, files := listen.Connections(callers)
	if most < listen.MaxConnections {
		d.config.Log.Warn("the limit of open files leaves room for fewer connections", "files", files, "connections", most, "usual", listen.MaxConnections)
	}
	return most
}

// sayOpen warns of listeners that can be reached from elsewhere, and should not be as they
// are.
func (d *Daemon) sayOpen(o *listeners) {
	if !d.config.adminLocal() && !d.config.speaksTLS("admin") {
		d.config.Log.Warn("the admin listener can be reached from elsewhere without TLS, and its token be read on the way; give --tls-cert and --tls-key")
	}
	if origin, host, _ := d.config.external(); strings.HasPrefix(origin, "http:") && !httpapi.Loopback(host, "") {
		d.config.Log.Warn("browsers reach the pages without TLS, and tokens and sessions can be read on the way; let the proxy speak TLS, and write https:// in --external-url")
	}
	if o.respAt == nil || d.config.RESPPasswordFile != "" || d.config.TLSClientCA != "" && d.config.speaksTLS("resp") {
		return
	}
	if !listen.IsLoopback(o.respAt.Addr()) {
		d.config.Log.Warn("the Redis listener can be reached from elsewhere, and asks for no password; give --resp-password-file or --tls-client-ca, or write a loopback address, as --resp 127.0.0.1:6379")
	}
}

// sayHTTP2 tells once why clients get no HTTP/2 that could have it.
func (d *Daemon) sayHTTP2() {
	if (d.config.speaksTLS("http") || d.config.speaksTLS("admin")) && !listen.HasSafeHTTP2(d.config.goVersion) {
		d.config.Log.Warn("the HTTP and admin listeners speak HTTP/1.1 only: clients could crash this daemon by HTTP/2; build it with a newer Go",
			"go", d.config.goVersion, "needed", listen.SafeHTTP2)
	}
}

// openAdmin answers at the admin listener.
func (d *Daemon) openAdmin(o *listeners, g *errgroup.Group) error {
	handler, err := d.adminHandler()
	if err != nil {
		return err
	}
	if handler, err = d.gate(handler); err != nil {
		return err
	}
	admin := d.server("admin", d.withHealth(handler))
	admin.WriteTimeout = adminWriteTimeout
	g.Go(func() error { return serve("admin", admin.Serve(o.adminAt.Safe())) })
	d.closing.push("admin calls were cut off", func(ctx context.Context) error { return listen.Stop(ctx, admin) })
	return nil
}

// withHealth answers /healthz and /readyz without the token that next wants.
func (d *Daemon) withHealth(next http.Handler) http.Handler {
	health := httpapi.NewHealth(httpapi.Options{
		Ready: d.ready, Log: d.config.Log, Observe: d.metrics.AdminCall, Panicked: d.metrics.Panicked("admin"),
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if health.Answers(r.URL.Path) {
			health.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// openCallers answers at the listeners for callers.
func (d *Daemon) openCallers(o *listeners, g *errgroup.Group) error {
	httpTraces, grpcTraces := d.traceHooks()
	api, err := httpapi.New(d.decider(), httpapi.Options{
		Ready: d.ready, Detail: d.detail, Certified: d.config.TLSClientCA != "" && d.config.speaksTLS("http"), Log: d.config.Log,
		Answers: d.config.answers(), Shadowed: d.metrics.Shadowed, Healthy: d.healthy,
		Gate: &d.httpGate, Refused: d.metrics.Overload("http", []string{httpapi.ReasonSeat}),
		Owner: d.owners(), Bound: boundReceipt, Observe: d.metrics.HTTPCall, Trace: httpTraces, Panicked: d.metrics.Panicked("http"),
	})
	if err != nil {
		return err
	}
	if err := d.shareReceipts(api); err != nil {
		return err
	}
	o.grpc = rls.New(d.decider(), rls.Options{
		Store: d.lending(), Quotas: d.openQuotas(), Here: d.storage.here(), Tries: d.storage.node != nil, MaxAge: d.config.GRPCMaxAge,
		Gate: &d.grpcGate, Budget: d.metrics.Budget("grpc"), Refused: d.metrics.Overload("grpc", rls.Reasons()),
		TLS: d.safe("grpc", tls.RequireAndVerifyClientCert, "h2"), HandshakeFailed: d.metrics.HandshakeFailed("grpc"),
		Client: httpapi.Neighbourhood, Log: d.config.Log, Answers: d.config.answers(), Shadowed: d.metrics.Shadowed, Observe: d.metrics.GRPCCall, Trace: grpcTraces, Panicked: d.metrics.Panicked("grpc"),
	})
	web, redis := d.server("http", d.leaving(d.noPages(api))), d.redisDoor()
	web.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return httpapi.ConnContext(listen.WithSlot(ctx, c), c)
	}
	small := h1.New(web, h1.Options{Takes: httpapi.Small, Here: d.storage.here(), HandedOver: d.metrics.HandedOver})
	g.Go(func() error { return serve("http", small.Serve(o.httpAt.Safe())) })
	g.Go(func() error { return serve("grpc", o.grpc.Serve(o.grpcAt)) })
	if o.respAt != nil {
		g.Go(func() error { return serve("resp", redis.Serve(o.respAt.Safe())) })
	}
	d.closing.push("calls were cut off: they took longer than draining may", func(ctx context.Context) error {
		var g errgroup.Group
		g.Go(func() error { return small.Stop(ctx) })
		g.Go(func() error { return o.grpc.Stop(ctx) })
		g.Go(func() error { return redis.Stop(ctx) })
		return g.Wait()
	})
	return nil
}

func (d *Daemon) redisDoor() *resp.Server {
	return resp.New(d.limiter, d.storage.store, resp.Options{
		Version: d.config.Version, Log: d.config.Log,
		Observe: d.metrics.RESPCalls(), Decided: d.limiter.Throttled,
		Reached: d.metrics.RESPBounds(), Panicked: d.metrics.Panicked("resp"),
		Client:   httpapi.Neighbourhood,
		Password: d.keys.password(), HandshakeFailed: d.metrics.HandshakeFailed("resp"), Budget: d.metrics.Budget("resp"),
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

func serve(door string, err error) error {
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve %s: %w", door, err)
}

// graces is how many times the lame duck's time idle connections have to end.
const graces = 5

// drain takes leave: first readiness, then, when nobody sends more, all that is open.
func (d *Daemon) drain(ctx context.Context, o *listeners) {
	start := time.Now()
	d.config.Log.Info("draining", "lame_duck", d.config.LameDuck, "drain", d.config.Drain)
	d.draining.Store(true)
	d.notify("STOPPING=1")
	o.grpc.SetServing(false)
	time.Sleep(d.config.LameDuck)
	// By now each answer says that its connection closes. A client that keeps one open and sends
	// nothing for a while is cut off.
	o.httpAt.Leave(graces * d.config.LameDuck)

	// ctx is over, but draining has its own time.
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.config.Drain)
	defer cancel()
	_ = d.closing.close(limit) // the log has said it
	d.config.Log.Info("drained", "took", time.Since(start))
}
