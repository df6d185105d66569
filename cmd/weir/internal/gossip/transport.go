package gossip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// The bounds of the one port.
const (
	// maxStreams is how many connections other nodes have open to this one, and this one to them.
	// One more is closed.
	maxStreams = 2 * ways * MaxMembers
	// maxState is how many bytes a connection brings to memberlist: all members
	// twice over. Then it is closed. memberlist keeps them until it knows who sent
	// them, so it has few connections at a time: one more is closed.
	maxState  = 2 << 20
	maxStates = 64

	maxHandoff    = 256             // packets that wait for memberlist; more are dropped
	firstBytes    = 2 * time.Second // a connection says what it is for
	socketBuffer  = 4 << 20         // bytes, or what the system allows
	portAttempts  = 16
	packetMaximum = 64 << 10
)

// transport is the listener that memberlist and the data plane share: one port, TCP
// and UDP. A packet or stream that begins with memberlist's mark goes to memberlist.
type transport struct {
	label     string // of memberlist's packets and streams
	udp       *net.UDPConn
	tcp       *net.TCPListener
	advertise netip.AddrPort // where others reach it
	packets   chan *memberlist.Packet
	streams   chan net.Conn
	done      chan struct{}
	once      sync.Once
	states    chan struct{} // full: memberlist has maxStates connections
	accepted  connections   // by others
	dialled   connections   // to others
}

var _ memberlist.NodeAwareTransport = (*transport)(nil)

// listen opens the port of bind for both. Port 0 is any that is free for both.
func listen(ctx context.Context, bind, cluster string) (*transport, error) {
	var lc net.ListenConfig
	host, port, err := net.SplitHostPort(bind)
	if err != nil {
		return nil, fmt.Errorf("cluster address %q: %w; write host:port", bind, err)
	}
	for try := 1; ; try++ {
		l, err := lc.Listen(ctx, "tcp", bind)
		if err != nil {
			return nil, err
		}
		at := l.Addr().(*net.TCPAddr)
		c, err := lc.ListenPacket(ctx, "udp", net.JoinHostPort(host, fmt.Sprint(at.Port)))
		if err == nil {
			return newTransport(l.(*net.TCPListener), c.(*net.UDPConn), labelOf(cluster))
		}
		_ = l.Close() // nothing came through it
		if port != "0" || !errors.Is(err, syscall.EADDRINUSE) || try == portAttempts {
			return nil, err
		}
	}
}

func newTransport(l *net.TCPListener, c *net.UDPConn, label string) (*transport, error) {
	t := &transport{
		label: label, udp: c, tcp: l,
		packets: make(chan *memberlist.Packet, maxHandoff), streams: make(chan net.Conn), states: make(chan struct{}, maxStates), done: make(chan struct{}),
	}
	// A system that allows less gives what it allows; more is lost under bursts then.
	_ = c.SetReadBuffer(socketBuffer)
	_ = c.SetWriteBuffer(socketBuffer)
	at := l.Addr().(*net.TCPAddr).AddrPort()
	ip := at.Addr().Unmap()
	if ip.IsUnspecified() {
		var err error
		if ip, err = privateAddress(); err != nil {
			return nil, errors.Join(err, t.Shutdown())
		}
	}
	t.advertise = netip.AddrPortFrom(ip.WithZone(""), at.Port())
	return t, nil
}

// privateAddress is the first address of this machine on a network of its own,
// or else on any: other nodes may reach it there.
func privateAddress() (netip.Addr, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("look up the addresses of this machine: %w", err)
	}
	var found netip.Addr
	for _, a := range addresses {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if ip := prefix.Addr(); !found.IsValid() || ip.IsPrivate() && !found.IsPrivate() {
			found = ip
		}
	}
	if !found.IsValid() {
		return found, errors.New("this machine has no address that other machines could reach; name one instead of all")
	}
	return found, nil
}

// FinalAdvertiseAddr is memberlist's question for the address to tell others.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.advertise.Addr().AsSlice(), int(t.advertise.Port()), nil
}

// WriteTo sends a packet of memberlist.
func (t *transport) WriteTo(b []byte, address string) (time.Time, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return time.Time{}, err
	}
	_, err = t.udp.WriteToUDPAddrPort(b, to)
	return time.Now(), err
}

// WriteToAddress sends a packet of memberlist.
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

// DialTimeout opens a stream of memberlist.
func (t *transport) DialTimeout(address string, timeout time.Duration) (net.Conn, error) {
	c, err := t.dial(address, min(timeout, streamPatience))
	if err != nil {
		return nil, err
	}
	return &begun{c, &reply{from: c, label: t.label}, func() { _ = c.Close() }}, nil
}

// DialAddressTimeout opens a stream of memberlist.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(a.Addr, timeout)
}

// dial opens a connection. It is closed with the port, if not before.
func (t *transport) dial(address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	go func() {
		select {
		case <-t.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if !t.dialled.add(c) {
		_ = c.Close() // nothing came through it
		return nil, errors.New("there are too many connections, or the port is closed")
	}
	return &begun{c, c, func() { t.dialled.remove(c) }}, nil
}

// PacketCh has the packets that came for memberlist.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh has the streams that came for memberlist.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// Shutdown closes the port. The goroutines that read it end then.
func (t *transport) Shutdown() (err error) {
	t.once.Do(func() {
		close(t.done)
		t.accepted.close()
		t.dialled.close()
		err = errors.Join(t.tcp.Close(), t.udp.Close())
	})
	return err
}

// handPacket gives memberlist a packet; false when it has too many.
func (t *transport) handPacket(b []byte, from netip.AddrPort) bool {
	p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(from), Timestamp: time.Now()}
	select {
	case t.packets <- p:
		return true
	default:
		return false
	}
}

// handStream gives memberlist a connection that others opened, after first was read
// of it; false when it has enough, and when all is closing.
func (t *transport) handStream(c net.Conn, first []byte) bool {
	select {
	case t.states <- struct{}{}:
	default:
		return false
	}
	release := sync.OnceFunc(func() {
		t.accepted.remove(c)
		<-t.states
	})
	select {
	case t.streams <- &begun{c, io.MultiReader(bytes.NewReader(first), io.LimitReader(c, maxState)), release}:
		return true
	case <-t.done:
		release()
		return false
	}
}

// begun is a connection that may have been read from already, and that others close,
// too.
type begun struct {
	net.Conn
	rest  io.Reader
	close func()
}

func (c *begun) Read(b []byte) (int, error) { return c.rest.Read(b) }

func (c *begun) Close() error {
	c.close()
	return nil
}
