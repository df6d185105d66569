// Package daemon connects the parts of a daemon: rules and a store, the listeners before
// them, and a life from start to drained.
//
// daemon.go makes a daemon and runs it; listeners.go opens and drains what answers; closing.go
// is the stack by which all that is open is closed. The listeners don't know each other:
// package envoy says what Envoy's messages mean, for the HTTP and the gRPC one, and package
// fields how times and the RateLimit fields are written. How connections are bounded, what
// is counted, and how nodes meet is in packages listen, telemetry and membership.
package daemon

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/weir-limit/weir/cmd/weir/internal/auditlog"
	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/overload"
	"github.com/weir-limit/weir/cmd/weir/internal/rulefeed"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/cmd/weir/internal/tracing"
	"github.com/weir-limit/weir/cmd/weir/internal/usagelog"
	"github.com/weir-limit/weir/cmd/weir/internal/webhooks"
	"github.com/weir-limit/weir/cmd/weir/internal/xds"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/sleep"
	"github.com/weir-limit/weir/rules"
	"github.com/weir-limit/weir/rules/source"
)

// Daemon answers who may pass. It is made by New and run once.
type Daemon struct {
	config  Config
	source  origin         // nil: rules come from the database alone, or are the demo's
	control *xds.Source    // source, if that is a control plane; nil: it is not
	feed    *rulefeed.Feed // nil: no rule database
	changes *changes.Gate  // likewise
	parts   parts
	loaded  atomic.Pointer[loaded]
	storage *storage
	limiter *telemetry.Meter
	denials *rules.Denials
	board   shadow.Board
	charts  charts
	asked   askedOf
	// tokensEnding is how many tokens of the rule database end soon, as of the last minute.
	tokensEnding atomic.Int64
	// sessions is how many people are signed in at the pages of all nodes, likewise.
	sessions atomic.Int64
	// clientName is what to say in the place of a client's name.
	clientName func(string) string
	usage      *usagelog.Log // nil: usage is not logged
	metrics    *telemetry.Metrics
	statistics *telemetry.Statistics // nil: no listener tells them
	registry   *prometheus.Registry
	draining   atomic.Bool
	started    time.Time
	opened     atomic.Pointer[listeners] // nil before they are open
	closing    closing
	keys       keys
	watcher    *overload.Watcher
	httpGate   overload.Gate
	grpcGate   overload.Gate
	looking    sync.Mutex              // held to look at keys
	receipts   *httpapi.API            // that settles receipts of other nodes; guarded by looking; nil: before, or there is none
	traces     *tracing.Settings       // nil: there are no traces
	tracer     *tracing.Tracer         // likewise
	sending    *tracing.MetricSettings // nil: metrics go to no collector

	candidates *source.Source     // of rules that run beside those in force; nil: from nowhere
	comparing  sync.Mutex         // held to change what is compared
	candidate  *rules.Set         // that runs, of files; guarded by comparing
	trials     []shadow.Candidate // likewise, of the rule database
	telling    sync.Mutex         // held to tell others what candidates differ by
	auditLog   *auditlog.Log
	webhooks   *webhooks.Sender // nil: there is no rule database
	notices    notices
	exceptions rules.Exceptions // of the rule database

	uncountableSaid atomic.Int64 // when the log last said it, in Unix nanoseconds; 0: never
}

// New makes a daemon. It reads the rules, and opens nothing yet. It fails with
// a *rules.Error or a *ConfigError, joined when there are several, or when the rules can't be read. Run reads them again when they change.
func New(c Config) (*Daemon, error) {
	c.fill()
	keys, bad := openKeys(&c)
	traces, odd := readTraces()
	sending, strange := readMetrics()
	if err := errors.Join(c.check(), bad, odd, strange); err != nil {
		return nil, err
	}
	for _, w := range keys.watched {
		w.SayExposed(c.Log)
	}
	d := &Daemon{
		config: c, started: time.Now(), clientName: namesOfClients(c.HashKeys), denials: rules.NewDenials(),
		registry: prometheus.NewRegistry(), keys: keys, traces: traces, sending: sending, closing: closing{log: c.Log},
	}
	d.grpcGate.Standing = true
	d.watcher = overload.NewWatcher(&d.httpGate, &d.grpcGate)
	err := d.openParts()
	if err == nil {
		err = errors.Join(d.load(), d.loadCandidates())
	}
	if err != nil {
		return nil, errors.Join(err, d.closing.close(context.Background()))
	}
	if d.limiter.Set() != nil {
		d.metrics.Loaded()
	}
	return d, nil
}

// openParts makes the parts that others stand on: rules' source, store, limiter
// and metrics.
func (d *Daemon) openParts() (err error) {
	password, err := StorePassword(d.config.Store, d.config.StorePasswordCommand)
	if err != nil {
		return err
	}
	if d.storage, err = openStorage(d.config.Store, password, guard.Options{Changed: d.storeChanged, Uncountable: d.uncountable}); err != nil {
		return err
	}
	d.closing.push("the store could not be left in order", d.storage.close)
	if s := d.storage.snapshots; s != nil && s.unread != nil {
		d.config.Log.Error("counts from before are lost", "error", s.unread)
	}
	if err = d.openSource(); err != nil {
		return err
	}
	if d.feed, err = openFeed(&d.config, d.fits, &d.exceptions); err != nil {
		return err
	}
	if d.feed != nil {
		d.closing.push("the rule database was not closed in order", func(context.Context) error { return d.feed.Close() })
	}
	d.openAudit()
	if d.candidates, err = openCandidates(&d.config, d.fits); err != nil {
		return err
	}
	d.metrics = telemetry.New(d.registry, d.config.Version, d.storage.meters, d.ready)
	d.registry.MustRegister(telemetry.Overload(d.watcher, &d.httpGate, &d.grpcGate))
	d.registry.MustRegister(telemetry.Readings(d.keys.metrics), telemetry.Denials(d.denials))
	if d.control != nil {
		d.registry.MustRegister(telemetry.Readings(d.controlMetrics))
	}
	limiter := rules.NewLimiter(d.storage.store, nil)
	if d.feed != nil {
		limiter.Except(&d.exceptions, d.granted)
	}
	d.limiter = telemetry.NewMeter(limiter, d.metrics.Decided)
	d.limiter.NearFrom(d.config.near)
	d.openStatistics()
	if err := d.openUsage(); err != nil {
		return err
	}
	if d.feed != nil {
		d.registry.MustRegister(telemetry.Readings(d.databaseMetric), telemetry.Readings(d.charts.metrics))
		if err := errors.Join(d.openChanges(), d.openWebhooks()); err != nil {
			return err
		}
	}
	d.registry.MustRegister(telemetry.Readings(d.auditMetrics))
	d.registry.MustRegister(telemetry.Traffic(d.limiter.Book), telemetry.Shadow(&d.board))
	return d.limiter.Remember(d.denials)
}

