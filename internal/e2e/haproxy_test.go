package e2e

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"testing"
)

// haproxy starts a server with docs/integrations/haproxy.cfg and weir.lua.
func haproxy(t *testing.T, config func(string) string, weir, backend string) (url string) {
	t.Helper()
	path := program(t, "haproxy")
	at, inner := free(t), free(t)
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
	closed(t, haproxy(t, func(text string) string { return without(text, "# fail open") }, free(t), b.address), b, http.StatusServiceUnavailable)
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
