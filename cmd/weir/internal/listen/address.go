package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// socketScheme is how an address says that it is a socket of this machine.
	socketScheme = "unix://"
	// socketMode lets the daemon's user and group in.
	socketMode = 0o660
	// longestSocket is the longest path that every system takes.
	longestSocket = 103
	// answersIn is how long a socket that is there may take to say whether it is used.
	answersIn = time.Second
)

// IsSocket reports whether an address is a socket of this machine, and no HOST:PORT.
func IsSocket(address string) bool { return strings.HasPrefix(address, socketScheme) }

// CheckSocket fails for the address of a socket that can't be meant. name is the flag's
// name, for the example in the error.
func CheckSocket(name, address string) error {
	path := strings.TrimPrefix(address, socketScheme)
	switch {
	case !filepath.IsAbs(path):
		return fmt.Errorf("%q is no whole path; write unix:///run/weir/%s.sock", path, name)
	case len(path) > longestSocket:
		return fmt.Errorf("the path of a socket has at most %d bytes, this one has %d; write a shorter one", longestSocket, len(path))
	}
	return nil
}

// Local reports whether only this machine reaches a listener at an address HOST:PORT.
func Local(address string) bool {
	at, err := net.ResolveTCPAddr("tcp", address)
	return err == nil && at.IP.IsLoopback()
}

// IsLoopback reports whether only this machine reaches an open listener by TCP.
func IsLoopback(at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// AsFlag writes an address as a flag has it.
func AsFlag(at net.Addr) string {
	if at.Network() == "unix" {
		return socketScheme + at.String()
	}
	return at.String()
}

// Open listens at HOST:PORT or at a socket.
func Open(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	if !IsSocket(address) {
		return config.Listen(ctx, "tcp", address)
	}
	path := strings.TrimPrefix(address, socketScheme)
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeStale removes a socket that a daemon has left which was killed. One that is
// listened to stays, and so does what is no socket: to listen then fails.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSocket == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	dialer := net.Dialer{Timeout: answersIn}
	c, err := dialer.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("%s is in use by another process; stop it, or write another path", path), c.Close())
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return err
}
