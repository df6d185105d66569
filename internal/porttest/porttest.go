// Package porttest finds ports for servers that tests start, stop, and start again.
package porttest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The kernel gives ports from 32768 to connections, and to listeners that name none: one from there may
// be another process's between a server's stop and its next start.
const first, last = 10_000, 30_000

// Free is a loopback address, host:port, that nobody listens at, by TCP nor UDP. The kernel gives its
// port to nobody, so it stays free while no server of the test runs.
func Free(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Port(t)))
}

// Port is the port of a free address.
func Port(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := first + rand.IntN(last-first)
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", at)
		if err != nil {
			continue
		}
		u, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", at)
		if err == nil {
			_ = u.Close() // nothing was sent
		}
		_ = l.Close() // nothing came
		if err == nil {
			return port
		}
	}
	t.Fatalf("no port from %d to %d is free", first, last)
	return 0
}
