// Package gossip tells nodes of each other, and carries messages between them. It
// knows nothing of what is in the messages.
//
// The library memberlist finds out which processes are there. Messages go beside it, on a data
// plane of their own: many in a datagram, sealed for one receiver, and also while memberlist thinks
// a member dead. Both share one port, TCP and UDP.
//
// In the code, members.go is the table of members, a pure one; delegate.go and transport.go join it
// to memberlist. plane.go is the data plane, packet.go and seal.go its packets, window.go keeps
// replays out, stream.go has what fits into no datagram, hearing.go is who hears whom, stranger.go
// who has another key.
package gossip

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// MaxKeys is how many cluster keys there may be at once.
const MaxKeys = 16

// Options are what a node needs to take part. Bind is required.
type Options struct {
	// Name is the node's, the same after a restart, and no other's: host:port of
	// its listener. Empty, or without a host or port of its own: where others reach it.
	Name string
	// Bind is host:port to listen at, TCP and UDP. Port 0 is any.
	Bind string
	// Cluster is the name of the cluster: nodes of clusters with other names, or with none,
	// are not joined and refused. CheckCluster says what a name may be. Empty: it has none.
	Cluster string
	// Join is where other nodes may be: host:port. A name stands for all its
	// addresses. The node's own is ignored.
	Join []string
	// Remembered are the other members that the last process of the name knew. They are members
	// from the start, and looked for; silent ones are given up as any.
	Remembered []Member
	// Keys are secret bytes that all nodes have, 16, 24 or 32 each. The first seals
	// what goes out, each opens what comes in. Without any nothing is sealed, which
	// is refused where others than this machine reach it.
	Keys [][]byte
	// Incarnation is later for each process of the name: microseconds since 1970 at
	// its start. If the other nodes know a later one of the name, it is raised above it: Members
	// tells.
	Incarnation uint64
	// Meta is told to all, at most MaxMeta bytes.
	Meta []byte
	// TCP is for networks that drop UDP: messages go both ways by streams.
	TCP bool
	// Received is called with each message, in the order of arrival, by one
	// goroutine at a time. It must not block, nor keep message. nil: nobody listens.
	Received func(from string, message []byte)
	// Changed is called with the members when they change, by one goroutine at a
	// time, after Open has returned or before. It must not block. nil: nobody listens.
	Changed func([]Member)
	// Log is told who comes and goes. nil: nobody is.
	Log *slog.Logger
}

// Member is a node that has joined, has not left, and is not confirmed as gone.
type Member struct {
	Name        string
	ID          uint64 // of its process: drawn by it
	Address     string // host:port
	Incarnation uint64
	Meta        []byte // shared: not to be changed
	// Silent is whether it and this node do not hear each other, for SilentFor. It
	// may be that only one way is cut.
	Silent    bool
	SilentFor time.Duration
	// Fence is of this node itself, for how long an earlier process of its name may yet decide,
	// which was at another address and has not left; 0: none may.
	Fence time.Duration
	// DeadFor is for how long memberlist has not reached it; 0: it does. After
	// Confirm a member that is silent, too, is gone.
	DeadFor time.Duration
}

