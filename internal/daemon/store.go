package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/synced"
	"github.com/weir-limit/weir/memcachestore"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/redisstore"
)

const (
	// envoyPatience is how long a call at the gRPC door may take whose caller says
	// nothing, or more, when counts are elsewhere: what Envoy waits by default.
	envoyPatience = 20 * time.Millisecond
	// firstContact is how long a start waits for a store that does not answer yet.
	firstContact = 1500 * time.Millisecond // to know why, after a timeout of its dialer
	// contactEvery is how often a store is asked whether it is there, so that this
	// is known when nobody calls; and firstEvery, how often at the start.
	contactEvery = time.Second
	firstEvery   = 20 * time.Millisecond
)

// storage is where a daemon keeps its counts.
type storage struct {
	scheme string
	store  weir.Store // which all doors ask: in memory, or what decides at home where it may, and else asks the guard
	traits weir.Traits
	guard  *guard.Guard // around remote; nil in memory
	remote *remote      // nil in memory
	meters []prometheus.Collector

	snapshots *snapshots // nil when there are none
}

// remote is a store outside of the process.
type remote struct {
	weir.Store

	ping   func(context.Context) error
	close  func() error
	meters prometheus.Collector
}

// openStorage opens the store of a URL that was checked. changed is called when a
// store outside of the process goes away, with the reason, and when it is back.
func openStorage(url string, changed func(away error)) (*storage, error) {
	scheme := schemeOf(url)
	if file, err := snapshotFile(url); scheme == "memory" && (err != nil || file != "") {
		return openSaved(file, err)
	}
	if scheme == "memory" {
		m := memstore.New(memstore.Options{})
		return &storage{scheme: scheme, store: m, traits: m.Traits(), meters: []prometheus.Collector{newMemoryMetrics(m)}}, nil
	}
	r, err := openRemote(scheme, url)
	if err != nil {
		return nil, err
	}
	g := guard.New(r.Store, guard.Options{Changed: changed})
	home := synced.New(g)
	leave := r.close
	r.close = func() error { return errors.Join(home.Close(), leave()) }
	return &storage{
		scheme: scheme, store: home, traits: r.Traits(), guard: g, remote: r,
		meters: []prometheus.Collector{newGuardMetrics(g), newSyncMetrics(home), r.meters},
	}, nil
}

// openSaved opens a store in memory whose counts are kept in a file.
func openSaved(file string, bad error) (*storage, error) {
	if bad != nil {
		return nil, bad
	}
	s, err := openSnapshots(file)
	if err != nil {
		return nil, err
	}
	meters := append(s.meters(), newMemoryMetrics(s.store))
	return &storage{scheme: "memory", store: s.store, traits: s.store.Traits(), snapshots: s, meters: meters}, nil
}

// openRemote opens a store outside of the process. None of them fails for being
// away.
func openRemote(scheme, url string) (*remote, error) {
	if isRedis(scheme) {
		s, err := redisstore.Open(url)
		if err != nil {
			return nil, storeError(err)
		}
		ping := func(ctx context.Context) error {
			_, _, err := s.Look(ctx, nil)
			return err
		}
		return &remote{Store: s, ping: ping, close: s.Close, meters: newRedisMetrics(s)}, nil
	}
	s, err := memcachestore.Open(url, memcachestore.Options{})
	if err != nil {
		return nil, storeError(err)
	}
	closing := func() error {
		s.Close()
		return nil
	}
	return &remote{Store: s, ping: func(ctx context.Context) error { return anyAnswers(s.Status(ctx)) }, close: closing, meters: newMemcachedMetrics(s)}, nil
}

// anyAnswers fails when no server does: one that is away is so for its keys alone.
func anyAnswers(servers []memcachestore.Status) error {
	var errs []error
	for i := range servers {
		if servers[i].Err == nil {
			return nil
		}
		errs = append(errs, servers[i].Err)
	}
	return errors.Join(errs...)
}

func isMemcached(scheme string) bool { return scheme == "memcached" || scheme == "memcached+unix" }

func isRedis(scheme string) bool {
	return scheme == "rediss" || scheme == "redis" || strings.HasPrefix(scheme, "redis+")
}

func schemeOf(url string) string {
	scheme, _, _ := strings.Cut(url, ":")
	return scheme
}

// storeError is what is wrong with the URL of a store, without the URL: it may
// have a password.
func storeError(err error) error {
	if err == nil {
		return nil
	}
	_, text, _ := strings.Cut(err.Error(), ": ") // whose it is does not matter
	return &ConfigError{"--store", text}
}

// CheckStore says whether a daemon can keep its counts there; it fails as New, and
// connects to nobody.
func CheckStore(url string) error {
	scheme, _, ok := strings.Cut(url, ":")
	if !ok {
		scheme = ""
	}
	switch {
	case scheme == "memory":
		_, err := snapshotFile(url)
		return err
	case isRedis(scheme):
		return storeError(redisstore.CheckURL(url))
	case scheme == "cluster":
		return fmt.Errorf("--store %s: %w; counts are kept with memory:, redis:// or memcached://", scheme, ErrNotBuilt)
	case isMemcached(scheme):
		s, err := memcachestore.Open(url, memcachestore.Options{}) // which connects to nobody
		if err == nil {
			s.Close()
		}
		return storeError(err)
	}
	return &ConfigError{"--store", "this is no store; write memory:, or a URL as redis://host:port"}
}

// StoreTraits are what the store of a URL promises, which is checked, and
// connected to by nobody.
func StoreTraits(url string) (weir.Traits, error) {
	if err := CheckStore(url); err != nil {
		return weir.Traits{}, err
	}
	switch scheme := schemeOf(url); {
	case isRedis(scheme):
		return redisstore.TraitsOf(scheme == "redis+cluster"), nil
	case isMemcached(scheme):
		return (&memcachestore.Store{}).Traits(), nil
	}
	return memstore.New(memstore.Options{}).Traits(), nil
}

// storeChanged logs that the store went away or is back.
func (d *Daemon) storeChanged(away error) {
	if away == nil {
		d.config.Log.Info("the store is back", "store", d.storage.scheme)
		return
	}
	d.config.Log.Error("the store is away; the fallbacks of the rules decide", "store", d.storage.scheme, "error", away)
}

// contact waits a little for a store outside of the process, so that a daemon
// whose store is there begins with it. When it is not, the guard learns why.
func (d *Daemon) contact(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstContact)
	defer cancel()
	for {
		if d.storage.remote.ping(ctx) == nil {
			return
		}
		select {
		case <-ctx.Done():
			d.look(context.WithoutCancel(ctx))
			return
		case <-time.After(firstEvery):
		}
	}
}

// look asks the store through the guard until it knows whether it is away.
func (d *Daemon) look(ctx context.Context) {
	for range guard.Enough {
		if err := d.storage.guard.Probe(ctx, d.storage.remote.ping); err == nil || d.storage.guard.Stats().Away {
			return
		}
	}
}

// keepContact asks the store now and then until ctx ends.
func (d *Daemon) keepContact(ctx context.Context) {
	tick := time.NewTicker(contactEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.look(ctx)
		}
	}
}

// away is what /readyz says of a store that is away.
func (d *Daemon) away() string {
	if d.storage.guard == nil || !d.storage.guard.Stats().Away {
		return ""
	}
	return "the store is away: the fallbacks of the rules decide"
}

func (d *Daemon) closeStorage() {
	if d.storage.remote == nil {
		return
	}
	if err := d.storage.remote.close(); err != nil {
		d.config.Log.Warn("the store could not be left in order", "error", err)
	}
}
