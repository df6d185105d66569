package clustertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// namespace is a network of its own: the loopback and one device. Its thread, and so
// the sockets and processes that are made on it, are inside.
type namespace struct {
	device *os.File // what the namespace sends to others, a packet a read
	calls  chan func()
	quit   chan struct{} // closed to end run
	done   chan struct{} // closed when it has ended
}

// deviceName is that of the device in each namespace.
const deviceName = "weir0"

// mtu is that of most networks.
const mtu = 1500

func newNamespace(t *testing.T, at netip.Addr) *namespace {
	t.Helper()
	n := &namespace{calls: make(chan func()), quit: make(chan struct{}), done: make(chan struct{})}
	made := make(chan error)
	go n.run(at, made)
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	return n
}

// run keeps a thread inside. It is never unlocked: it ends with its goroutine, for no
// other may run on it, and the kernel kills the processes that it started.
func (n *namespace) run(at netip.Addr, made chan<- error) {
	runtime.LockOSThread()
	defer close(n.done)
	err := unix.Unshare(unix.CLONE_NEWNET)
	if err == nil {
		n.device, err = openDevice(at)
	}
	made <- err
	if err != nil {
		return
	}
	for {
		select {
		case call := <-n.calls:
			call()
		case <-n.quit:
			return
		}
	}
}

// within runs call inside, unless the namespace is closed.
func (n *namespace) within(call func() error) error {
	said := make(chan error, 1)
	select {
	case n.calls <- func() { said <- call() }:
		return <-said
	case <-n.quit:
		return net.ErrClosed
	}
}

// dial is a net.Dialer's inside.
func (n *namespace) dial(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = n.within(func() (err error) {
		var d net.Dialer
		c, err = d.DialContext(ctx, network, address)
		return err
	})
	return c, err
}

func (n *namespace) close() {
	close(n.quit)
	<-n.done
	_ = n.device.Close() // its reader may have closed it
}

// openDevice makes the device in the namespace of this thread, with an address in a network
// of 256, and sets up the loopback.
func openDevice(at netip.Addr) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	if err := configure(fd, at); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "/dev/net/tun"), nil
}

func configure(tun int, at netip.Addr) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	address := at.As4()
	steps := []struct {
		fd      int
		request uint
		name    string
		set     func(*unix.Ifreq) error
	}{
		{tun, unix.TUNSETIFF, deviceName, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI); return nil }},
		{socket, unix.SIOCSIFADDR, deviceName, func(r *unix.Ifreq) error { return r.SetInet4Addr(address[:]) }},
		{socket, unix.SIOCSIFNETMASK, deviceName, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }},
		{socket, unix.SIOCSIFMTU, deviceName, func(r *unix.Ifreq) error { r.SetUint32(mtu); return nil }},
		{socket, unix.SIOCSIFFLAGS, deviceName, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
		{socket, unix.SIOCSIFFLAGS, "lo", func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }},
	}
	for _, s := range steps {
		r, err := unix.NewIfreq(s.name)
		if err == nil {
			err = s.set(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(s.fd, s.request, r)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("set up %s: ioctl %#x: %w", s.name, s.request, err), unix.Close(socket))
		}
	}
	return unix.Close(socket)
}
