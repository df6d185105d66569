package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/cluster"
	"github.com/weir-limit/weir/cmd/weir/internal/gossip"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/rules"
)

// Node is one node's part in a cluster.
type Node struct {
	// Store has the counts that the nodes share. It decides alone until Join.
	Store *cluster.Store

	log *slog.Logger
	// gossip is nil before the listener for other nodes is open.
	gossip  atomic.Pointer[gossip.Gossip]
	members atomic.Int64         // how many there were when this node was one of them
	flow    atomic.Pointer[flow] // nil before it was measured
	led     atomic.Pointer[[]*rules.Rule]

	mu          sync.Mutex // held while members are told
	incarnation uint64     // by which the store takes part
	memory      memory
	leaving     bool
	fenced      bool // an earlier process of its name may yet decide
}

// New makes a node that is part of no cluster yet.
func New() *Node { return &Node{Store: cluster.New(cluster.Options{})} }

// Options are where a node listens, and which others it joins.
type Options struct {
	// Address is where other nodes reach this one, TCP and UDP. It is its name, too.
	Address string
	// Join is the addresses of other nodes. Its own is ignored.
	Join []string
	// List is the file that keeps the list of the members; NoList is why there is none.
	List   string
	NoList error
	// Bootstrap is whether the node is the first of a new cluster, and forgets the members that it knew.
	Bootstrap bool
	// Cluster is the name of the cluster; nodes of others are refused. Empty: it has none.
	Cluster string
	// TCP makes the nodes speak by TCP alone.
	TCP bool
	// Keys are those that all nodes share. Nil: none.
	Keys [][]byte
	// Version and HTTP are what the other nodes are told of this node: HTTP is where its HTTP
	// listener is open.
	Version string
	HTTP    net.Addr
	Log     *slog.Logger
}

// about is what a node tells the others of itself.
type about struct {
	Version string `json:"version,omitempty"`
	HTTP    string `json:"http,omitempty"` // HOST:PORT of its HTTP listener
}

// Size is how many members there are. A node that is none any more keeps to its part.
func (n *Node) Size() int { return int(max(n.members.Load(), 1)) }

// Join opens the listener for other nodes, and takes part. It does not wait for them. It
// fails with gossip.ErrOpen where the address can't be listened at.
func (n *Node) Join(ctx context.Context, o Options) error {
	began := uint64(time.Now().UnixMicro())
	meta, err := json.Marshal(aboutThis(&o))
	if err != nil {
		return err
	}
	remembered, counted, err := n.recall(&o)
	if err != nil {
		return err
	}
	g, err := gossip.Open(ctx, gossip.Options{
		Remembered: remembered, Name: o.Address, Bind: o.Address, Cluster: o.Cluster, Join: o.Join, TCP: o.TCP, Keys: o.Keys, Meta: meta,
		Incarnation: began, Log: o.Log, Received: n.Store.Receive, Changed: n.changed,
	})
	if err != nil {
		return err
	}
	n.incarnation = incarnation(g, began)
	self := cluster.Self{Name: g.Name(), Incarnation: n.incarnation, Send: g.Send, Resumes: namesOf(remembered), Counted: counted}
	if err := n.Store.Join(self); err != nil {
		return errors.Join(err, g.Close())
	}
	n.gossip.Store(g)
	n.changed(g.Members())
	n.sayJoined(g, o.Join)
	n.Store.Begin(ctx, n.names)
	return nil
}

// recall is the members that the last process of this name knew, and whether they counted its vote.
func (n *Node) recall(o *Options) (members []gossip.Member, counted bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = o.Log
	if members, err = n.memory.begin(o); err != nil {
		return nil, false, err
	}
	switch {
	case n.memory.failed != nil:
		n.sayForgetful()
	case len(members) > 0:
		n.log.Info("this node begins as one of the members that it remembers", "others", len(members), "file", o.List)
	}
	return members, n.memory.now.Counted, nil
}

func namesOf(members []gossip.Member) (names []string) {
	for _, m := range members {
		names = append(names, m.Name)
	}
	return names
}

func (n *Node) sayJoined(g *gossip.Gossip, join []string) {
	members := g.Members()
	if len(members) == 1 && len(g.Unjoined()) > 0 {
		n.log.Warn("no other node has been joined; this one decides by itself until it meets some", "node", g.Name(), "join", strings.Join(join, ","))
		return
	}
	n.log.Info("part of the cluster", "node", g.Name(), "join", strings.Join(join, ","), "members", len(members))
}

// incarnation is this process's: the other nodes may know a later one of its name.
func incarnation(g *gossip.Gossip, least uint64) uint64 {
	for _, m := range g.Members() {
		if m.Name == g.Name() {
			return max(m.Incarnation, least)
		}
	}
	return least
}