// Gossip is a node's part in a cluster. Its methods may be called from many
// goroutines, also from Received and Changed, but for Close and Leave.
type Gossip struct {
	me       identity
	tcp      bool
	joins    []string
	lookup   lookup
	received func(string, []byte)
	changed  func([]Member)
	log      *slog.Logger
	confirm  time.Duration

	port       *transport
	list       *memberlist.Memberlist
	keyring    *memberlist.Keyring
	broadcasts *memberlist.TransmitLimitedQueue
	in, out    traffic

	names   atomic.Pointer[map[string]*peer] // the other members
	numbers atomic.Pointer[map[uint64]*peer] // who is or was one
	round   atomic.Uint32                    // 1 to 255: how often this process has missed some time
	turned  atomic.Int64                     // when it looked at the time last
	limit   atomic.Int64                     // how long silence takes
	size    atomic.Int64                     // how many members there are

	receiving sync.Mutex // held to open packets and deliver them

	mu         sync.Mutex // held for what follows
	table      *table
	peers      map[uint64]*peer
	keys       [][]byte
	closed     bool
	leaving    bool
	yielded    bool                    // all were told that this process has lost its name
	announced  uint64                  // the incarnation that memberlist was told of
	complained map[[2]string]time.Time // what, and of which address
	unjoined   []Unjoined              // never changed

	telling sync.Mutex // held to call changed
	told    []Member

	due      chan *peer
	nudged   chan struct{}
	lookNow  chan struct{}
	searched chan struct{} // closed when others were looked for once
	done     chan struct{}
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

// Open begins to take part. Other nodes are looked for until there are some. It
// waits for the first answer for a quarter of a second at most, so as to begin with an incarnation
// that the other nodes take for the latest. It fails when the port is taken, and for options that
// can mean nothing.
func Open(ctx context.Context, o Options) (*Gossip, error) {
	return open(ctx, o, edge{lookup: net.DefaultResolver.LookupNetIP, confirm: Confirm})
}

// edge is what tests set otherwise.
type edge struct {
	lookup    lookup
	confirm   time.Duration
	advertise netip.AddrPort // zero: where it listens
}

func open(ctx context.Context, o Options, e edge) (*Gossip, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	port, err := listen(ctx, o.Bind, o.Cluster)
	if err != nil {
		return nil, fmt.Errorf("listen for other nodes: %w", err)
	}
	if e.advertise.IsValid() {
		port.advertise = e.advertise
	}
	if err := reachable(port.advertise.Addr(), &o); err != nil {
		return nil, errors.Join(err, port.Shutdown())
	}
	g, err := newGossip(&o, port, e)
	if err != nil {
		return nil, errors.Join(err, port.Shutdown())
	}
	g.run()
	if len(o.Join)+len(o.Remembered) > 0 {
		select {
		case <-g.searched:
		case <-time.After(firstAnswer):
		}
	}
	return g, nil
}

// firstAnswer is how long Open waits for other nodes.
const firstAnswer = 250 * time.Millisecond

// check refuses what can mean nothing.
func (o *Options) check() error {
	errs := []error{checkKeys(o.Keys), CheckCluster(o.Cluster)}
	if len(o.Meta) > MaxMeta {
		errs = append(errs, fmt.Errorf("meta has %d bytes; there may be %d", len(o.Meta), MaxMeta))
	}
	if len(o.Name) > MaxName {
		errs = append(errs, fmt.Errorf("the name has %d bytes; there may be %d", len(o.Name), MaxName))
	}
	if len(o.Join) > MaxJoin {
		errs = append(errs, fmt.Errorf("there are %d nodes to join; name %d at most, the node learns of the rest", len(o.Join), MaxJoin))
	}
	for _, j := range o.Join {
		if _, _, err := splitAddress(j); err != nil {
			errs = append(errs, fmt.Errorf("node to join: %w", err))
		}
	}
	return errors.Join(errs...)
}

// ErrOpen is wrapped by the refusal to go beyond this machine without a key.
var ErrOpen = errors.New("a shared key is needed beyond this machine")

// reachable refuses what can't work at the address that other nodes are told.
func reachable(at netip.Addr, o *Options) error {
	if !at.IsLoopback() && len(o.Keys) == 0 {
		return fmt.Errorf("%w: any program that reaches %s could join; give all nodes the same key, or listen at 127.0.0.1", ErrOpen, at)
	}
	for _, j := range o.Join {
		host, _, _ := splitAddress(j)
		if ip, err := netip.ParseAddr(host); err == nil && at.IsLoopback() && !ip.IsLoopback() {
			return fmt.Errorf("no node at %s can reach this one at %s; listen at an address of this machine that it reaches", j, at)
		}
	}
	return nil
}

func newGossip(o *Options, port *transport, e edge) (*Gossip, error) {
	var number [8]byte
	_, _ = rand.Read(number[:]) // never fails
	g := &Gossip{
		me:  identity{id: binary.BigEndian.Uint64(number[:]), name: nameOf(o.Name, port.advertise)},
		tcp: o.TCP, joins: o.Join, received: o.Received, changed: o.Changed, log: o.Log,
		port: port, peers: map[uint64]*peer{}, keys: o.Keys, complained: map[[2]string]time.Time{}, announced: o.Incarnation,
		due: make(chan *peer, 2*(MaxMembers+maxGone)), nudged: make(chan struct{}, 1), lookNow: make(chan struct{}, 1),
		searched: make(chan struct{}), done: make(chan struct{}), lookup: e.lookup, confirm: e.confirm,
	}
	if g.received == nil {
		g.received = func(string, []byte) {}
	}
	if g.changed == nil {
		g.changed = func([]Member) {}
	}
	g.log = cmp.Or(g.log, slog.New(slog.DiscardHandler))
	g.table = newTable(process{identity: g.me, address: port.advertise, incarnation: o.Incarnation, tcp: o.TCP, meta: o.Meta})
	if err := g.table.remember(sinceBoot(), o.Remembered); err != nil {
		return nil, err
	}
	g.round.Store(1)
	g.publish()
	return g, g.membership()
}

// nameOf is the name that was given, or the address where that says nothing.
func nameOf(name string, at netip.AddrPort) string {
	host, port, err := net.SplitHostPort(name)
	if ip, bad := netip.ParseAddr(host); err != nil || host == "" || port == "0" || bad == nil && ip.IsUnspecified() {
		return at.String()
	}
	return name
}

// membership prepares memberlist.
func (g *Gossip) membership() error {
	g.broadcasts = &memberlist.TransmitLimitedQueue{NumNodes: func() int { return int(g.size.Load()) }, RetransmitMult: 4}
	c := memberlist.DefaultLANConfig()
	c.Name = g.me.memberlistName()
	c.Label = g.port.label
	c.Transport = g.port
	c.Delegate, c.Events, c.Alive = delegate{g}, delegate{g}, delegate{g}
	c.LogOutput = &grumbles{log: g.log, stranger: func() { g.in.drop(UnknownKey) }}
	c.EnableCompression = false // what is told is short
	c.TCPTimeout = 5 * time.Second
	c.GossipInterval = 100 * time.Millisecond
	if g.tcp {
		c.PushPullInterval = 2 * time.Second // nothing is told by datagrams
	}
	if len(g.keys) > 0 {
		var err error
		if g.keyring, err = memberlist.NewKeyring(g.keys, g.keys[0]); err != nil {
			return fmt.Errorf("%w: %w", ErrKeys, err)
		}
		c.Keyring = g.keyring
	}
	var err error
	if g.list, err = memberlist.Create(c); err != nil {
		return fmt.Errorf("begin with membership: %w", err)
	}
	return nil
}

// run starts all that goes on by itself.
func (g *Gossip) run() {
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	for _, f := range []func(){g.read, g.accept, g.flusher, g.watch, func() { g.find(ctx) }} {
		g.running.Go(f)
	}
	g.tell()
}

// start runs f beside; false when all is closing.
func (g *Gossip) start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.running.Go(f)
	}
	return !g.closed
}

