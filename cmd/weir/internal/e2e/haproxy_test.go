package e2e

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/weir-limit/weir/internal/porttest"
)

// haproxy starts a server with docs/integrations/haproxy.cfg and weir.lua.
func haproxy(t *testing.T, config func(string) string, weir, backend string) (url string) {
	t.Helper()
	path := program(t, "haproxy")
	at, inner := porttest.Free(t), porttest.Free(t)
	dir := t.TempDir()
	lua := write(t, filepath.Join(dir, "weir.lua"), config(recipe(t, filepath.Join(recipes, "weir.lua"), "127.0.0.1:8079", inner)))
	cfg := write(t, filepath.Join(dir, "haproxy.cfg"), config(recipe(
		t, filepath.Join(recipes, "haproxy.cfg"),
		"/etc/haproxy/weir.lua", lua, "127.0.0.1:8079", inner, "127.0.0.1:8080", weir, "127.0.0.1:9000", backend, "bind :80\n", "bind "+at+"\n",
	)))
	p := start(t, command(t, path, "-db", "-f", cfg))
	p.listening(t, at)
	return "http://" + at
}

func TestHAProxy(t *testing.T) {
	t.Parallel()
	d, b := edge(t), newBackend(t)
	url := haproxy(t, patient, d.http, b.address)
	throttles(t, url, b)
	d.kill(t)
	open(t, url, b)
}

// TestHAProxyTimeout: a daemon that hangs delays requests, and ends none.
func TestHAProxyTimeout(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	open(t, haproxy(t, asItIs, hanging(t), b.address), b)
}

func TestHAProxyFailsClosed(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	closed(t, haproxy(t, func(text string) string { return without(text, "# fail open") }, porttest.Free(t), b.address), b, http.StatusServiceUnavailable)
}

// hanging is an address where calls are taken and never answered.
func hanging(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(context.WithoutCancel(t.Context()), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String() // the backlog takes them
}

// TestHAProxySilence: clients that take all connections and say nothing take none
// of those that questions need, so that nobody who is denied gets in.
func TestHAProxySilence(t *testing.T) {
	t.Parallel()
	d, b := edge(t), newBackend(t)
	few := strings.NewReplacer("maxconn 2000", "maxconn 40", "maxconn 1000", "maxconn 20", "200ms", "20s", "100ms", "20s")
	url := haproxy(t, few.Replace, d.http, b.address)
	c := newClient(t)
	for range 6 {
		c.ask(http.MethodGet, url+"/export/x", "")
	}
	var all []net.Conn
	for range 40 { // 20 are taken, and as many wait
		all = append(all, connect(t, url))
	}
	var g sync.WaitGroup
	for _, conn := range all[:10] {
		g.Go(func() {
			if status := raw(t, conn, "GET /export/x HTTP/1.1\r\nHost: edge\r\n\r\n"); status != http.StatusTooManyRequests {
				t.Errorf("among connections that are silent: status %d", status)
			}
		})
	}
	g.Wait()
}
