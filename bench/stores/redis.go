package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// redis is a redis-server of this run, which keeps nothing on disk.
type redis struct {
	addr    string
	dir     string
	command *exec.Cmd
	client  rueidis.Client // asks for its figures, apart from those who are measured
}

// startRedis starts one that ends with ctx at the latest.
func startRedis(ctx context.Context) (*redis, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("no redis-server: apt-get install redis-server")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &redis{addr: l.Addr().String()}
	if err := l.Close(); err != nil {
		return nil, err
	}
	if r.dir, err = os.MkdirTemp("", "weir-bench"); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(r.addr) // it is one
	r.command = exec.CommandContext(ctx, path, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", r.dir)
	if err := r.command.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if r.client, err = connect(r.addr); err == nil {
			return r, nil
		}
		if time.Now().After(end) {
			r.stop()
			return nil, fmt.Errorf("redis-server does not answer: %w", err)
		}
	}
}

// connect is a client as its authors set it up, but that it never sends twice,
// which would be a second charge.
func connect(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableRetry: true, DisableCache: true})
}

func (r *redis) stop() {
	if r.client != nil {
		r.client.Close()
	}
	_ = r.command.Process.Kill() // it may have ended
	_ = r.command.Wait()         // it was killed
	_ = os.RemoveAll(r.dir)      // it is below the temporary folder
}

// cpu is the time that the server has used, and the kernel for it.
func (r *redis) cpu(ctx context.Context) (cpu time.Duration, err error) {
	info, err := r.client.Do(ctx, r.client.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		var seconds float64
		for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
			if n, _ := fmt.Sscanf(line, name+":%f", &seconds); n == 1 {
				cpu += time.Duration(seconds * float64(time.Second))
			}
		}
	}
	return cpu, nil
}
