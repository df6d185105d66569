//go:build !unix

package daemon

import "net"

// pending is a connection that is in the backlog already; only Unix tells without
// waiting.
func pending(net.Listener) net.Conn { return nil }
