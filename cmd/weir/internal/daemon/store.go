package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/cluster"
	"github.com/weir-limit/weir/cmd/weir/internal/credentials"
	"github.com/weir-limit/weir/cmd/weir/internal/logstore"
	"github.com/weir-limit/weir/cmd/weir/internal/membership"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/memcachestore"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/natsstore"
	"github.com/weir-limit/weir/pgstore"
	"github.com/weir-limit/weir/redisstore"
)

// maxReadBack is how long a daemon that starts waits for an event log to be read back.
const maxReadBack = 20 * time.Second

// uncountableEvery is how often the log says why keys can't be counted, at most.
const uncountableEvery = time.Minute

// storage is where a daemon keeps its counts.
type storage struct {
	scheme string
	store  weir.Store // which all listeners ask: in memory, remote, or the guard around node
	traits weir.Traits
	guard  *guard.Guard     // of remote, or around node; nil in memory
	remote *edge.Store      // nil but for a store outside of the process
	node   *membership.Node // this daemon's in a cluster; nil where there is none
	log    *logstore.Store  // remote's, where counts are shared by an event log; nil elsewhere
	meters []prometheus.Collector

	snapshots *snapshots // nil when there are none
}

// here is whether the store is in this process, and never waits.
func (s *storage) here() bool { return s.scheme == "memory" }

// openStorage opens the store of a URL that was checked. told is who hears of a store
// outside of the process.
func openStorage(url string, password redisstore.Password, told guard.Options) (*storage, error) {
	scheme := schemeOf(url)
	if file, err := snapshotFile(url); scheme == "memory" && (err != nil || file != "") {
		return openSaved(file, err)
	}
	if scheme == "memory" {
		m := memstore.New(memstore.Options{})
		return &storage{scheme: scheme, store: m, traits: m.Traits(), meters: []prometheus.Collector{telemetry.Memory(m)}}, nil
	}
	if scheme == "cluster" {
		return openNode(told), nil
	}
	r, meters, err := openRemote(scheme, url, password)
	if err != nil {
		return nil, storeError(err)
	}
	e := edge.New(r, edge.Options{Changed: told.Changed, Uncountable: told.Uncountable})
	log, _ := r.(*logstore.Store)
	return &storage{
		scheme: scheme, store: e, traits: e.Traits(), guard: e.Guard(), remote: e, log: log,
		meters: []prometheus.Collector{telemetry.Guard(e.Guard()), telemetry.Sync(e.Synced()), telemetry.Lease(e.Leased()), meters},
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
	return &storage{
		scheme: "memory", store: s.store, traits: s.store.Traits(), snapshots: s,
		meters: []prometheus.Collector{telemetry.Readings(s.metrics), telemetry.Memory(s.store)},
	}, nil
}

// StorePassword is the command that prints the password of a store; nil when none is given. It fails with a
// *ConfigError.
func StorePassword(url, command string) (redisstore.Password, error) {
	if command == "" {
		return nil, nil
	}
	if !isRedis(schemeOf(url)) {
		return nil, &ConfigError{"--store-password-command", "only Redis takes it, and --store is of another kind; leave it out"}
	}
	c, err := credentials.OpenCommand("--store-password-command", command)
	if err != nil {
		return nil, configError(err)
	}
	return c.Secret, nil
}

// openRemote opens a store outside of the process, without the edge around it. None of them
// fails for being away.
func openRemote(scheme, url string, password redisstore.Password) (edge.Remote, prometheus.Collector, error) {
	switch {
	case isRedis(scheme):
		s, err := redisstore.DialWith(url, password)
		if err != nil {
			return nil, nil, err
		}
		return s, telemetry.Redis(s), nil
	case isPostgres(scheme):
		s, err := pgstore.Dial(url, pgstore.Options{})
		if err != nil {
			return nil, nil, err
		}
		return s, telemetry.Postgres(s), nil
	case logstore.Is(url):
		s, err := logstore.Dial(url)
		if err != nil {
			return nil, nil, err
		}
		return s, telemetry.Log(s), nil
	case scheme == "nats":
		s, err := natsstore.Dial(url, natsstore.Options{})
		if err != nil {
			return nil, nil, err
		}
		return s, telemetry.NATS(s), nil
	}
	s, err := memcachestore.Dial(url, memcachestore.Options{})
	if err != nil {
		return nil, nil, err
	}
	return s, telemetry.Memcached(s), nil
}

func isMemcached(scheme string) bool { return scheme == "memcached" || scheme == "memcached+unix" }

func isPostgres(scheme string) bool { return scheme == "postgres" || scheme == "postgresql" }

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

// StoreSchemes are how the URLs of stores begin.
func StoreSchemes() []string {
	return []string{
		"memory:", "cluster:", "redis://", "rediss://", "redis+unix://", "redis+cluster://", "redis+sentinel://",
		"memcached://", "postgres://", "nats://", "kafka://",
	}
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
	case isPostgres(scheme):
		return storeError(pgstore.CheckURL(url))
	case logstore.Is(url):
		_, err := logstore.Dial(url) // which connects to nobody
		return storeError(err)
	case scheme == "nats":
		_, err := natsstore.TraitsOf(url)
		return storeError(err)
	case isMemcached(scheme):
		s, err := memcachestore.Dial(url, memcachestore.Options{}) // likewise
		if err == nil {
			err = s.Close()
		}
		return storeError(err)
	}
	return &ConfigError{"--store", "this is no store; write memory:, cluster:, or a URL as redis://host:port, memcached://host:port, nats://host:port, postgres://user@host/database or kafka://host:port/topic"}
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
	case isPostgres(scheme):
		return pgstore.TraitsOf(url), nil
	case isMemcached(scheme):
		return memcachestore.TraitsOf(), nil
	case logstore.Is(url):
		return logstore.TraitsOf(), nil
	case scheme == "nats":
		return natsstore.TraitsOf(url)
	case scheme == "cluster":
		return (&cluster.Store{}).Traits(), nil
	}
	return memstore.New(memstore.Options{}).Traits(), nil
}

