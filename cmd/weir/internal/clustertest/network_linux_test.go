package clustertest

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// network carries packets between namespaces, and fails as it is told.
type network struct {
	nodes []*namespace

	mu      sync.Mutex
	weather weather
	cut     map[way]bool
	random  *rand.Rand

	carried  atomic.Int64
	underWay atomic.Int64
	readers  sync.WaitGroup
}

// way is from one node to another. Each direction is one of its own.
type way struct{ from, to int }

// weather is what happens to each packet.
type weather struct {
	delay   time.Duration // one way
	loss    float64       // of one
	doubles float64
	jitter  time.Duration // at most, on top of delay, so that packets overtake others
}

// maxUnderWay is how many packets are delayed at a time; more are lost.
const maxUnderWay = 1 << 14

func newNetwork(t *testing.T, size int) *network {
	t.Helper()
	n := &network{cut: map[way]bool{}, random: rand.New(rand.NewPCG(1, 2))}
	for i := range size {
		n.nodes = append(n.nodes, newNamespace(t, addressOf(i)))
	}
	for i := range n.nodes {
		n.readers.Go(func() { n.carry(t, i) })
	}
	t.Cleanup(n.close)
	return n
}

// close ends before the namespaces are closed.
func (n *network) close() {
	for _, node := range n.nodes {
		_ = node.device.Close() // ends its reader
	}
	n.readers.Wait()
}

// addressOf is the address of a node.
func addressOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}) }

// carry takes what a node sends where it is for.
func (n *network) carry(t *testing.T, from int) {
	packet := make([]byte, 1<<16)
	for {
		size, err := n.nodes[from].device.Read(packet)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			t.Errorf("read from node %d: %v", from, err)
			return
		}
		const header = 20
		if size < header || packet[0]>>4 != 4 {
			continue // the kernel looks for IPv6 routers
		}
		to := netip.AddrFrom4([4]byte(packet[16:20]))
		for i := range n.nodes {
			if addressOf(i) == to {
				n.send(way{from, i}, packet[:size])
			}
		}
	}
}

// send takes a packet along a way, through the weather.
func (n *network) send(w way, packet []byte) {
	n.mu.Lock()
	copies, delay := 1, n.weather.delay
	switch {
	case n.cut[w] || n.random.Float64() < n.weather.loss:
		copies = 0
	case n.random.Float64() < n.weather.doubles:
		copies = 2
	}
	if n.weather.jitter > 0 {
		delay += time.Duration(n.random.Int64N(int64(n.weather.jitter)))
	}
	n.mu.Unlock()
	n.carried.Add(1)
	to := n.nodes[w.to].device
	for range copies {
		if delay == 0 {
			_, _ = to.Write(packet) // what the kernel has no room for is lost
			continue
		}
		if n.underWay.Add(1) > maxUnderWay {
			n.underWay.Add(-1)
			continue
		}
		later := append([]byte(nil), packet...)
		time.AfterFunc(delay, func() {
			_, _ = to.Write(later)
			n.underWay.Add(-1)
		})
	}
}

func (n *network) set(w weather) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.weather = w
}

// block cuts ways off, each direction for itself.
func (n *network) block(cut func(way) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for from := range n.nodes {
		for to := range n.nodes {
			n.cut[way{from, to}] = cut(way{from, to})
		}
	}
}

// heal ends all cuts.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
}
