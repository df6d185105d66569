package e2e

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-limit/weir/internal/porttest"
)

// nginxCommand is nginx with settings of its http block, in a folder of its own.
func nginxCommand(t *testing.T, dir, http string) *exec.Cmd {
	t.Helper()
	main := write(t, filepath.Join(dir, "nginx.conf"), `daemon off;
pid nginx.pid;
error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
`+http+`
}
`)
	return command(t, program(t, "nginx"), "-p", dir, "-c", main, "-e", "stderr")
}

// nginx starts a server with docs/integrations/nginx.conf.
func nginx(t *testing.T, config func(string) string, weir, backend string) (url string) {
	t.Helper()
	at := porttest.Free(t)
	text := config(recipe(t, filepath.Join(recipes, "nginx.conf"), "127.0.0.1:8080", weir, "127.0.0.1:9000", backend, "listen 80;", "listen "+at+";"))
	dir := t.TempDir()
	write(t, filepath.Join(dir, "weir.conf"), text)
	p := start(t, nginxCommand(t, dir, "include weir.conf;"))
	p.listening(t, at)
	return "http://" + at
}

// patient is a recipe that waits longer than any machine needs: how long it
// really waits is not what most tests are about.
func patient(text string) string {
	return strings.NewReplacer("100ms", "20s", "200ms", "20s", "timeout = 500", "timeout = 20000",
		"timeout=0.5", "timeout=20", "timeout(500)", "timeout(20000)").Replace(text)
}

func asItIs(text string) string { return text }

func TestNginx(t *testing.T) {
	t.Parallel()
	d, b := edge(t), newBackend(t)
	url := nginx(t, patient, d.http, b.address)
	throttles(t, url, b)

	// Connections to weir are kept, those of denials too.
	if n := d.metric(t, `weir_connections{listener="http"}`); n < 1 || n > 32 {
		t.Errorf("%v connections to weir are open", n)
	}
	d.kill(t)
	open(t, url, b)
}

// TestNginxTimeout: a daemon that hangs delays requests, and ends none.
func TestNginxTimeout(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	open(t, nginx(t, asItIs, hanging(t), b.address), b)
}

func TestNginxFailsClosed(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	url := nginx(t, func(text string) string { return without(text, "# fail open") }, porttest.Free(t), b.address)
	closed(t, url, b, http.StatusInternalServerError)
	if a := newClient(t).ask(http.MethodGet, url+"/weir", ""); a.status != http.StatusNotFound || strings.Contains(a.body, "domain") {
		t.Errorf("from outside: %v", a)
	}
}