// sleep tells whether all is closing by then.
func (g *Gossip) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return false
	case <-g.done:
		return true
	}
}

// Name is the node's.
func (g *Gossip) Name() string { return g.me.name }

// Stats are counts since the start.
func (g *Gossip) Stats() Stats {
	return Stats{In: g.in.read(), Out: g.out.read(), Streams: g.port.accepted.len()}
}

// Leave tells the others that this node goes, and takes it out of membership. It
// waits until some were told, at most until the context is done, and not for others
// that leave, too. The node's messages are not taken from then on. Close it afterwards.
func (g *Gossip) Leave(ctx context.Context) error {
	g.mu.Lock()
	first := !g.leaving && !g.closed
	g.leaving = true
	g.mu.Unlock()
	if !first {
		return nil
	}
	told := g.sayFarewell(false)
	// Leave would wait for members that leave, too. The farewell carries its news.
	_ = g.list.Leave(time.Nanosecond)
	every := time.NewTicker(watchEvery)
	defer every.Stop()
	for g.reaches() {
		select {
		case <-told:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("leave the cluster: %w; the other nodes see this node as silent until %v have passed", ctx.Err(), Confirm)
		case <-every.C:
		}
	}
	return nil
}

// reaches is whether there are other members that memberlist reaches.
func (g *Gossip) reaches() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.table.entries {
		if e.alive && e.standing == agreed {
			return true
		}
	}
	return false
}

// Close ends all, and waits until nothing runs. To the others the node is silent
// then, if it has not left before.
func (g *Gossip) Close() error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	close(g.done)
	err := g.list.Shutdown()
	g.running.Wait()
	return err
}
