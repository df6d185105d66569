package daemon

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir/internal/cluster"
	"github.com/weir-limit/weir/internal/gossip"
	"github.com/weir-limit/weir/rules"
)

// ClusterStatus is what GET /v1/cluster of the admin door tells.
type ClusterStatus struct {
	Node string `json:"node"`
	// Settled is whether the node decides, and all counts are with their owners.
	Settled bool `json:"settled"`
	// Minority is whether it has not heard most of the members for so long that it gives nothing by
	// rules that are closed.
	Minority bool            `json:"minority,omitempty"`
	Members  []ClusterMember `json:"members"`
	// Apart are nodes that decide apart from this one, because they have another key; and those
	// that could not be joined, while none is.
	Apart []ClusterApart `json:"apart,omitempty"`
	// Lost are the nodes that went without a word, as far as that is remembered: keys that they
	// may have owned began with all used then.
	Lost   []ClusterLost  `json:"lost,omitempty"`
	Keys   ClusterKeys    `json:"keys"`
	Takes  ClusterTakes   `json:"takes"`
	In     ClusterTraffic `json:"in"`
	Out    ClusterTraffic `json:"out"`
	Bounds ClusterBounds  `json:"bounds"`
}

// ClusterApart is an address at which no node could be joined when it was tried last.
type ClusterApart struct {
	Address  string `json:"address"`
	OtherKey bool   `json:"other_key,omitempty"` // a node is there, and has another cluster key
	Why      string `json:"why"`
}

// ClusterLost is a process that is gone, and did not hand over what it owned.
type ClusterLost struct {
	Node string    `json:"node"`
	At   time.Time `json:"at"` // about, by this node's clock
}

// ClusterBounds is what may pass beyond the limits of the rules in force, on as many nodes
// as there are members.
type ClusterBounds struct {
	// Exact is how many rules let all nodes together pass what their limit lets one pass.
	Exact int `json:"exact"`
	// Others are those that may let pass more, maxBounds at most; Omitted is how many more
	// there are.
	Others  []ClusterBound `json:"others,omitempty"`
	Omitted int            `json:"omitted,omitempty"`
}

// ClusterBound is how much more a rule may let pass.
type ClusterBound struct {
	Rule  string `json:"rule"`
	Limit string `json:"limit"`
	Bound string `json:"bound"` // in words
}

// maxBounds is how many rules ClusterBounds names.
const maxBounds = 100

func boundsOf(set *rules.Set, nodes int) (b ClusterBounds) {
	if set == nil {
		return b
	}
	for _, r := range set.Rules() {
		if r.Unlimited {
			continue
		}
		switch words, exact := r.Together(nodes); {
		case exact:
			b.Exact++
		case len(b.Others) == maxBounds:
			b.Omitted++
		default:
			b.Others = append(b.Others, ClusterBound{r.Name, r.Limit.String(), words})
		}
	}
	return b
}

// ClusterMember is a node as this one knows it.
type ClusterMember struct {
	Name    string `json:"name"`
	State   string `json:"state"` // self, heard or silent
	Address string `json:"address"`
	Version string `json:"version,omitempty"`
	HTTP    string `json:"http,omitempty"`
	// Started is when its process did, by its own clock.
	Started       time.Time `json:"started"`
	SilentSeconds float64   `json:"silent_seconds,omitempty"`
	// GivenUpSeconds is when it is a member no more if it stays silent.
	GivenUpSeconds float64 `json:"given_up_after_seconds,omitempty"`
	// Keys is how many of the keys that the node tells of is asked about this
	// member owns.
	Keys int `json:"keys"`
}

// ClusterKeys are counts of keys now.
type ClusterKeys struct {
	Asked  int `json:"asked"`  // that this node is asked about
	Leases int `json:"leases"` // of these, with events that it may let pass by itself
	Owned  int `json:"owned"`  // whose counts it keeps
	Most   int `json:"most"`   // how many Asked and Owned may be
}

// ClusterTakes are counts since the start.
type ClusterTakes struct {
	Whole      int64 `json:"whole"`      // decided by owners
	Unanswered int64 `json:"unanswered"` // denied because the owner did not answer
	Waiting    int64 `json:"waiting"`    // now
}

