package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/cluster"
	"github.com/weir-limit/weir/cmd/weir/internal/gossip"
	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/membership"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/rules"
)

// DefaultCluster is where other nodes reach a daemon.
const DefaultCluster = "127.0.0.1:8083"

// openNode makes the store of a cluster, which is not taken part in yet.
func openNode(told guard.Options) *storage {
	n := membership.New()
	told.Near, told.Nodes = true, n.Size
	g := guard.New(n.Store, told)
	return &storage{
		scheme: "cluster", store: g, traits: n.Store.Traits(), guard: g, node: n,
		meters: []prometheus.Collector{telemetry.Node(n), telemetry.Guard(g)},
	}
}

// join makes this daemon a node of its cluster. It does not wait for the others.
func (d *Daemon) join(ctx context.Context, httpAt net.Addr) error {
	if d.storage.node == nil {
		return nil
	}
	o := membership.Options{
		Address: d.config.Cluster, Cluster: d.config.ClusterName, Join: d.config.joins(), TCP: clusterTCP(d.config.Store),
		Version: d.config.Version, HTTP: httpAt, Log: d.config.Log,
	}
	if d.keys.shared != nil {
		o.Keys = d.keys.shared.Value()
	}
	o.Bootstrap = d.config.Bootstrap
	o.List, o.NoList = d.config.membersFile()
	err := d.storage.node.Join(ctx, o)
	if errors.Is(err, gossip.ErrOpen) {
		return &ConfigError{"--cluster", err.Error()}
	}
	if bad, ok := errors.AsType[*membership.ListError](err); ok {
		return &ConfigError{"--cluster", bad.Text}
	}
	if err == nil {
		d.closing.push("the cluster could not be left in order", d.storage.node.Leave)
	}
	return err
}

// membersFile is where a node keeps the list of its members: in the folder of --data, else in the
// user's cache, by the address. A node whose address is any that is free is a new one each time.
func (c *Config) membersFile() (string, error) {
	if _, port, err := net.SplitHostPort(c.Cluster); err == nil && port == "0" {
		return "", nil
	}
	if c.Data != "" && !rulestore.IsPostgres(c.Data) {
		return filepath.Join(c.Data, "cluster.members"), nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "weir", "cluster", fmt.Sprintf("%x.members", sha256.Sum256([]byte(c.Cluster)))), nil
}

// rotate goes on with the keys of the file, which have changed. d.looking is held.
func (d *Daemon) rotate() {
	if d.storage.node == nil || d.keys.shared == nil {
		return
	}
	keys := d.keys.shared.Value()
	err := d.storage.node.Rotate(keys)
	if d.receipts != nil {
		err = errors.Join(err, d.receipts.Rekey(keys))
	}
	if err != nil {
		d.config.Log.Error("the cluster's keys could not be changed", "error", err)
	}
}

// shareReceipts has a listener settle receipts of all nodes with the same cluster key.
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
func clusterTCP(url string) bool { return url == "cluster:?transport=tcp" }

// checkCluster finds what can't be meant of a cluster.
func (c *Config) checkCluster() (errs []error) {
	if schemeOf(c.Store) != "cluster" {
		for flag, value := range map[string]string{"--join": c.Join, "--cluster-name": c.ClusterName, "--cluster-key-file": c.ClusterKeyFile} {
			if value != "" {
				errs = append(errs, &ConfigError{flag, "it is for nodes that share limits; give --store cluster: too"})
			}
		}
		if c.Bootstrap {
			errs = append(errs, &ConfigError{"--bootstrap", "it is for the first node of a cluster; give --store cluster: too"})
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
	if err := gossip.CheckCluster(c.ClusterName); err != nil {
		errs = append(errs, &ConfigError{"--cluster-name", err.Error()})
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
		set := d.limiter.Set()
		if set == nil || d.storage.node.Name() == "" {
			return httpapi.Owner{None: "this node has no rules, or has not joined yet"}
		}
		for i := range q.Descriptors {
			found, key := set.Match(q.Domain, &q.Descriptors[i])
			if len(found) == 0 || found[0].Unlimited {
				continue
			}
			switch how := found[0].Sharing; how {
			case weir.SharingMesh, weir.SharingGossip, weir.SharingHub, weir.SharingDivided:
				return httpapi.Owner{None: fmt.Sprintf("by sharing: %s each node decides by itself; ask any", how)}
			case weir.SharingLease, weir.SharingSticky, weir.SharingLeader:
			}
			return ownerOf(d.storage.node, found[0].State(key), &found[0].Policy)
		}
		return httpapi.Owner{None: "no rule meets it, or one that is unlimited"}
	}
}

func ownerOf(n *membership.Node, key weir.StateKey, p *weir.Policy) httpapi.Owner {
	name, http, here := n.Owner(key, p)
	if name == "" {
		return httpapi.Owner{None: "this node reaches too few other nodes now; ask any node, and again soon"}
	}
	return httpapi.Owner{Node: name, HTTP: http, Here: here}
}

// clusterRoutes are those of the admin listener that are about the cluster.
func (d *Daemon) clusterRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/cluster", d.inCluster(func(w http.ResponseWriter, _ *http.Request, s membership.Status) {
		s.Bounds, s.Parts = membership.BoundsOf(d.limiter.Set(), len(s.Members)), membership.PartsOf(d.limiter.Set(), &s)
		sendJSON(w, s)
	}))
	mux.HandleFunc("GET /v1/cluster/leader", d.inCluster(d.leader))
	mux.HandleFunc("POST /v1/cluster/forget", d.inCluster(d.forget))
}

