//go:build !unix

package listen

import "net"

// pending is a connection that is in the backlog already; only Unix tells without
// waiting.
func pending(net.Listener) net.Conn { return nil }
