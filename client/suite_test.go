package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/storetest"
)

// built is the folder that programs are built into, once for all tests.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // it is among temporary things
	os.Exit(code)
}

// program builds a program of the daemon's module.
func program(source string) (string, error) {
	binary := filepath.Join(built, filepath.Base(source))
	if out, err := exec.CommandContext(context.Background(), "go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return binary, nil
}

// buildLender builds what lends a store with a clock of the test's.
var buildLender = sync.OnceValues(func() (string, error) { return program("../cmd/weir/internal/lendtest") })

func lender(t *testing.T) string {
	t.Helper()
	binary, err := buildLender()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// process is the daemon of TestStore.
type process struct {
	url string
	mu  *sync.Mutex
}

func startProcess(t *testing.T, args ...string) process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), lender(t), args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(in.Close(), cmd.Wait()) }) // t.Context has killed it
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return process{"grpc://" + strings.TrimSpace(line), new(sync.Mutex)}
}

// far is a store of the process, without a guard: that would tell the suite of
// fallbacks, not of the store.
type far struct {
	*daemons

	name string
	mu   *sync.Mutex
}

func (f far) at(now string, do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := weir.StateKey{Rule: "switch", Key: f.name + "\x00" + now}
	return errors.Join(f.Reset(context.Background(), []weir.StateKey{key}), do())
}

func (f far) TakeAt(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	return f.at(fmt.Sprint(int64(now)), func() error {
		f.now = func(*daemon) weir.Instant { return now }
		return f.Take(context.Background(), asks, out)
	})
}

func (f far) SettleAt(now weir.Instant, settlements []weir.Settlement) error {
	return f.at(fmt.Sprint(int64(now)), func() error { return f.Settle(context.Background(), settlements) })
}

func (f far) ResetAt(now weir.Instant, keys []weir.StateKey) error {
	return f.at(fmt.Sprint(int64(now)), func() error { return f.Reset(context.Background(), keys) })
}

func (p process) open(t testing.TB, name string) storetest.Clocked {
	t.Helper()
	s, err := Open(p.url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	f := far{s.current.Load().daemons, name, p.mu}
	// A connection of its own begins here, which a busy machine may keep waiting for longer
	// than a daemon is given.
	for begun := time.Now(); ; {
		err := f.at("", func() error { return nil })
		if err == nil {
			return f
		}
		if !errors.Is(err, weir.ErrAway) || time.Since(begun) > 20*time.Second {
			t.Fatal(err)
		}
	}
}

// TestStore holds the store of a daemon in another process to the contract.
func TestStore(t *testing.T) {
	storetest.Run(t, "../testdata/vectors", startProcess(t).open, storetest.Options{})
}

// TestStoreInRedis does so where the daemon keeps its counts in Redis.
func TestStoreInRedis(t *testing.T) {
	storetest.Fewer(t, 25) // TestStore has tried the messages, and the store's own tests the store
	p := startProcess(t, "-redis", redistest.Start(t).Addr)
	storetest.Run(t, "../testdata/vectors", p.open, storetest.Options{})
}
