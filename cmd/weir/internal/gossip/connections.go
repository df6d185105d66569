package gossip

import (
	"net"
	"sync"
)

// connections are those that are open, so that all can be closed.
type connections struct {
	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

// add is whether c may stay open.
func (a *connections) add(c net.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || len(a.open) >= maxStreams {
		return false
	}
	if a.open == nil {
		a.open = map[net.Conn]struct{}{}
	}
	a.open[c] = struct{}{}
	return true
}

// remove closes c.
func (a *connections) remove(c net.Conn) {
	a.mu.Lock()
	delete(a.open, c)
	a.mu.Unlock()
	_ = c.Close() // it may be closed already
}

// close closes all, and those that are still to come.
func (a *connections) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for c := range a.open {
		_ = c.Close() // who reads it ends
	}
}

func (a *connections) len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.open)
}
