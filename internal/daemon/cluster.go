package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster"
	"github.com/weir-limit/weir/internal/gossip"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/httpapi"
	"github.com/weir-limit/weir/internal/sharing"
	"github.com/weir-limit/weir/rules"
)

// DefaultCluster is where other nodes reach a daemon.
const DefaultCluster = "127.0.0.1:8083"

// node is this daemon's part in a cluster.
type node struct {
	store *cluster.Store
	log   *slog.Logger
	// gossip is nil before the door for other nodes is open.
	gossip  atomic.Pointer[gossip.Gossip]
	members atomic.Int64         // how many there were when this node was one of them
	flow    atomic.Pointer[flow] // nil before it was measured

	mu          sync.Mutex // held while members are told
	incarnation uint64     // by which the store takes part
}

// about is what a node tells the others of itself.
type about struct {
	Version string `json:"version,omitempty"`
	HTTP    string `json:"http,omitempty"` // HOST:PORT of its HTTP door
}

// openNode makes the store of a cluster, which is not taken part in yet.
func openNode(told guard.Options) *storage {
	n := &node{store: cluster.New(cluster.Options{})}
	told.Near, told.Nodes = true, n.size
	g := guard.New(n.store, told)
	return &storage{
		scheme: "cluster", store: g, traits: n.store.Traits(), guard: g, node: n,
		meters: append(newNodeMetrics(n), newGuardMetrics(g)),
	}
}

// size is how many members there are. A node that is none any more keeps to its part.
func (n *node) size() int { return int(max(n.members.Load(), 1)) }

// join opens the door for other nodes, and takes part. It does not wait for them.
func (d *Daemon) join(ctx context.Context, httpAt net.Addr) error {
	n := d.storage.node
	o := gossip.Options{
		Name: d.config.Cluster, Bind: d.config.Cluster, Join: d.config.joins(), TCP: clusterTCP(d.config.Store),
		Incarnation: uint64(time.Now().UnixMicro()), Log: d.config.Log, Received: n.store.Receive, Changed: n.changed,
	}
	if d.keys.shared != nil {
		o.Keys = d.keys.shared.Value()
	}
	var err error
	if o.Meta, err = json.Marshal(d.about(httpAt)); err != nil {
		return err
	}
	g, err := gossip.Open(ctx, o)
	if err != nil {
		if errors.Is(err, gossip.ErrOpen) {
			return &ConfigError{"--cluster", err.Error()}
		}
		return err
	}
	n.log, n.incarnation = d.config.Log, incarnation(g, o.Incarnation)
	if err := n.store.Join(cluster.Self{Name: g.Name(), Incarnation: n.incarnation, Send: g.Send}); err != nil {
		return errors.Join(err, g.Close())
	}
	n.gossip.Store(g)
	n.changed(g.Members())
	d.sayJoined(g)
	n.store.Begin(ctx, n.names)
	return nil
}

func (d *Daemon) sayJoined(g *gossip.Gossip) {
	members := g.Members()
	if len(members) == 1 && len(g.Unjoined()) > 0 {
		d.config.Log.Warn("no other node has been joined; this one decides by itself until it meets some", "node", g.Name(), "join", d.config.Join)
		return
	}
	d.config.Log.Info("part of the cluster", "node", g.Name(), "join", d.config.Join, "members", len(members))
}

// incarnation is this process's: the others may know a later one of its name.
func incarnation(g *gossip.Gossip, least uint64) uint64 {
	for _, m := range g.Members() {
		if m.Name == g.Name() {
			return max(m.Incarnation, least)
		}
	}
	return least
}

// about is what others are told. A door on all addresses is told by the one that
// they reach.
func (d *Daemon) about(httpAt net.Addr) about {
	a := about{Version: d.config.Version}
	if tcp, ok := httpAt.(*net.TCPAddr); ok {
		a.HTTP = tcp.String()
		if host, _, err := net.SplitHostPort(d.config.Cluster); err == nil && tcp.IP.IsUnspecified() {
			a.HTTP = net.JoinHostPort(host, fmt.Sprint(tcp.Port))
		}
	}
	a.Version = a.Version[:min(len(a.Version), 100)]
	return a
}

// changed is told that members have. Who they are now is asked, for two may be told at once.
func (n *node) changed([]gossip.Member) {
	g := n.gossip.Load()
	if g == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	members := g.Members()
	all := make([]sharing.Member, len(members))
	for i, m := range members {
		all[i] = sharing.Member{Name: m.Name, Incarnation: m.Incarnation}
	}
	if now := incarnation(g, n.incarnation); now > n.incarnation {
		n.incarnation = now
		if err := n.store.Rejoin(now); err != nil {
			n.log.Error("this node could not begin anew", "error", err)
		}
	}
	if len(all) > 0 {
		n.members.Store(int64(len(all)))
	}
	n.store.View(all)
}

// names are the members, this node among them.
func (n *node) names() (names []string) {
	for _, m := range n.gossip.Load().Members() {
		names = append(names, m.Name)
	}
	return names
}

// A node that hears too few of the others has stopped what is closed before these take it
// for gone.
const _ = uint(gossip.Confirm - sharing.Quorum - time.Second)