// fits refuses rules that the store can't keep.
func (d *Daemon) fits(set *rules.Set) error { return set.Fits(d.storage.traits) }

func (d *Daemon) ready() bool { return d.limiter.Set() != nil && !d.draining.Load() }

// healthy is what /healthcheck says.
func (d *Daemon) healthy() bool { return !d.config.HealthcheckNeedsRules || d.ready() }

// Run opens the listeners, says on Stdout that it is ready, and answers until ctx
// ends; then it drains and returns nil. It fails when a listener can't be opened or
// breaks.
func (d *Daemon) Run(ctx context.Context) (err error) {
	g, broken := errgroup.WithContext(ctx)
	o, opening := d.open(ctx, g, &err)
	if opening != nil {
		return errors.Join(opening, d.closing.close(ctx))
	}
	if d.usage != nil {
		d.usage.Start()
	}
	d.keep(broken, g)
	o.grpc.SetServing(d.ready())

	d.sayReady(o)
	d.sayFirstToken(ctx)
	d.notify("READY=1")
	<-broken.Done() // ctx has ended, or a listener has broken
	d.drain(ctx, o)
	return err
}

// open opens what answers, and pushes how to close it: first the admin listener, so that
// metrics tell of all to the end; and those of callers when it can answer them. When all is closed but what New has opened, broke is why
// a listener broke.
func (d *Daemon) open(ctx context.Context, g *errgroup.Group, broke *error) (*listeners, error) {
	d.closing.push("", func(context.Context) error {
		*broke = g.Wait()
		if d.draining.Load() && d.storage.snapshots != nil {
			d.saveSnapshot() // nobody counts any more
		}
		return nil
	})
	o := new(listeners)
	later, err := d.listenAt(ctx, o)
	if err != nil {
		return nil, err
	}
	d.opened.Store(o)
	d.sayOpen(o)
	d.sayHTTP2()
	d.readBack(ctx)
	if d.storage.remote != nil {
		d.storage.remote.Meet(ctx)
	}
	if err := d.openAdmin(o, g); err != nil {
		return nil, err
	}
	d.openPlain(o, g)
	if err := d.join(ctx, o.httpAt.Addr()); err != nil {
		return nil, err
	}
	if err := d.openCollector(ctx); err != nil {
		return nil, err
	}
	if o, err = d.listenAgain(ctx, o, later); err != nil {
		return nil, err
	}
	return o, d.openCallers(o, g)
}

// keep does what goes on beside the listeners, until ctx ends.
func (d *Daemon) keep(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return d.watcher.Run(ctx) })
	for _, part := range []struct {
		there bool
		run   func(context.Context)
	}{
		{true, every(offenders.Step, d.tick)},
		{true, every(beatEvery, d.limiter.Book.Beat)},
		{true, every(sweepEvery, d.denials.Sweep)},
		{d.source != nil, func(ctx context.Context) { d.source.Watch(ctx, d.reloaded) }},
		{d.config.statsd != nil, func(ctx context.Context) { d.config.statsd.Keep(ctx) }},
		{d.candidates != nil, func(ctx context.Context) { d.candidates.Watch(ctx, d.candidatesReloaded) }},
		{d.feed != nil, func(ctx context.Context) { d.feed.Watch(ctx, d.published) }},
		{d.feed != nil, d.sharers().Keep},
		{d.feed != nil, d.keepTallies},
		{true, d.auditLog.Keep},
		{d.feed != nil, d.keepCharts},
		{d.feed != nil, d.keepAsked},
		{d.feed != nil, d.keepNotices},
		{d.feed != nil, func(ctx context.Context) { d.webhooks.Keep(ctx) }},
		{d.feed != nil, d.keepTidy},
		{len(d.keys.watched) > 0, every(d.config.lookEvery, func(time.Time) { d.lookAtKeys(false) })},
		{d.storage.node != nil, func(ctx context.Context) { d.storage.node.KeepMeasuring(ctx) }},
		{d.storage.node != nil, func(ctx context.Context) { d.storage.node.KeepRemembering(ctx) }},
		{d.storage.snapshots != nil, every(d.config.saveEvery, func(time.Time) { d.saveSnapshot() })},
	} {
		if part.there {
			g.Go(func() error {
				part.run(ctx)
				return nil
			})
		}
	}
}

// every does f at each tick until its context ends.
func every(step time.Duration, f func(now time.Time)) func(context.Context) {
	return func(ctx context.Context) { sleep.Every(ctx, step, f) }
}

// sweepEvery is how often denials whose time is over are erased.
const sweepEvery = time.Minute
