package rls

import (
	"net"

	"google.golang.org/grpc/credentials"
)

// handshakes are gRPC's own, and it is told when one fails.
type handshakes struct {
	credentials.TransportCredentials

	failed func()
}

// ServerHandshake makes a connection safe.
func (h *handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := h.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		h.failed()
	}
	return c, info, err
}

// Clone is gRPC's, too.
func (h *handshakes) Clone() credentials.TransportCredentials {
	return &handshakes{h.TransportCredentials.Clone(), h.failed}
}
