package e2e

import (
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/weir-limit/weir/internal/porttest"
)

// caddy starts a server with docs/integrations/Caddyfile.
func caddy(t *testing.T, config func(string) string, weir, backend string) (url string) {
	t.Helper()
	path := program(t, "caddy")
	at := porttest.Free(t)
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	text := recipe(t, filepath.Join(recipes, "Caddyfile"), "127.0.0.1:8080", weir, "127.0.0.1:9000", backend, "http://:80 {", "http://:"+port+" {\n\tbind 127.0.0.1")
	file := write(t, filepath.Join(t.TempDir(), "Caddyfile"), "{\n\tadmin off\n}\n"+config(text))
	p := start(t, command(t, path, "run", "--config", file, "--adapter", "caddyfile"))
	p.listening(t, at)
	return "http://" + at
}

func TestCaddy(t *testing.T) {
	t.Parallel()
	d, b := edge(t), newBackend(t)
	url := caddy(t, patient, d.http, b.address)
	throttles(t, url, b)

	// Where weir answered and the backend broke, nothing is sent twice.
	before := b.calls.Load()
	if a := newClient(t).ask(http.MethodPost, url+"/broken", "body"); a.status != http.StatusBadGateway || b.calls.Load() != before+1 {
		t.Errorf("status %d, %d calls", a.status, b.calls.Load()-before)
	}
	d.kill(t)
	open(t, url, b)
}

// TestCaddyTimeout: a daemon that hangs delays requests, and ends none.
func TestCaddyTimeout(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	open(t, caddy(t, asItIs, hanging(t), b.address), b)
}
