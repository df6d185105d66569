package resp

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/listen"
)

// TestSlowHandshake: a connection that is not made safe in time is dropped, and
// so is one that is not safe when the listener closes.
func TestSlowHandshake(t *testing.T) {
	begin := func(t *testing.T, s *Server) net.Conn {
		t.Helper()
		client, server := net.Pipe()
		safe := tls.Server(server, &tls.Config{Certificates: []tls.Certificate{{}}})
		s.conns.Start(safe, func(nc net.Conn) { s.serve(t.Context(), nc) })
		return client
	}
	synctest.Test(t, func(t *testing.T) {
		failed := 0
		s := newServer(t, Options{HandshakeFailed: func() { failed++ }, Observe: func(name string, _ bool, _ time.Duration) { t.Error(name) }})
		start := time.Now()
		client := begin(t, s)
		if _, err := io.ReadAll(client); err != nil {
			t.Error(err)
		}
		s.conns.Wait()
		if took := time.Since(start); took != handshake || failed != 1 {
			t.Errorf("%v, %d failed", took, failed)
		}
		begin(t, s)
		start = time.Now()
		if err := s.Stop(t.Context()); err != nil || time.Since(start) > listen.Parting {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