// leaveCluster takes leave of the others in order.
func (d *Daemon) leaveCluster(ctx context.Context) {
	n := d.storage.node
	g := n.gossip.Load()
	if g == nil {
		return
	}
	err := n.store.Leave(ctx)
	parts, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	if err = errors.Join(err, g.Leave(parts)); err != nil {
		d.config.Log.Warn("the cluster could not be left in order", "error", err)
	}
}

// parting is how long a node that leaves has to be sure that the others know that it goes, also when
// to hand over took all of its time.
const parting = 500 * time.Millisecond

// close ends the part in the cluster.
func (n *node) close() error {
	err := n.store.Close()
	if g := n.gossip.Load(); g != nil {
		err = errors.Join(err, g.Close())
	}
	return err
}

// rotate goes on with the keys of the file, which have changed. d.looking is held.
func (d *Daemon) rotate() {
	if d.storage.node == nil || d.keys.shared == nil {
		return
	}
	keys := d.keys.shared.Value()
	var err error
	if g := d.storage.node.gossip.Load(); g != nil {
		err = g.Rotate(keys)
	}
	if d.receipts != nil {
		err = errors.Join(err, d.receipts.Rekey(keys))
	}
	if err != nil {
		d.config.Log.Error("the cluster's keys could not be changed", "error", err)
	}
}

// shareReceipts has a door settle receipts of all nodes with the same cluster key.
func (d *Daemon) shareReceipts(api *httpapi.API) error {
	if d.storage.node == nil || d.keys.shared == nil {
		return nil
	}
	d.looking.Lock()
	defer d.looking.Unlock()
	d.receipts = api
	return api.Rekey(d.keys.shared.Value())
}

// boundReceipt is whether a receipt is of a count that only this process has: of a fallback, or
// of a rule by which each node decides by itself.
func boundReceipt(r *weir.Receipt) bool { return guard.Local(r.State) || cluster.Alone(r.State) }

// joins are the addresses of --join.
func (c *Config) joins() (all []string) {
	for one := range strings.SplitSeq(c.Join, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// clusterTCP is whether nodes are to speak by TCP alone.
func clusterTCP(url string) bool { return strings.HasSuffix(url, "?transport=tcp") }

// checkCluster finds what can't be meant of a cluster.
func (c *Config) checkCluster() (errs []error) {
	if schemeOf(c.Store) != "cluster" {
		for flag, value := range map[string]string{"--join": c.Join, "--cluster-key-file": c.ClusterKeyFile} {
			if value != "" {
				errs = append(errs, &ConfigError{flag, "it is for nodes that share limits; give --store cluster: too"})
			}
		}
		return errs
	}
	address, err := net.ResolveUDPAddr("udp", c.Cluster)
	switch {
	case err != nil:
		return append(errs, &ConfigError{"--cluster", err.Error() + "; write HOST:PORT, as " + DefaultCluster})
	case !address.IP.IsLoopback() && c.ClusterKeyFile == "":
		return append(errs, clusterNeedsKey(c.Cluster))
	}
	for _, join := range c.joins() {
		_, port, err := net.SplitHostPort(join)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
			errs = append(errs, &ConfigError{"--join", fmt.Sprintf("%q is no node; write HOST:PORT of its --cluster, several with commas", join)})
		}
	}
	return errs
}

func clusterNeedsKey(address string) error {
	return &ConfigError{"--cluster", address + " can be reached from elsewhere, where nodes need a shared key; " +
		"give each --cluster-key-file FILE with the same key, as from weir cluster keygen, or write a loopback address, as " + DefaultCluster}
}

// owners is who keeps the counts that requests ask about; nil where there is no
// cluster.
func (d *Daemon) owners() func(*rules.Request) httpapi.Owner {
	if d.storage.node == nil {
		return nil
	}
	return func(q *rules.Request) httpapi.Owner {
		set, g := d.limiter.Set(), d.storage.node.gossip.Load()
		if set == nil || g == nil {
			return httpapi.Owner{None: "this node has no rules, or has not joined yet"}
		}
		for i := range q.Descriptors {
			found, key := set.Match(q.Domain, &q.Descriptors[i])
			if len(found) == 0 || found[0].Unlimited {
				continue
			}
			switch how := found[0].Sharing; how {
			case weir.SharingMesh, weir.SharingGossip, weir.SharingDivided:
				return httpapi.Owner{None: fmt.Sprintf("by sharing: %s each node decides by itself; ask any", how)}
			case weir.SharingLease, weir.SharingSticky:
			}
			return d.storage.node.owner(g, found[0].State(key))
		}
		return httpapi.Owner{None: "no rule meets it, or one that is unlimited"}
	}
}

func (n *node) owner(g *gossip.Gossip, key weir.StateKey) httpapi.Owner {
	o := httpapi.Owner{Node: n.store.Owner(key)}
	for _, m := range g.Members() {
		if m.Name == o.Node {
			o.HTTP, o.Here = aboutOf(&m).HTTP, m.Name == g.Name()
			return o
		}
	}
	return httpapi.Owner{None: "this node hears too few of the others now; ask any node, and again soon"}
}
