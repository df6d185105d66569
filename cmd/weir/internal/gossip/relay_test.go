package gossip

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
)

// relay stands where others reach a node, and may lose, double, spoil or keep what
// goes to it.
type relay struct {
	udp *net.UDPConn
	tcp *net.TCPListener
	to  netip.AddrPort

	mu      sync.Mutex
	random  *rand.Rand
	lose    int  // percent of datagrams
	double  int  // percent
	spoil   int  // percent: a bit is turned
	cut     bool // nothing passes
	kept    [][]byte
	conns   []net.Conn
	running sync.WaitGroup
}

// newRelay opens a relay. The node behind it is named later.
func newRelay(t *testing.T) *relay {
	t.Helper()
	port, err := listen(t.Context(), "127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{udp: port.udp, tcp: port.tcp, random: rand.New(rand.NewPCG(1, 2))}
	t.Cleanup(func() {
		if err := port.Shutdown(); err != nil {
			t.Error(err)
		}
		r.set(func() {
			for _, c := range r.conns {
				_ = c.Close() // it may be closed already
			}
		})
		r.running.Wait()
	})
	return r
}

// address is where others reach it.
func (r *relay) address() netip.AddrPort { return r.udp.LocalAddr().(*net.UDPAddr).AddrPort() }

// before has the relay pass on to a node.
func (r *relay) before(n *node) {
	r.to = n.port.udp.LocalAddr().(*net.UDPAddr).AddrPort()
	r.running.Go(r.datagrams)
	r.running.Go(r.accept)
}

func (r *relay) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *relay) datagrams() {
	b := make([]byte, 65536)
	for {
		n, _, err := r.udp.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		for range r.fate(b[:n]) {
			_, _ = r.udp.WriteToUDPAddrPort(b[:n], r.to) // lost, then
		}
	}
}

// fate is how often a datagram arrives.
func (r *relay) fate(b []byte) (times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	chance := func(percent int) bool { return r.random.IntN(100) < percent }
	if r.cut || chance(r.lose) {
		return 0
	}
	if len(r.kept) < 1000 {
		r.kept = append(r.kept, append([]byte(nil), b...))
	}
	if chance(r.spoil) {
		b[r.random.IntN(len(b))] ^= 1 << r.random.IntN(8)
	}
	if chance(r.double) {
		return 2
	}
	return 1
}

func (r *relay) accept() {
	for {
		in, err := r.tcp.Accept()
		if err != nil {
			return
		}
		out, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(r.to))
		r.mu.Lock()
		r.conns = append(r.conns, in)
		if err == nil {
			r.conns = append(r.conns, out)
		}
		cut := r.cut || err != nil
		r.mu.Unlock()
		if cut {
			_ = in.Close()
			if out != nil {
				_ = out.Close()
			}
			continue
		}
		r.running.Go(func() { pass(out, in) })
		r.running.Go(func() { pass(in, out) })
	}
}

func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // either end may close it
	_ = to.Close()
	_ = from.Close()
}