// aboutThis is what other nodes are told. A listener on all addresses is told by the one that they
// reach.
func aboutThis(o *Options) about {
	a := about{Version: o.Version[:min(len(o.Version), 100)]}
	if tcp, ok := o.HTTP.(*net.TCPAddr); ok {
		a.HTTP = tcp.String()
		if host, _, err := net.SplitHostPort(o.Address); err == nil && tcp.IP.IsUnspecified() {
			a.HTTP = net.JoinHostPort(host, fmt.Sprint(tcp.Port))
		}
	}
	return a
}

// aboutOf is what a member tells of itself; a later version may tell it otherwise.
func aboutOf(m *gossip.Member) (a about) {
	if json.Unmarshal(m.Meta, &a) != nil {
		return about{}
	}
	return a
}

// changed is called when members have changed. It asks for the members of now, for two calls may
// come at once.
func (n *Node) changed([]gossip.Member) {
	g := n.gossip.Load()
	if g == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	members := g.Members()
	all := make([]member.Member, len(members))
	for i, m := range members {
		if m.Name == g.Name() {
			n.fence(m.Fence)
		}
		all[i] = member.Member{Name: m.Name, Incarnation: m.Incarnation}
	}
	if now := incarnation(g, n.incarnation); now > n.incarnation {
		n.incarnation = now
		if err := n.Store.Rejoin(now); err != nil {
			n.log.Error("this node could not begin anew", "error", err)
		}
	}
	if len(all) > 0 {
		n.members.Store(int64(len(all)))
		n.memory.know(members, g.Name()) // before its vote is one of so many
	}
	n.Store.View(all)
}

// fence has the node wait until an earlier process of its name can't decide any more.
func (n *Node) fence(d time.Duration) {
	if (d > 0) != n.fenced {
		if n.fenced = d > 0; n.fenced {
			n.log.Warn("an earlier process with this node's name may live elsewhere; this one has no part of its own until that is given up, or has heard of this one", "at_most", d.Round(time.Second))
		}
	}
	n.Store.Fence(d)
}

// names are the members, this node among them.
func (n *Node) names() (names []string) {
	return namesOf(n.gossip.Load().Members())
}

// A node that hears too few other nodes has stopped what is closed before these take it for gone.
const _ = uint(gossip.Confirm - member.Quorum - time.Second)

// Leave takes leave of the others in order.
func (n *Node) Leave(ctx context.Context) error {
	g := n.gossip.Load()
	if g == nil {
		return nil
	}
	if !n.parts(g) {
		return nil
	}
	err := n.Store.Leave(ctx)
	parts, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	return errors.Join(err, g.Leave(parts))
}

// parts is whether anybody hears that the node leaves: then its vote counts no more when it starts
// again. Where nobody does, it is to the others as if it was killed.
func (n *Node) parts(g *gossip.Gossip) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	members := g.Members()
	deaf := len(members) > 1 && !slices.ContainsFunc(members, func(m gossip.Member) bool { return m.Name != g.Name() && !m.Silent })
	n.leaving = true
	if !deaf {
		n.memory.now.Counted = false
		n.memory.save()
	}
	return !deaf
}

// parting is how long a node that leaves has to be sure that the other nodes know that it goes, also
// when to hand over took all of its time.
const parting = 500 * time.Millisecond

// Close ends the part in the cluster.
func (n *Node) Close() error {
	err := n.Store.Close()
	if g := n.gossip.Load(); g != nil {
		err = errors.Join(err, g.Close())
	}
	return err
}

// Rotate goes on with other keys.
func (n *Node) Rotate(keys [][]byte) error {
	if g := n.gossip.Load(); g != nil {
		n.mu.Lock()
		n.memory.key = keyDigests(keys)[0]
		n.memory.save()
		n.mu.Unlock()
		return g.Rotate(keys)
	}
	return nil
}

// Gossip is what carries the messages of the node; nil before it has joined.
func (n *Node) Gossip() *gossip.Gossip { return n.gossip.Load() }

// Name is what the others call the node; empty before it has joined.
func (n *Node) Name() string {
	if g := n.gossip.Load(); g != nil {
		return g.Name()
	}
	return ""
}

// Owner finds the member that owns a key of a rule with that policy now, as far as this node knows: its name and
// HTTP listener, and whether it is this one. The name is empty where it hears too few of
// the others to know.
func (n *Node) Owner(key weir.StateKey, p *weir.Policy) (name, http string, here bool) {
	g := n.gossip.Load()
	if g == nil {
		return "", "", false
	}
	owner := n.Store.Owner(key, p)
	for _, m := range g.Members() {
		if m.Name == owner {
			return owner, aboutOf(&m).HTTP, owner == g.Name()
		}
	}
	return "", "", false
}
