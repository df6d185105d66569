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

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memcachestore"
)

// memcached is a server of this run.
type memcached struct {
	addr    string
	command *exec.Cmd
	store   *memcachestore.Store
	client  *memcache.Client
}

// startMemcached starts one that ends with ctx at the latest. It is nil where there
// is none.
func startMemcached(ctx context.Context) (*memcached, error) {
	path, err := exec.LookPath("memcached")
	if err != nil {
		fmt.Fprintln(os.Stderr, "no memcached, and so no figures of it: apt-get install memcached")
		return nil, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &memcached{addr: l.Addr().String()}
	if err := l.Close(); err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(m.addr) // it is one
	args := []string{"-l", host, "-p", port, "-m", "256", "-c", "2048"}
	if os.Getuid() == 0 {
		args = append(args, "-u", "root") // it asks root for a name
	}
	m.command = exec.CommandContext(ctx, path, args...)
	if err := m.command.Start(); err != nil {
		return nil, err
	}
	if m.store, err = memcachestore.Dial("memcached://"+m.addr, memcachestore.Options{}); err != nil {
		return nil, err
	}
	m.client = memcache.New(m.addr)
	m.client.MaxIdleConns, m.client.Timeout = goroutines, 5*time.Second
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := m.client.Ping()
		if err == nil {
			return m, nil
		}
		if time.Now().After(end) {
			m.stop()
			return nil, fmt.Errorf("memcached does not answer: %w", err)
		}
	}
}

func (m *memcached) stop() {
	if m == nil {
		return
	}
	_ = m.store.Close()
	_ = m.client.Close()         // it is of no more use
	_ = m.command.Process.Kill() // it may have ended
	_ = m.command.Wait()         // it was killed
}

// cpu is the time that the server has used, and the kernel for it.
func (m *memcached) cpu(context.Context) (time.Duration, error) {
	return processCPU(m.command.Process.Pid)
}

// processCPU is the time that a process has used, and the kernel for it.
func processCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc says %q", stat)
	}
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, err
	}
	return time.Duration(user+system) * (time.Second / 100), nil // ticks, of which every Linux has 100 a second
}

// ways are ours, and what can be done with gomemcache: a count that is read, decided
// on and swapped, and one that can only count.
func (m *memcached) ways() []way {
	limit := weir.MustParseLimit("100/s burst 100")
	return []way{
		{"weir", m.cpu, func(ctx context.Context, key string) (bool, error) {
			var asks [1]weir.Ask
			var out [1]weir.Decision
			asks[0] = weir.Ask{State: weir.StateKey{Rule: "r#gcra", Key: key}, Limit: limit, Cost: 1}
			err := m.store.Take(ctx, asks[:], out[:])
			return out[0].Outcome == weir.Allowed, err
		}},
		{"gomemcache get and cas", m.cpu, func(_ context.Context, key string) (bool, error) { return m.swap("cas:" + key) }},
		{"gomemcache incr", m.cpu, func(_ context.Context, key string) (bool, error) { return m.count("incr:" + key) }},
	}
}

// swap writes a value as long as what Weir keeps of one count; when other processes are faster,
// again.
func (m *memcached) swap(key string) (bool, error) {
	value := []byte("a count, when it was last used, and the text of the limit that it is of, all in 96 bytes or less")
	for {
		item, err := m.client.Get(key)
		if errors.Is(err, memcache.ErrCacheMiss) {
			err = m.client.Add(&memcache.Item{Key: key, Value: value, Expiration: 60})
		} else if err == nil {
			item.Value = value
			err = m.client.CompareAndSwap(item)
		}
		if !errors.Is(err, memcache.ErrCASConflict) && !errors.Is(err, memcache.ErrNotStored) && !errors.Is(err, memcache.ErrCacheMiss) {
			return true, err
		}
	}
}

func (m *memcached) count(key string) (bool, error) {
	_, err := m.client.Increment(key, 1)
	if errors.Is(err, memcache.ErrCacheMiss) {
		if err = m.client.Add(&memcache.Item{Key: key, Value: []byte("1"), Expiration: 60}); errors.Is(err, memcache.ErrNotStored) {
			_, err = m.client.Increment(key, 1)
		}
	}
	return true, err
}