// ClusterTraffic is what went one way since the start.
type ClusterTraffic struct {
	Packets  uint64            `json:"packets"`
	Bytes    uint64            `json:"bytes"`
	Messages uint64            `json:"messages"`
	Dropped  map[string]uint64 `json:"dropped,omitempty"` // by reason
}

// status is how the node stands.
func (n *node) status(g *gossip.Gossip) ClusterStatus {
	keys, takes, traffic := n.store.Count(), n.store.Stats(), g.Stats()
	s := ClusterStatus{
		Node: g.Name(), Settled: n.store.Calm(), Minority: n.store.Minority(),
		Keys:  ClusterKeys{keys.Asked, keys.Leases, keys.Owned, cluster.DefaultKeys},
		Takes: ClusterTakes{takes.Whole, takes.Unanswered, takes.Waiting},
		In:    trafficOf(&traffic.In), Out: trafficOf(&traffic.Out),
	}
	for _, m := range g.Members() {
		member := memberOf(&m, m.Name == g.Name())
		member.Keys = keys.By[m.Name]
		s.Members = append(s.Members, member)
	}
	for _, u := range apart(len(s.Members), g.Unjoined()) {
		s.Apart = append(s.Apart, ClusterApart(u))
	}
	for _, l := range n.store.Lost() {
		s.Lost = append(s.Lost, ClusterLost{l.Member, time.Now().Add(-l.Ago).UTC().Truncate(time.Second)})
	}
	slices.SortFunc(s.Members, func(a, b ClusterMember) int { return strings.Compare(a.Name, b.Name) })
	return s
}

func memberOf(m *gossip.Member, self bool) ClusterMember {
	c := ClusterMember{Name: m.Name, Address: m.Address, State: "heard", Started: time.UnixMicro(int64(m.Incarnation)).UTC()}
	a := aboutOf(m)
	c.Version, c.HTTP = a.Version, a.HTTP
	switch {
	case self:
		c.State = "self"
	case m.Silent:
		c.State, c.SilentSeconds = "silent", m.SilentFor.Seconds()
		if m.DeadFor > 0 {
			c.GivenUpSeconds = max(gossip.Confirm-m.DeadFor, 0).Seconds()
		}
	}
	return c
}

// aboutOf is what a member tells of itself; a later version may tell it otherwise.
func aboutOf(m *gossip.Member) (a about) {
	if json.Unmarshal(m.Meta, &a) != nil {
		return about{}
	}
	return a
}

func trafficOf(t *gossip.Traffic) ClusterTraffic {
	c := ClusterTraffic{Packets: t.Packets, Bytes: t.Bytes, Messages: t.Messages}
	for _, why := range gossip.Reasons() {
		if n := t.Dropped[why]; n > 0 {
			if c.Dropped == nil {
				c.Dropped = map[string]uint64{}
			}
			c.Dropped[why.String()] = n
		}
	}
	return c
}

// clusterRoutes are those of the admin door that are about the cluster.
func (d *Daemon) clusterRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/cluster", d.inCluster(func(w http.ResponseWriter, _ *http.Request, g *gossip.Gossip) {
		s := d.storage.node.status(g)
		s.Bounds = boundsOf(d.limiter.Set(), len(s.Members))
		sendJSON(w, s)
	}))
	mux.HandleFunc("POST /v1/cluster/forget", d.inCluster(d.forget))
}

// inCluster answers by f where there is a cluster.
func (d *Daemon) inCluster(f func(http.ResponseWriter, *http.Request, *gossip.Gossip)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if d.storage.node == nil {
			sendProblem(w, http.StatusConflict, "this daemon is in no cluster; start it with --store cluster:")
			return
		}
		g := d.storage.node.gossip.Load()
		if g == nil {
			sendProblem(w, http.StatusServiceUnavailable, "this daemon has not begun to take part in the cluster; ask again")
			return
		}
		f(w, r, g)
	}
}

// maxForget is how long the body of a forget may be.
const maxForget = 4 << 10

// forget is POST /v1/cluster/forget {"name": NAME}: a silent member is gone for good.
func (d *Daemon) forget(w http.ResponseWriter, r *http.Request, g *gossip.Gossip) {
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
	if err := g.Forget(q.Name); err != nil {
		sendProblem(w, http.StatusConflict, err.Error())
		return
	}
	d.config.Log.Warn("a node was given up by hand", "member", q.Name)
	sendJSON(w, d.storage.node.status(g))
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
