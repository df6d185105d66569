package integrations

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/httplimit"
	"github.com/weir-limit/weir/internal/porttest"
	"github.com/weir-limit/weir/memstore"
)

// nginx starts a real nginx that passes all requests on to a backend, as most
// people have it, and returns its URL.
func nginx(t *testing.T, backend string) string {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			t.Skip("SKIPPED ALOUD: there is no nginx here; see tools/debian-packages")
		}
	}
	at, dir := porttest.Free(t), t.TempDir()
	config := fmt.Sprintf(`daemon off;
pid nginx.pid;
error_log stderr error;
worker_processes 1;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	keepalive_requests 1000000;
	upstream app { server %s; keepalive 64; keepalive_requests 1000000; }
	server {
		listen %s;
		location / {
			proxy_pass http://app;
			proxy_http_version 1.1;
			proxy_buffering off;
			proxy_set_header Connection "";
			proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
		}
	}
}
`, strings.TrimPrefix(backend, "http://"), at)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, "-p", dir, "-c", file, "-e", "stderr")
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("nginx ended with %v and said:\n%s", err, &said)
		}
	})
	eventually(t, "nginx does not listen", func() bool {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", at)
		return err == nil && c.Close() == nil
	})
	return "http://" + at
}

// eventually asks until the answer is yes, and fails after a time that no machine
// needs.
func eventually(t *testing.T, otherwise string, ask func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !ask(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal(otherwise)
		}
	}
}

// as is a client with an address of its own.
func as(t *testing.T, address string) *http.Client {
	t.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 0))}
	transport := &http.Transport{DialContext: d.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func send(ctx context.Context, c *http.Client, url string, fields ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return c.Do(r)
}

// behindNginx is a chi server with a limit for each address, and permits for
// streams, behind an nginx that is trusted.
func behindNginx(t *testing.T) (url string, store weir.Store) {
	t.Helper()
	client, err := httplimit.Address(httplimit.Source{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if err != nil {
		t.Fatal(err)
	}
	store = memstore.New(memstore.Options{})
	limit := func(name, text string) func(http.Handler) http.Handler {
		m, err := httplimit.New(store, []httplimit.Rule{{Name: name, Limit: weir.MustParseLimit(text), Key: client}}, httplimit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	r := chi.NewRouter()
	r.With(limit("api", "3/day")).Get("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	r.With(limit("streams", "2 concurrent ttl 1h")).Get("/stream", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: first\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return nginx(t, s.URL), store
}

// TestClientsBehindNginx: clients are told apart by what nginx says of them, whatever
// they say of themselves.
func TestClientsBehindNginx(t *testing.T) {
	url, _ := behindNginx(t)
	for _, address := range []string{"127.0.0.2", "127.0.0.3"} {
		c := as(t, address)
		for i, want := range []int{200, 200, 200, 429, 429} {
			forged := fmt.Sprintf("10.0.0.%d, 127.0.0.1", i)
			response, err := send(t.Context(), c, url, "X-Forwarded-For", forged, "X-Forwarded-For", "127.0.0.1", "Forwarded", "for="+forged)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			h := response.Header
			if response.StatusCode != want || h.Get("RateLimit-Policy") != `"api";q=3;w=86400` ||
				want == 429 && (h.Get("Retry-After") == "" || h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store") {
				t.Errorf("%s, %d: %d %v", address, i, response.StatusCode, h)
			}
		}
	}
}

// TestStreamsBehindNginx: clients that leave in the middle of a stream, or are cut
// off, free their permit, through a proxy, too.
func TestStreamsBehindNginx(t *testing.T) {
	url, store := behindNginx(t)
	free := weir.NewLimiter(store, "streams", weir.MustParseLimit("2 concurrent ttl 1h"))
	var streams sync.WaitGroup
	var got atomic.Int64
	for i := range 4 {
		c := as(t, fmt.Sprintf("127.0.0.%d", 10+i%2))
		streams.Go(func() {
			for range 10 {
				ctx, leave := context.WithCancel(t.Context())
				response, err := send(ctx, c, url+"/stream")
				if err != nil {
					t.Error(err)
				} else if response.StatusCode == http.StatusOK {
					if line, err := bufio.NewReader(response.Body).ReadString('\n'); line != "data: first\n" {
						t.Errorf("%q %v", line, err)
					}
					got.Add(1)
				}
				leave()
				if err == nil {
					_ = response.Body.Close()
				}
			}
		})
	}
	streams.Wait()
	if n := got.Load(); n < 4 {
		t.Errorf("only %d streams", n)
	}
	for _, address := range []string{"127.0.0.10", "127.0.0.11"} {
		eventually(t, address+" does not get its permits back", func() bool {
			a, err := free.Ask(t.Context(), weir.Request{Key: address, Peek: true})
			return err == nil && a.Remaining == 2
		})
	}
}
