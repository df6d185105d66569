package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// startTimeout is how long a server may take to come up.
const startTimeout = 20 * time.Second

// process is a server that was started here.
type process struct {
	cmd *exec.Cmd
	out bytes.Buffer
	end chan struct{} // closed when it is gone
}

func start(ctx context.Context, dir string, env []string, name string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...), end: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = dir, append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.end)
		_ = p.cmd.Wait() // how it ended does not matter: it is stopped from here
	}()
	return p, nil
}

func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.end
}

// gone is whether the process ended within a time.
func (p *process) gone(within time.Duration) bool {
	select {
	case <-p.end:
		return true
	case <-time.After(within):
		return false
	}
}

// await waits until ready says nil.
func (p *process) await(ctx context.Context, what string, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.end:
			return fmt.Errorf("%s ended: %s", what, bytes.TrimSpace(p.out.Bytes()))
		case <-ctx.Done():
			p.stop()
			return fmt.Errorf("%s does not come up: %w; it said: %s", what, err, bytes.TrimSpace(p.out.Bytes()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ports are free ports of the loopback address.
func ports(ctx context.Context, n int) ([]int, error) {
	var found []int
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all at once, so that no port comes twice
		found = append(found, l.Addr().(*net.TCPAddr).Port)
	}
	return found, nil
}

// servers are both servers with the same rule files.
type servers struct {
	built                   *built
	peer, ours              *client
	redis, peerRun, oursRun *process
	redisPort               int
	dir                     string
	// personality has Weir started as ratelimit, with the same environment.
	personality                                    bool
	peerMetrics, oursMetrics, peerDebug, oursDebug string // addresses, where there are any
}

// newServers starts a Redis for both's lifetimes; load starts the rest.
func newServers(ctx context.Context, b *built, personality bool) (*servers, error) {
	free, err := ports(ctx, 1)
	if err != nil {
		return nil, err
	}
	s := &servers{built: b, redisPort: free[0], personality: personality}
	if s.dir, err = os.MkdirTemp("", "compare-ratelimit-"); err != nil {
		return nil, err
	}
	s.redis, err = start(ctx, s.dir, nil, b.redis, "--port", strconv.Itoa(s.redisPort), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, s.redis.await(ctx, "redis-server", func() error { return s.flush(ctx) })
}

// flush empties Redis.
func (s *servers) flush(ctx context.Context) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.redisPort)))
	if err != nil {
		return err
	}
	defer conn.Close() // its answer was read
	if _, err := conn.Write([]byte("FLUSHALL\r\n")); err != nil {
		return err
	}
	answer := make([]byte, 5)
	if _, err := conn.Read(answer); err != nil || string(answer) != "+OK\r\n" {
		return fmt.Errorf("flush Redis: %q, %w", answer, err)
	}
	return nil
}

// load starts both servers anew, with nothing counted and these rule files.
func (s *servers) load(ctx context.Context, files map[string]string) error {
	s.unload()
	if err := s.flush(ctx); err != nil {
		return err
	}
	folder := filepath.Join(s.dir, "ratelimit", "config")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := s.startPeer(ctx); err != nil {
		return err
	}
	return s.startOurs(ctx, folder)
}

// environment is what an envoyproxy/ratelimit is told that listens at these ports: of HTTP, gRPC, debugging and Prometheus.
func (s *servers) environment(p []int) []string {
	env := []string{
		"RUNTIME_ROOT=" + s.dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "RUNTIME_IGNOREDOTFILES=true",
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
		fmt.Sprintf("PORT=%d", p[0]), fmt.Sprintf("GRPC_PORT=%d", p[1]), fmt.Sprintf("DEBUG_PORT=%d", p[2]),
		"BACKEND_TYPE=redis", "REDIS_SOCKET_TYPE=tcp", fmt.Sprintf("REDIS_URL=127.0.0.1:%d", s.redisPort),
		"USE_STATSD=false", "LOG_LEVEL=error", "RESPONSE_DYNAMIC_METADATA=true",
	}
	if !s.personality {
		return append(env, "DISABLE_STATS=true")
	}
	return append(env, "USE_PROMETHEUS=true", "PROMETHEUS_ADDR="+local(p[3]), "PROMETHEUS_PATH=/metrics", "STATS_FLUSH_INTERVAL=100ms")
}

func (s *servers) startPeer(ctx context.Context) error {
	p, err := ports(ctx, 4)
	if err != nil {
		return err
	}
	s.peerDebug, s.peerMetrics = local(p[2]), local(p[3])
	if s.peerRun, err = start(ctx, s.dir, s.environment(p), s.built.peer); err != nil {
		return err
	}
	if s.peer, err = dial("envoyproxy/ratelimit", local(p[0]), local(p[1])); err != nil {
		return err
	}
	return s.peerRun.await(ctx, "envoyproxy/ratelimit", func() error { return s.peer.up(ctx) })
}

func (s *servers) startOurs(ctx context.Context, folder string) error {
	p, err := ports(ctx, 4)
	if err != nil {
		return err
	}
	if s.personality {
		// No Redis is needed, whatever its URL says; each server counts for itself in any case.
		s.oursDebug, s.oursMetrics = local(p[2]), local(p[3])
		env := append(s.environment(p), "WEIR_STORE=memory:", "WEIR_ADMIN=127.0.0.1:0")
		if s.oursRun, err = start(ctx, s.dir, env, s.built.ratelimit); err != nil {
			return err
		}
		return s.meetOurs(ctx, p)
	}
	s.oursRun, err = start(ctx, s.dir, nil, s.built.weir, "serve", "--rules", folder, "--http", local(p[0]), "--grpc", local(p[1]), "--admin", local(p[2]))
	if err != nil {
		return err
	}
	return s.meetOurs(ctx, p)
}

func (s *servers) meetOurs(ctx context.Context, p []int) (err error) {
	if s.ours, err = dial("weir", local(p[0]), local(p[1])); err != nil {
		return err
	}
	return s.oursRun.await(ctx, "weir", func() error { return s.ours.up(ctx) })
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// up is nil when a server accepts calls at both doors.
func (c *client) up(ctx context.Context) error {
	code, _, err := c.do(ctx, "GET", "/healthcheck", nil)
	if err != nil {
		return err
	}
	if code != 200 {
		return fmt.Errorf("/healthcheck answers %d", code)
	}
	if state := c.health(ctx, "ratelimit"); state != "SERVING" {
		c.conn.ResetConnectBackoff()
		return fmt.Errorf("its health is %s", state)
	}
	return nil
}

func (s *servers) unload() {
	for _, c := range []*client{s.peer, s.ours} {
		if c != nil {
			_ = c.conn.Close() // the server goes, too
		}
	}
	s.peerRun.stop()
	s.oursRun.stop()
	s.peer, s.ours, s.peerRun, s.oursRun = nil, nil, nil, nil
}

func (s *servers) close() error {
	s.unload()
	s.redis.stop()
	return os.RemoveAll(s.dir)
}
