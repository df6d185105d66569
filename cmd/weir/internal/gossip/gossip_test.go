package gossip

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain finds goroutines that are left over. A probe of memberlist goes on for
// some seconds after its shutdown, and ends by itself.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

// node is a Gossip, and what it was told.
type node struct {
	*Gossip
	mu      sync.Mutex
	members []Member
	heard   []string      // "from: message"
	news    chan struct{} // something came
	log     *bytes.Buffer // under mu
}

// Write takes the log.
func (n *node) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.Write(b)
}

// begin starts a node on a free port of loopback, which takes nobody for gone by
// itself while the test runs.
func begin(t *testing.T, o Options) *node {
	t.Helper()
	return beginAt(t, o, edge{lookup: net.DefaultResolver.LookupNetIP, confirm: time.Hour})
}

func beginAt(t *testing.T, o Options, e edge) *node {
	t.Helper()
	n := &node{news: make(chan struct{}, 1), log: &bytes.Buffer{}}
	if o.Bind == "" {
		o.Bind = "127.0.0.1:0"
	}
	if o.Incarnation == 0 {
		o.Incarnation = uint64(time.Now().UnixMicro())
	}
	o.Received = func(from string, message []byte) {
		n.note(func() { n.heard = append(n.heard, from+": "+string(message)) })
	}
	o.Changed = func(m []Member) { n.note(func() { n.members = m }) }
	o.Log = slog.New(slog.NewTextHandler(n, nil))
	g, err := open(t.Context(), o, e)
	if err != nil {
		t.Fatal(err)
	}
	n.Gossip = g
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", g.Name(), n.log)
		}
	})
	return n
}

func (n *node) note(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	select {
	case n.news <- struct{}{}:
	default:
	}
}

// patience is how long a test waits for what must come. It fails no test that
// is merely slow.
const patience = 3 * time.Minute

// until waits until something holds of what n was told.
func (n *node) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		n.mu.Lock()
		ok := holds()
		n.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-n.news:
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s: %s: not so after %v; members %v", n.Name(), what, patience, n.members)
		}
	}
}

// sees waits until n has exactly these members, and hears them all.
func (n *node) sees(t *testing.T, all ...*node) {
	t.Helper()
	var want []string
	for _, m := range all {
		want = append(want, m.Name())
	}
	slices.Sort(want)
	n.until(t, fmt.Sprintf("sees %v", want), func() bool {
		var names []string
		for _, m := range n.members {
			if !m.Silent {
				names = append(names, m.Name)
			}
		}
		return slices.Equal(names, want) && len(n.members) == len(want)
	})
}

// gets waits until n has heard a message, which is sent again until then.
func (n *node) gets(t *testing.T, from *node, message string) {
	t.Helper()
	want := from.Name() + ": " + message
	n.until(t, "hears "+want, func() bool {
		if slices.Contains(n.heard, want) {
			return true
		}
		from.Send(n.Name(), []byte(message))
		return false
	})
}

// cluster is nodes that join the first of them.
func cluster(t *testing.T, size int, o Options) []*node {
	t.Helper()
	var nodes []*node
	for range size {
		if len(nodes) > 0 {
			o.Join = []string{nodes[0].Name()}
		}
		nodes = append(nodes, begin(t, o))
	}
	for _, n := range nodes {
		n.sees(t, nodes...)
	}
	return nodes
}

var testKey = bytes.Repeat([]byte{7}, 32)

func TestNodesJoinAndTalk(t *testing.T) {
	for name, o := range map[string]Options{"sealed": {Keys: [][]byte{testKey}}, "unsealed": {}, "TCP": {TCP: true, Keys: [][]byte{testKey}}} {
		t.Run(name, func(t *testing.T) {
			nodes := cluster(t, 3, o)
			for _, from := range nodes {
				for _, to := range nodes {
					if from != to {
						to.gets(t, from, "hello")
						to.gets(t, from, string(bytes.Repeat([]byte("long "), 2000)))
					}
				}
			}
		})
	}
}