// StoreSkew is how far the clocks that decide over the store of a URL are reckoned to be apart where it
// has none of its own, and in words, when.
func StoreSkew(url string) (skew time.Duration, when string) {
	if isPostgres(schemeOf(url)) && pgstore.ServerClock(url) {
		return 10 * time.Millisecond, "round trips to the server take 10ms"
	}
	return time.Second, "clocks are 1s apart"
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
	if d.storage.log != nil {
		return d.behind()
	}
	switch s := d.storage.guard.Stats(); {
	case s.Away == 0 && s.Distance < far:
		return ""
	case s.Away == 0:
		return fmt.Sprintf("the store takes %v to answer: the fallbacks of the rules decide for callers who wait for less", s.Distance.Round(time.Millisecond))
	case s.Away < s.Servers:
		return fmt.Sprintf("%d of %d servers of the store are away: the fallbacks of the rules decide their keys", s.Away, s.Servers)
	}
	return "the store is away: the fallbacks of the rules decide"
}

// behind is what /readyz says of an event log that this daemon can't follow.
func (d *Daemon) behind() string {
	err := d.storage.log.Ping(context.Background(), 0)
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "logstore: ") + ": the fallbacks of the rules decide"
}

// readBack reads an event log, from as long ago as the rules look back, before the daemon is ready. A
// log that is away, or takes long, keeps no daemon from its work: the fallbacks decide meanwhile.
func (d *Daemon) readBack(ctx context.Context) {
	if d.storage.log == nil {
		return
	}
	back, set := bounds.LogBack, d.limiter.Set()
	if set != nil && len(set.Rules()) > 0 {
		back = 0
		for _, r := range set.Rules() {
			if !r.Unlimited {
				back = max(back, bounds.Horizon(r.Limit).Duration())
			}
		}
	}
	d.storage.log.Start(back, d.config.Log)
	ctx, cancel := context.WithTimeout(ctx, maxReadBack)
	defer cancel()
	if err := d.storage.log.Caught(ctx); err != nil {
		d.config.Log.Error("the log is not read back; the fallbacks of the rules decide until it is", "store", d.storage.scheme, "error", err)
	}
}

// close leaves the store. Nobody counts any more.
func (s *storage) close(context.Context) error {
	switch {
	case s.remote != nil:
		return s.remote.Close()
	case s.node != nil:
		return s.node.Close()
	}
	return nil
}
