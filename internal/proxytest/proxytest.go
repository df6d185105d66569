// Package proxytest stands between a client and a server, and cuts their
// connections, keeps answers back, or gives others, where a test says so.
package proxytest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Cut sees what flows either way, as it comes, and returns how many bytes of it pass
// and whether its connection ends then. It is called by one goroutine at a time.
type Cut func(answer bool, b []byte) (pass int, end bool)

// Start listens for clients of the server at to, and returns where.
func Start(t testing.TB, to string, cut Cut) (addr string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &proxy{cut: cut}
	accept(t, l, to, func(client, server net.Conn) {
		go p.pass(client, server, false)
		go p.pass(server, client, true)
	})
	return l.Addr().String()
}

// accept has each client of l joined to the server at to.
func accept(t testing.TB, l net.Listener, to string, join func(client, server net.Conn)) {
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(t.Context(), "tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			join(client, server)
		}
	}()
}

type proxy struct {
	mu  sync.Mutex
	cut Cut
}

func (p *proxy) pass(from, to net.Conn, answer bool) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		p.mu.Lock()
		pass, end := p.cut(answer, b[:n])
		p.mu.Unlock()
		if _, err := to.Write(b[:pass]); err != nil || end {
			return
		}
	}
}

// Change listens for clients of the server at to, and returns where. Clients get what change makes of the
// server's bytes, as these come. It is called by one goroutine at a time.
func Change(t testing.TB, to string, change func(answer []byte) []byte) (addr string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var one sync.Mutex
	whole := &proxy{cut: func(_ bool, b []byte) (int, bool) { return len(b), false }}
	accept(t, l, to, func(client, server net.Conn) {
		go whole.pass(client, server, false)
		go func() {
			defer client.Close()
			defer server.Close()
			b := make([]byte, 64<<10)
			for {
				n, err := server.Read(b)
				if err != nil {
					return
				}
				one.Lock()
				given := change(b[:n])
				one.Unlock()
				if _, err := client.Write(given); err != nil {
					return
				}
			}
		}()
	})
	return l.Addr().String()
}

// The ways in which a server that Wrong stands for is wrong.
const (
	Twice    = "twice"     // it gives an answer twice
	Anothers = "another's" // it gives the answer before in the place of one
)

// Wrong is Change by which some of the server's answers are wrong, in one of these ways. judge is whether bytes are an
// answer, and whether it is to be wrong.
func Wrong(t testing.TB, to, way string, judge func(b []byte) (answer, wrong bool)) (addr string) {
	t.Helper()
	var before []byte
	return Change(t, to, func(b []byte) []byte {
		given := bytes.Clone(b)
		switch answer, wrong := judge(b); {
		case !answer:
		case !wrong:
			before = given
		case way == Twice:
			given = append(given, b...)
		default:
			given, before = before, given
		}
		return given
	})
}

// Delay listens for clients of the server at to, and returns where. The server's bytes reach them
// later by the time that was told last, and in order.
func Delay(t testing.TB, to string) (addr string, tell func(time.Duration)) {
	t.Helper()
	var late atomic.Int64
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	accept(t, l, to, func(client, server net.Conn) {
		all := &proxy{cut: func(_ bool, b []byte) (int, bool) { return len(b), false }}
		go all.pass(client, server, false)
		go delayed(server, client, &late)
	})
	return l.Addr().String(), func(d time.Duration) { late.Store(int64(d)) }
}

// delayed passes on what it reads, each part late by itself.
func delayed(from, to net.Conn, late *atomic.Int64) {
	defer from.Close()
	type part struct {
		b   []byte
		due time.Time
	}
	parts := make(chan part, 1024)
	defer close(parts)
	go func() {
		defer to.Close()
		for p := range parts {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.b); err != nil {
				break
			}
		}
		for range parts { // nobody wants the rest
		}
	}()
	for trips := time.Duration(2); ; trips = 1 { // the first for the handshake, too
		b := make([]byte, 64<<10)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		parts <- part{b[:n], time.Now().Add(trips * time.Duration(late.Load()))}
	}
}
