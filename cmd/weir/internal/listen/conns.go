package listen

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Parting is how long a server that is stopped still reads what was sent to it.
const Parting = 100 * time.Millisecond

// Conns are the connections of a server, each of which is served on a goroutine of its own. The zero Conns is ready.
type Conns struct {
	leaving atomic.Bool
	parting time.Time // when reading ends; set before leaving

	mu        sync.Mutex
	listeners []net.Listener
	all       map[net.Conn]struct{}
	running   sync.WaitGroup
}

// Each has each connection of l served until Stop, as the function Each does. It closes l.
func (s *Conns) Each(l net.Listener, retried func(err error, wait time.Duration), serve func(net.Conn)) error {
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	leaving := s.Leaving()
	s.mu.Unlock()
	if leaving {
		return l.Close()
	}
	return Each(l, s.Leaving, retried, func(nc net.Conn) { s.Start(nc, serve) })
}

// Start serves a connection on a goroutine of its own, unless the server is stopped.
func (s *Conns) Start(nc net.Conn, serve func(net.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Leaving() {
		_ = nc.Close() // nothing was said yet
		return
	}
	if s.all == nil {
		s.all = map[net.Conn]struct{}{}
	}
	s.all[nc] = struct{}{}
	s.running.Go(func() {
		defer s.forget(nc)
		serve(nc)
	})
}

func (s *Conns) forget(nc net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, nc)
}

// Leaving is whether the server is stopped.
func (s *Conns) Leaving() bool { return s.leaving.Load() }

// ReadUntil says until when nc is read: no longer than a server that is stopped reads.
func (s *Conns) ReadUntil(nc net.Conn, until time.Time) error {
	err := nc.SetReadDeadline(until)
	// Asked after the deadline was set: Stop does both the other way round.
	if err == nil && s.Leaving() && s.parting.Before(until) {
		err = nc.SetReadDeadline(s.parting)
	}
	return err
}

// Wait waits for the end of all connections.
func (s *Conns) Wait() { s.running.Wait() }

// Stop closes the listeners, lets what was sent until then be read, and waits for the end of all connections. When ctx
// ends first, those that are left are closed.
func (s *Conns) Stop(ctx context.Context) error {
	s.mu.Lock()
	if !s.Leaving() {
		s.parting = time.Now().Add(Parting)
		s.leaving.Store(true)
	}
	for _, l := range s.listeners {
		_ = l.Close() // it may be closed already
	}
	for nc := range s.all {
		_ = nc.SetReadDeadline(s.parting) // one that fails is closed already
	}
	s.mu.Unlock()
	return Finish(ctx, &s.running, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for nc := range s.all {
			_ = nc.Close() // to end its goroutine
		}
	})
}
