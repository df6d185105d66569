package membership

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/cluster"
	"github.com/weir-limit/weir/cmd/weir/internal/gossip"
	"github.com/weir-limit/weir/rules"
)

// Status is what GET /v1/cluster of the admin listener tells.
type Status struct {
	Node string `json:"node"`
	// Settled is whether the node decides, and all counts are with their owners.
	Settled bool `json:"settled"`
	// Minority is whether it has not heard most of the members for so long that it gives nothing by
	// rules that are closed.
	Minority bool     `json:"minority,omitempty"`
	Members  []Member `json:"members"`
	// Apart are nodes that decide apart from this one, because they have another key or are in
	// another cluster; and those that could not be joined, while none is.
	Apart []Apart `json:"apart,omitempty"`
	// Lost are the nodes that went without a word, as far as that is remembered: keys that they
	// may have owned began with all used then.
	Lost   []Lost  `json:"lost,omitempty"`
	Keys   Keys    `json:"keys"`
	Takes  Takes   `json:"takes"`
	In     Traffic `json:"in"`
	Out    Traffic `json:"out"`
	Bounds Bounds  `json:"bounds"`
	// Parts is how much of their limits keys have now.
	Parts []Part `json:"parts"`
}

// Apart is an address at which no node could be joined when it was tried last.
type Apart struct {
	Address  string `json:"address"`
	OtherKey bool   `json:"other_key,omitempty"` // a node is there, and has another cluster key
	// OtherCluster is whether a node is there whose cluster has another name.
	OtherCluster bool   `json:"other_cluster,omitempty"`
	Why          string `json:"why"`
}

// String says so in a line.
func (a *Apart) String() string {
	switch {
	case a.OtherKey:
		return a.Address + " has another cluster key than this node, or one of them has none"
	case a.OtherCluster:
		return a.Address + " is no node of this cluster: " + a.Why
	}
	return a.Address + " could not be joined: " + a.Why
}

// Lost is a process that is gone, and did not hand over what it owned.
type Lost struct {
	Node string    `json:"node"`
	At   time.Time `json:"at"` // about, by this node's clock
	// BackedUp is whether other nodes had backups of what it granted of slow limits, and nobody else was cut off.
	BackedUp bool `json:"backed_up"`
}

// Bounds is what may pass beyond the limits of the active rules, on as many nodes
// as there are members.
type Bounds struct {
	// Exact is how many rules let all nodes together pass what their limit lets one pass.
	Exact int `json:"exact"`
	// Others are those that may let pass more, maxBounds at most; Omitted is how many more
	// there are.
	Others  []Bound `json:"others,omitempty"`
	Omitted int     `json:"omitted,omitempty"`
}

// Bound is how much more a rule may let pass.
type Bound struct {
	Rule  string `json:"rule"`
	Limit string `json:"limit"`
	Bound string `json:"bound"` // in words
}

// maxBounds is how many rules Bounds names.
const maxBounds = 100

// BoundsOf works out what the rules of a set may let pass on so many nodes.
func BoundsOf(set *rules.Set, nodes int) (b Bounds) {
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
			b.Others = append(b.Others, Bound{r.Name, r.Limit.String(), words})
		}
	}
	return b
}

// Member is a node as this one knows it.
type Member struct {
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

// Keys are counts of keys now.
type Keys struct {
	Asked  int `json:"asked"`  // that this node is asked about
	Leases int `json:"leases"` // of these, with events that it may let pass by itself
	Owned  int `json:"owned"`  // whose counts it keeps
	Backup int `json:"backup"` // of other owners, of which it keeps a backup
	Most   int `json:"most"`   // how many Asked, Owned and Backup may be
}

// Takes are counts since the start.
type Takes struct {
	Whole      int64 `json:"whole"`      // decided by owners
	Unanswered int64 `json:"unanswered"` // denied because the owner did not answer
	Waiting    int64 `json:"waiting"`    // now
}

// Traffic is what went one way since the start.
type Traffic struct {
	Packets  uint64            `json:"packets"`
	Bytes    uint64            `json:"bytes"`
	Messages uint64            `json:"messages"`
	Dropped  map[string]uint64 `json:"dropped,omitempty"` // by reason
}

// Status tells how the node stands; false before it has joined.
func (n *Node) Status() (Status, bool) {
	g := n.gossip.Load()
	if g == nil {
		return Status{}, false
	}
	return n.status(g), true
}

func (n *Node) status(g *gossip.Gossip) Status {
	keys, takes, traffic := n.Store.Count(), n.Store.Stats(), g.Stats()
	s := Status{
		Node: g.Name(), Settled: n.Store.Converged(), Minority: n.Store.Minority(),
		Keys:  Keys{keys.Asked, keys.Leases, keys.Owned, keys.Backup, cluster.DefaultKeys},
		Takes: Takes{takes.Whole, takes.Unanswered, takes.Waiting},
		In:    trafficOf(&traffic.In), Out: trafficOf(&traffic.Out),
	}
	for _, m := range g.Members() {
		member := memberOf(&m, m.Name == g.Name())
		member.Keys = keys.By[m.Name]
		s.Members = append(s.Members, member)
	}
	for _, u := range apart(len(s.Members), g.Unjoined()) {
		s.Apart = append(s.Apart, Apart(u))
	}
	for _, l := range n.Store.Lost() {
		s.Lost = append(s.Lost, Lost{l.Member, time.Now().Add(-l.Ago).UTC().Truncate(time.Second), l.Alone && l.Saved})
	}
	slices.SortFunc(s.Members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return s
}

func memberOf(m *gossip.Member, self bool) Member {
	c := Member{Name: m.Name, Address: m.Address, State: "heard", Started: time.UnixMicro(int64(m.Incarnation)).UTC()}
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

func trafficOf(t *gossip.Traffic) Traffic {
	c := Traffic{Packets: t.Packets, Bytes: t.Bytes, Messages: t.Messages}
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
