package listen

import (
	"encoding/binary"
	"net"
	"syscall"
)

// gone is whether the client of a connection has closed it, and not only what it
// has sent was read.
func gone(c net.Conn) bool {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	const closed, closeWait = 7, 8 // as include/net/tcp_states.h numbers them
	var state byte
	err = raw.Control(func(fd uintptr) {
		var first [4]byte // of a tcp_info
		info, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO)
		if err == nil {
			binary.NativeEndian.PutUint32(first[:], uint32(info))
			state = first[0]
		}
	})
	return err == nil && (state == closed || state == closeWait)
}
