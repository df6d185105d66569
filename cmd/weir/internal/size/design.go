package size

import (
	"cmp"
	"fmt"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

// Verdict is whether a design is enough for a need, and why.
type Verdict struct {
	Design string `json:"design"`
	Fits   bool   `json:"fits"`
	Why    string `json:"why"`
	Run    string `json:"run,omitempty"` // how to run it

	store Store         // what it is sized as; empty where Weir is not needed
	sync  time.Duration // of the rules
	lease bool          // and not sync, but the time that a portion of a lease lasts
}

func yes(store Store, run, why string) Verdict {
	return Verdict{Fits: true, Why: why, Run: run, store: store}
}

func no(form string, args ...any) Verdict { return Verdict{Why: fmt.Sprintf(form, args...)} }

// designs are all that there are, the simplest first. The first one that fits is the advice.
var designs = [...]struct {
	name  string
	judge func(*Need) Verdict
}{
	{"the load balancer's own limit", (*Need).balancer},
	{"Weir in memory", (*Need).inMemory},
	{"Weir in memory on each node, each with the whole limit", (*Need).wholeEach},
	{"Weir with a Redis, and sync", (*Need).withSync},
	{"Weir with a Redis", (*Need).redis},
	{"Weir with a Redis, and leases", (*Need).withLease},
	{"Weir nodes that share counts, by leases", (*Need).leases},
	{"Weir with a Redis Cluster", (*Need).cluster},
	{"Weir with PostgreSQL", (*Need).postgres},
	{"Weir with NATS", (*Need).nats},
	{"Weir with memcached", (*Need).memcached},
	{"Weir nodes, each with its part of the limit", (*Need).divided},
	{"Weir nodes that tell each other, by mesh", (*Need).mesh},
	{"Weir nodes that tell each other, by gossip", (*Need).gossip},
	{"Weir with an event log in Kafka", (*Need).eventLog},
	{"Weir in each region, with a count of its own", (*Need).eachRegion},
}

// Advise judges all designs, in the order of their simplicity: the first that
// fits is the one to take.
func (n *Need) Advise() []Verdict {
	var all []Verdict
	for _, d := range designs {
		v := d.judge(n)
		v.Design = d.name
		all = append(all, v)
	}
	return all
}

func (n *Need) balancer() Verdict {
	const but = ". Take Weir when answers should say when to come back, when costs differ or are settled later, or to try rules in shadow and see why a client is denied"
	if n.total() > 1 {
		return no("it counts by itself on each machine: nothing is shared")
	}
	s := n.Limit.Spec()
	switch s.Algorithm {
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket, weir.LeakyQueue:
		switch {
		case s.Debt > 0 || s.Mode == weir.Strict || s.Initial != nil && *s.Initial != s.Burst:
			return no("its buckets have no debt, no initial and no strict")
		case s.Count == 0 || s.Period/time.Duration(s.Count) > time.Minute:
			return no("its buckets have rates by the second or the minute: less than one event a minute can't be written there")
		}
		return yes("", "", "one machine and a bucket: limit_req of nginx does that"+but)
	case weir.SlidingWindow:
		if s.SubWindows == 1 {
			return yes("", "", "one machine and a rate over a period: a stick table of HAProxy with http_req_rate does nearly that"+but)
		}
	case weir.Concurrent:
		return yes("", "", "one machine that sees the requests end: limit_conn of nginx, or a stick table of HAProxy with conn_cur, does that"+but)
	default:
	}
	return no("it has buckets, rates over a period, and connections; %q is another kind", n.Limit)
}

func (n *Need) inMemory() Verdict {
	if n.total() > 1 {
		return no("each of %d nodes would count by itself. Where the load balancer sends each key always to the same node that is exact, and this is the answer", n.total())
	}
	if why := n.unfit(Memory); why != "" {
		return no("%s", why)
	}
	return yes(Memory, "weir serve, or memstore in a Go program",
		"one node decides: exact, in a microsecond or two, and no server to run. With --store memory:?snapshot=FILE counts outlive a restart")
}

func (n *Need) wholeEach() Verdict {
	more := 100 * (n.total() - 1)
	switch {
	case n.total() == 1:
		return no("there is one node")
	case n.Tolerance < more:
		return no("of each key up to %d times the limit would pass: %d %% more, and you allow %d %%", n.total(), more, n.Tolerance)
	}
	return yes(Memory, "weir serve on each node",
		fmt.Sprintf("you allow %d %% more, and %d nodes that each let the limit pass make at most %d %%: nothing need be shared", n.Tolerance, n.total(), more))
}

// syncs are the times that are tried for sync, the longest first.
var syncs = [...]time.Duration{
	10 * time.Second, 5 * time.Second, 2 * time.Second, time.Second,
	500 * time.Millisecond, 200 * time.Millisecond, 100 * time.Millisecond, 50 * time.Millisecond,
}

// sync is the longest with which no more passes than is allowed; false for none.
func (n *Need) sync() (time.Duration, bool) {
	for _, sync := range syncs {
		if 100*n.untold(sync) <= n.Tolerance*n.Limit.Spec().Count {
			return sync, true
		}
	}
	return 0, false
}

// untold is how many events more may pass with this sync.
func (n *Need) untold(sync time.Duration) int64 { return n.Nodes * n.Limit.Unsynced(sync) }

func (n *Need) withSync() Verdict {
	switch {
	case n.total() == 1:
		return no("there is one node")
	case n.Regions > 1:
		return no(farAway)
	case n.Limit.Unsynced(time.Second) == 0:
		return no("a node can't keep %q by itself", n.Limit)
	}
	sync, ok := n.sync()
	if !ok {
		shortest := syncs[len(syncs)-1]
		return no("with sync: %v up to %d events more would pass on %d nodes, and you allow %d %% of %d", shortest, n.untold(shortest), n.Nodes, n.Tolerance, n.Limit.Spec().Count)
	}
	if times(n.Rate, sync.Milliseconds()) < times(times(n.Keys, n.Nodes), 2000) {
		return no("with sync: %v at most %d events more would pass, as you allow; but a node is asked for a key less than twice in that time, so that the store would be spared little", sync, n.untold(sync))
	}
	if _, why := n.enough(Redis, sync); why != "" {
		return no("%s", why)
	}
	v := yes(Redis, fmt.Sprintf("weir serve --store redis://HOST:PORT, and sync: %v in the rules", sync),
		fmt.Sprintf("you allow %d %% more, and keys are asked for often: with sync: %v a node decides by itself, and at most %d events more pass", n.Tolerance, sync, n.untold(sync)))
	v.sync = sync
	return v
}

const farAway = "a store in another region is tens of milliseconds away for each request; calls have 5 to 50 ms"

func (n *Need) redis() Verdict {
	if _, why := n.shared(Redis); why != "" {
		return no("%s", why)
	}
	return yes(Redis, "weir serve --store redis://HOST:PORT",
		fmt.Sprintf("%d nodes share each count, exactly, by the server's clock, and all limits of a request are decided at one moment, for a round trip. While it is away each rule's fallback decides, and a failover may forget the last moments", n.Nodes))
}

// portionLasts is how long a portion lasts at most with lease: 100ms: the store hears of a key so often.
const portionLasts = time.Second

func (n *Need) withLease() Verdict {
	switch {
	case n.total() == 1:
		return no("there is one node")
	case n.Regions > 1:
		return no(farAway)
	case n.Limit.Unleasable() != "":
		return no("a node can't take events of %q beforehand", n.Limit)
	}
	asked, melts := n.Rate/times(n.Keys, n.Nodes), n.Limit.Melts(portionLasts)
	all, _ := n.Limit.Standing(nil, 0)
	if asked < 2 {
		return no("a node is asked for a key less than twice in the second that a portion lasts, so that the store would be spared little")
	}
	if portion := min(asked+melts, all/8); times(portion, asked) < 2*(asked+melts) {
		return no("a portion of %q has melted before a node is asked for the key twice", n.Limit)
	}
	if _, why := n.enough(Redis, portionLasts); why != "" {
		return no("%s", why)
	}
	v := yes(Redis, "weir serve --store redis://HOST:PORT, and lease: 100ms in the rules",
		"keys are asked for often, and no more may pass than the limit: each node takes portions beforehand, of an eighth of the limit at most. What one holds is missing at the others for a moment, so a client may be denied early")
	v.sync, v.lease = portionLasts, true
	return v
}

// shared is what a store takes that nodes share, or why it is not to be.
func (n *Need) shared(s Store) (Sizing, string) {
	if why := n.unshared(); why != "" {
		return Sizing{}, why
	}
	return n.enough(s, 0)
}

// enough is what a store takes, or why it is not enough.
func (n *Need) enough(s Store, sync time.Duration) (Sizing, string) {
	z, err := n.Of(s, sync)
	switch {
	case err != nil:
		return z, err.Error()
	case s == Redis || s == NATS:
		return z, z.tooMuch()
	case s == Postgres:
		return z, z.primary()
	}
	return z, cmp.Or(z.crowded(), n.hot(&z))
}

// unshared says why a store is not to be shared; empty when it may.
func (n *Need) unshared() string {
	switch {
	case n.total() == 1:
		return "there is one node: a server would add a round trip to each request, and nothing else"
	case n.Regions > 1:
		return farAway
	}
	return ""
}

// hot says why more servers do not help: a key lies on one of them. Keys are taken to
// be asked for alike; one that is asked for more often needs more.
func (n *Need) hot(z *Sizing) string {
	if each := up(z.StoreCPU, n.Keys); each > load {
		return fmt.Sprintf("a key lies on one server, and the takes of each of %s need %d %% of a processor; plan for %d %%", many(n.Keys, "key"), each, load)
	}
	return ""
}

// nodes is what a way to share takes, or why nodes can't share so.
func (n *Need) nodes(how weir.Sharing) (s Share, why string) {
	switch {
	case n.total() == 1:
		return s, "there is one node"
	case n.Regions > 1:
		return s, "nodes of a cluster are near each other: the answer of an owner in another region takes tens of milliseconds, and a cut between regions lasts"
	case n.Nodes > maxShare:
		return s, fmt.Sprintf("a cluster is up to %d nodes", maxShare)
	case times(n.Keys, n.Limits) > most(how):
		return s, fmt.Sprintf("a node is asked about %s keys at most", Count(most(how)))
	}
	if s = (Share{Sharing: how, Unfit: bounds.Unfit(how, n.Limit, int(n.Nodes))}); s.Unfit == "" {
		n.share(&s)
	}
	return s, s.Unfit
}

const runNodes = "weir serve --store cluster: --join HOST:PORT,…"

func (n *Need) leases() Verdict {
	s, why := n.nodes(weir.SharingLease)
	if why != "" {
		return no("%s", why)
	}
	return yes(Nodes, runNodes, fmt.Sprintf("no server to run: each key has an owner, which leases events to the other nodes, so that a busy key is decided locally and a rare one costs a message there and back; "+
		"each of %d nodes sends %s a second at most. %s", n.Nodes, many(s.Messages, "message"), "Nothing more passes while nodes reach each other; in a cut the rule's partition decides. Counts are gone when all nodes stop"))
}

func (n *Need) divided() Verdict {
	_, why := n.nodes(weir.SharingDivided)
	switch {
	case why != "":
		return no("%s", why)
	case 100 > n.Tolerance*n.Nodes:
		return no("each start or leave of one of %d nodes adds its part of the limit once more, which is more than %d %%", n.Nodes, n.Tolerance)
	}
	return yes(Nodes, runNodes+", and sharing: divided in the rules",
		fmt.Sprintf("each node passes 1/%d of the limit by itself, without a message; a start or leave of a node adds as much. A client of only one node gets no more than its part", n.Nodes))
}

func (n *Need) mesh() Verdict { return n.replicas(weir.SharingMesh) }

func (n *Need) gossip() Verdict { return n.replicas(weir.SharingGossip) }

func (n *Need) replicas(how weir.Sharing) Verdict {
	s, why := n.nodes(how)
	switch {
	case why != "":
		return no("%s", why)
	case times(100, s.Over) > times(n.Tolerance, n.Limit.Spec().Count):
		return no("up to %s events more of a key would pass before nodes learn of each other's events, and you allow %d %% of %d", Count(s.Over), n.Tolerance, n.Limit.Spec().Count)
	}
	return yes(Nodes, fmt.Sprintf("%s, and sharing: %s in the rules", runNodes, how),
		fmt.Sprintf("each node decides locally, and no request ever waits; up to %s events more of a key pass, as you allow. Each sends %s a second", Count(s.Over), many(s.Messages, "message")))
}

// eventLog is not sized: what brokers take, their makers say.
func (n *Need) eventLog() Verdict {
	unfit := bounds.Unfit(bounds.Log, n.Limit, int(n.Nodes))
	over := bounds.Ahead(n.Limit, bounds.Log, int(n.Nodes), bounds.LogUsual, 1)
	switch {
	case n.total() == 1:
		return no("there is one node")
	case n.Regions > 1:
		return no("nodes and the brokers of a log are near each other")
	case times(n.Keys, n.Limits) > logKeys:
		return no("each node keeps all keys, and %s of them at most", Count(logKeys))
	case unfit != "":
		return no("%s", unfit)
	case times(100, over) > times(n.Tolerance, n.Limit.Spec().Count):
		return no("up to %s events more of a key would pass where the log is %v late, and you allow %d %% of %d", Count(over), bounds.LogUsual, n.Tolerance, n.Limit.Spec().Count)
	}
	return yes("", "weir serve --store kafka://HOST:PORT/TOPIC",
		fmt.Sprintf("where a Kafka runs already: each node decides locally, no request ever waits, and counts outlive all nodes; up to %s events more of a key pass where the log is %v late, as you allow", Count(over), bounds.LogUsual))
}

func (n *Need) cluster() Verdict {
	z, why := n.shared(Cluster)
	if why != "" {
		return no("%s", why)
	}
	return yes(Cluster, "weir serve --store redis+cluster://HOST:PORT,HOST:PORT,HOST:PORT",
		fmt.Sprintf("as one Redis, on %d primaries; the descriptors of a request are charged one after the other, and given back when one denies", z.Servers))
}

func (n *Need) postgres() Verdict {
	if why := cmp.Or(n.unshared(), n.unfit(Postgres)); why != "" {
		return no("%s", why)
	}
	if n.Tolerance == 0 {
		return no("each process brings its own clock, so that more passes by as much as they are apart: that is not exact")
	}
	if _, why := n.enough(Postgres, 0); why != "" {
		return no("%s", why)
	}
	return yes(Postgres, "weir serve --store postgres://USER@HOST/DATABASE", "where it runs already, and no Redis does: by the clocks of the nodes, and all limits of a request at one moment; nothing is forgotten but what a failover loses")
}

func (n *Need) memcached() Verdict {
	if why := cmp.Or(n.unshared(), n.unfit(Memcached)); why != "" {
		return no("%s", why)
	}
	if n.Tolerance == 0 {
		return no("each process brings its own clock, so that more passes by as much as they are apart; and it forgets when it is full or restarts: that is not exact")
	}
	if _, why := n.enough(Memcached, 0); why != "" {
		return no("%s", why)
	}
	return yes(Memcached, "weir serve --store memcached://HOST:PORT", "where it runs already: by the clocks of the nodes; what it forgets when it is full or restarts may pass once more")
}

func (n *Need) nats() Verdict {
	if why := cmp.Or(n.unshared(), n.unfit(NATS)); why != "" {
		return no("%s", why)
	}
	if n.Tolerance == 0 {
		return no("each process brings its own clock, so that more passes by as much as they are apart: that is not exact")
	}
	if _, why := n.enough(NATS, 0); why != "" {
		return no("%s", why)
	}
	return yes(NATS, "weir serve --store 'nats://HOST:PORT,HOST:PORT,HOST:PORT?replicas=3'", "where it runs already: by the clocks of the nodes; the death of one server of three forgets nothing")
}

func (n *Need) eachRegion() Verdict {
	if n.Regions == 1 {
		return no("there is one region")
	}
	var why string
	limit := "the limit divided by hand"
	switch more := 100 * (n.Regions - 1); {
	case n.Tolerance >= more:
		why = fmt.Sprintf("counts are not shared between regions. You allow %d %% more, and the whole limit in each of %d makes at most %d %%", n.Tolerance, n.Regions, more)
		limit = "the whole limit"
	case n.Limit.Spec().Count < n.Regions:
		return no("%d events can't be divided among %d regions", n.Limit.Spec().Count, n.Regions)
	default:
		why = fmt.Sprintf("counts are not shared between regions. With 1/%d of the limit in each, never more than all of it passes; a client in only one region gets no more than its part", n.Regions)
	}
	if n.Nodes <= n.Regions {
		return yes(Memory, "weir serve in each region, and "+limit, why)
	}
	if _, not := n.enough(Redis, 0); not != "" {
		if c, err := n.Of(Cluster, 0); err != nil || cmp.Or(c.crowded(), n.hot(&c)) != "" {
			return no("%s", not)
		}
		return yes(Cluster, "a Redis Cluster in each region, and "+limit, why)
	}
	return yes(Redis, "a Redis in each region, and "+limit, why)
}
