package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/membership"
	"github.com/weir-limit/weir/internal/sleep"
	"github.com/weir-limit/weir/internal/synced"
	"github.com/weir-limit/weir/memcachestore"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/redisstore"
)

const (
	// firstContact is how long a start waits for a store that does not answer yet.
	firstContact = 1200 * time.Millisecond // to know why, after a timeout of its dialer
	// contactEvery is how often a store is asked whether it is there, so that this
	// is known when nobody calls; and firstEvery, how often at the start.
	contactEvery = time.Second
	firstEvery   = 20 * time.Millisecond
	// uncountableEvery is how often the log says why keys can't be counted, at most.
	uncountableEvery = time.Minute
)

// storage is where a daemon keeps its counts.
type storage struct {
	scheme string
	store  weir.Store // which all doors ask: in memory, or what decides at home where it may, and else asks the guard
	traits weir.Traits
	guard  *guard.Guard     // around remote or node; nil in memory
	remote *remote          // nil but for a store outside of the process
	node   *membership.Node // this daemon's in a cluster; nil where there is none
	meters []prometheus.Collector

	snapshots *snapshots // nil when there are none
}

// remote is a store outside of the process.
type remote struct {
	weir.Store

	servers int // which ping can ask, each of which may be away by itself
	ping    func(ctx context.Context, server int) error
	close   func() error
	meters  prometheus.Collector
}

// openStorage opens the store of a URL that was checked. told is who hears of a store
// outside of the process.
func openStorage(url string, told guard.Options) (*storage, error) {
	scheme := schemeOf(url)
	if file, err := snapshotFile(url); scheme == "memory" && (err != nil || file != "") {
		return openSaved(file, err)
	}
	if scheme == "memory" {
		m := memstore.New(memstore.Options{})
		return &storage{scheme: scheme, store: m, traits: m.Traits(), meters: []prometheus.Collector{newMemoryMetrics(m)}}, nil
	}
	if scheme == "cluster" {
		return openNode(told), nil
	}
	r, err := openRemote(scheme, url)
	if err != nil {
		return nil, err
	}
	g := guard.New(r.Store, told)
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
		ping := func(ctx context.Context, _ int) error {
			_, _, err := s.Look(ctx, nil)
			return err
		}
		return &remote{Store: s, servers: 1, ping: ping, close: s.Close, meters: newRedisMetrics(s)}, nil
	}
	s, err := memcachestore.Open(url, memcachestore.Options{})
	if err != nil {
		return nil, storeError(err)
	}
	closing := func() error {
		s.Close()
		return nil
	}
	return &remote{Store: s, servers: len(s.Servers()), ping: s.Ping, close: closing, meters: newMemcachedMetrics(s)}, nil
}

// answers is whether some server does.
func (r *remote) answers(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	said := make(chan error, r.servers)
	for server := range r.servers {
		go func() { said <- r.ping(ctx, server) }()
	}
	for range r.servers {
		if <-said == nil {
			return true
		}
	}
	return false
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
		if url != "cluster:" && !clusterTCP(url) {
			return &ConfigError{"--store", "write cluster:, or cluster:?transport=tcp where the network drops UDP; the nodes are for --join"}
		}
		return nil
	case isMemcached(scheme):
		s, err := memcachestore.Open(url, memcachestore.Options{}) // which connects to nobody
		if err == nil {
			s.Close()
		}
		return storeError(err)
	}
	return &ConfigError{"--store", "this is no store; write memory:, cluster:, or a URL as redis://host:port or memcached://host:port"}
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
	case scheme == "cluster":
		return (&cluster.Store{}).Traits(), nil
	}
	return memstore.New(memstore.Options{}).Traits(), nil
}

// storeChanged logs that the store, or a server of several, went away or is back.
func (d *Daemon) storeChanged(server string, away error) {
	log := d.config.Log.With("store", d.storage.scheme)
	if server != "" {
		log = log.With("server", server)
	}
	if away == nil {
		log.Info("the store is back")
		return
	}
	log.Error("the store is away; the fallbacks of the rules decide", "error", away)
}

// uncountable logs why a key can't be counted, now and then: it says so at each ask.
func (d *Daemon) uncountable(err error) {
	now := time.Now().UnixNano()
	last := d.uncountableSaid.Load()
	if last != 0 && now-last < int64(uncountableEvery) || !d.uncountableSaid.CompareAndSwap(last, now) {
		return
	}
	d.config.Log.Error("the store can't count a key; the fallback of its rule decides", "store", d.storage.scheme, "error", err)
}

// contact waits a little for a store outside of the process, so that a daemon
// whose store is there begins with it. When it is not, the guard learns why.
func (d *Daemon) contact(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstContact)
	defer cancel()
	for ctx.Err() == nil && !d.storage.remote.answers(ctx) {
		_ = sleep.For(ctx, firstEvery)
	}
	d.storage.guard.Contact(context.WithoutCancel(ctx), d.storage.remote.ping)
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
			d.storage.guard.Contact(ctx, d.storage.remote.ping)
		}
	}
}

// far is from which distance on /readyz tells how far a store is: Envoy waits 20 ms by
// default, of which the store has three quarters.
const far = 15 * time.Millisecond

// away is what /readyz says of a store that is away or far, and of a cluster in which not
// all is well.
func (d *Daemon) away() string {
	if d.storage.node != nil {
		return d.storage.node.Trouble()
	}
	if d.storage.guard == nil {
		return ""
	}
	switch s := d.storage.guard.Stats(); {
	case s.Away == 0 && s.Distance < far:
		return ""
	case s.Away == 0:
		return fmt.Sprintf("the store takes %v to answer: the fallbacks of the rules decide for callers who wait for less", s.Distance.Round(time.Millisecond))
	case s.Away < s.Servers:
		return fmt.Sprintf("%d of %d servers of the store are away: the fallbacks of the rules decide what they have", s.Away, s.Servers)
	}
	return "the store is away: the fallbacks of the rules decide"
}

func (d *Daemon) closeStorage() {
	leave := func() error { return nil }
	switch {
	case d.storage.remote != nil:
		leave = d.storage.remote.close
	case d.storage.node != nil:
		leave = d.storage.node.Close
	}
	if err := leave(); err != nil {
		d.config.Log.Warn("the store could not be left in order", "error", err)
	}
}
