// Package proxytest stands between a client and a server, and cuts their
// connections where a test says so.
package proxytest

import (
	"net"
	"sync"
	"testing"
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
			go p.pass(client, server, false)
			go p.pass(server, client, true)
		}
	}()
	return l.Addr().String()
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
