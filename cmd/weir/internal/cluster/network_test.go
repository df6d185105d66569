package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
)

// network carries messages between the nodes of a test, each in the order of arrival.
type network struct {
	clock *settable
	nodes []*Store
	names []string
	lines map[string]chan letter
	away  atomic.Value // the name of who neither hears nor is heard; all: nobody is
	took  atomic.Int64 // by a message, a time.Duration
	stop  chan struct{}
	done  sync.WaitGroup
}

// all are away.
const all = "all"

type letter struct {
	from    string
	message []byte
	due     time.Time
}

// settable is a clock that a test sets; 0: it is the wall's.
type settable struct{ at atomic.Int64 }

func (c *settable) now() weir.Instant {
	if at := c.at.Load(); at != wall {
		return weir.Instant(at)
	}
	return weir.InstantOf(time.Now())
}

const wall = 1 << 62

// newNetwork makes a cluster that was founded an hour ago. ahead is how far the clocks of its
// nodes are ahead.
func newNetwork(t testing.TB, size int, ahead ...time.Duration) *network {
	t.Helper()
	n := &network{clock: new(settable), lines: map[string]chan letter{}, stop: make(chan struct{})}
	n.clock.at.Store(int64(-time.Hour / time.Microsecond))
	for i := range size {
		name := fmt.Sprintf("n%d:1", i)
		n.names, n.lines[name] = append(n.names, name), make(chan letter, 1<<12)
	}
	for i, name := range n.names {
		now := n.clock.now
		if i < len(ahead) {
			now = func() weir.Instant { return n.clock.now() + weir.Instant(ahead[i]/time.Microsecond) }
		}
		s := New(Options{Keys: 1 << 14, now: now, patience: time.Minute})
		send := func(to string, message []byte) bool { return n.carry(name, to, message) }
		if err := s.Join(Self{Name: name, Incarnation: uint64(i + 1), Send: send}); err != nil {
			t.Fatal(err)
		}
		n.nodes = append(n.nodes, s)
		n.done.Go(func() {
			for {
				select {
				case <-n.stop:
					return
				case l := <-n.lines[name]:
					time.Sleep(time.Until(l.due))
					s.Receive(l.from, l.message)
				}
			}
		})
	}
	n.view()
	n.clock.at.Store(wall)
	t.Cleanup(n.close)
	return n
}

// view tells all nodes of all, and that all reach each other.
func (n *network) view() {
	for _, s := range n.nodes {
		s.show(member.Together(s.self.Name, n.members()))
	}
}

// found founds the cluster anew, of nodes that tell each other of themselves.
func (n *network) found() {
	members := n.members()
	for _, s := range n.nodes {
		s.others.found()
		s.View(members)
	}
}

// members are all nodes.
func (n *network) members() (members []member.Member) {
	for i, name := range n.names {
		members = append(members, member.Member{Name: name, Incarnation: uint64(i + 1)})
	}
	return members
}

// ownedBy is a key of rule "api" that the i-th node owns.
func (n *network) ownedBy(t *testing.T, i int) string {
	t.Helper()
	for k := range 1000 {
		if key := fmt.Sprint("k", k); n.nodes[1].Owner(weir.StateKey{Rule: "api", Key: key}, &weir.Policy{}) == n.names[i] {
			return key
		}
	}
	t.Fatalf("%s owns nothing", n.names[i])
	return ""
}

func (n *network) carry(from, to string, message []byte) bool {
	line, ok := n.lines[to]
	if !ok {
		return false
	}
	if away := n.away.Load(); away == all || away == from || away == to {
		return true
	}
	select {
	case line <- letter{from, append([]byte(nil), message...), time.Now().Add(time.Duration(n.took.Load()))}:
		return true
	default:
		return false
	}
}

func (n *network) close() {
	for _, s := range n.nodes {
		_ = s.Close() // it has no reason to fail
	}
	close(n.stop)
	n.done.Wait()
}

// at is a node that can be asked about any time.
type at struct {
	*Store

	clock *settable
}

func (s at) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	s.clock.at.Store(wall)
	return s.Store.Take(ctx, asks, out)
}

func (s at) TakeAt(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	s.clock.at.Store(int64(now))
	return s.Store.Take(context.Background(), asks, out)
}

func (s at) SettleAt(now weir.Instant, settlements []weir.Settlement) error {
	s.clock.at.Store(int64(now))
	return s.Settle(context.Background(), settlements)
}

func (s at) ResetAt(now weir.Instant, keys []weir.StateKey) error {
	s.clock.at.Store(int64(now))
	return s.Reset(context.Background(), keys)
}
