//go:build unix

package listen

import (
	"net"
	"os"
	"syscall"
)

// pending is a connection that is in the backlog already, or nil. It never waits,
// and does not ask for the deadline, unlike Accept.
func pending(l net.Listener) net.Conn {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	file := -1
	if raw.Control(func(fd uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if file, _, err = syscall.Accept(int(fd)); err == nil {
			syscall.CloseOnExec(file)
		}
	}) != nil || err != nil {
		return nil
	}
	f := os.NewFile(uintptr(file), "connection")
	defer f.Close() // what follows has a copy
	c, err := net.FileConn(f)
	if err != nil {
		return nil
	}
	return c
}