// inCluster answers by f where there is a cluster.
func (d *Daemon) inCluster(f func(http.ResponseWriter, *http.Request, membership.Status)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if d.storage.node == nil {
			sendProblem(w, http.StatusConflict, "this daemon is in no cluster; start it with --store cluster:")
			return
		}
		s, joined := d.storage.node.Status()
		if !joined {
			sendProblem(w, http.StatusServiceUnavailable, "this daemon has not begun to take part in the cluster; ask again")
			return
		}
		f(w, r, s)
	}
}

// leader is GET /v1/cluster/leader?rule=NAME: which nodes lead a rule, as this one sees it. Of several rules with
// that name it is the first that has a leader.
func (d *Daemon) leader(w http.ResponseWriter, r *http.Request, _ membership.Status) {
	name, set := r.URL.Query().Get("rule"), d.limiter.Set()
	if name == "" {
		sendProblem(w, http.StatusBadRequest, "write ?rule=NAME, the name of an active rule")
		return
	}
	var named []*rules.Rule
	if set != nil {
		named = slices.DeleteFunc(slices.Clone(set.Rules()), func(r *rules.Rule) bool { return r.Name != name })
	}
	i := slices.IndexFunc(named, membership.HasLeaders)
	switch {
	case len(named) == 0:
		sendProblem(w, http.StatusConflict, fmt.Sprintf("no active rule has the name %s; weir lint prints all", name))
	case i < 0:
		sendProblem(w, http.StatusConflict, fmt.Sprintf("the rule %s has no leader: write sharing: leader, or hub", name))
	default:
		sendJSON(w, d.storage.node.Leaders(named[i]))
	}
}

// maxForget is how long the body of a forget may be.
const maxForget = 4 << 10

// forget is POST /v1/cluster/forget {"name": NAME}: a silent member is gone for good.
func (d *Daemon) forget(w http.ResponseWriter, r *http.Request, _ membership.Status) {
	var q struct {
		Name string `json:"name"`
	}
	in := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxForget))
	in.DisallowUnknownFields()
	if err := in.Decode(&q); err != nil || q.Name == "" {
		sendProblem(w, http.StatusBadRequest, `write {"name":"HOST:PORT"}, the name of the node that is gone`)
		return
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		sendProblem(w, http.StatusBadRequest, "there is more behind the name; leave it out")
		return
	}
	if err := d.storage.node.Gossip().Forget(q.Name); err != nil {
		sendProblem(w, http.StatusConflict, err.Error())
		return
	}
	d.config.Log.Warn("a node was given up by hand", "member", q.Name)
	d.audit(r, rulestore.Event{Action: rulestore.Forget, Reason: q.Name})
	s, _ := d.storage.node.Status()
	sendJSON(w, s)
}

func sendJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

func sendProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail}) // the client may be gone
}

// explainer tells of a request also how much its keys have while members of the cluster are silent.
type explainer struct {
	*telemetry.Meter
	node *membership.Node // nil: there is no cluster
}

// Explain is that of the daemon's limiter, with a note for each limit of which keys have a part only.
func (e explainer) Explain(ctx context.Context, r *rules.Request) (*rules.Explanation, error) {
	x, err := e.Meter.Explain(ctx, r)
	if err != nil || e.node == nil {
		return x, err
	}
	s, _ := e.node.Status()
	for i := range x.Answer.Decisions {
		if part, short := membership.PartOf(x.Answer.Decisions[i].Rule, &s); short {
			x.Limits[i].Notes = append(x.Limits[i].Notes, "in this cluster "+part.Told())
		}
	}
	return x, nil
}
