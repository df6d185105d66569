package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/internal/rls"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/redisstore"
	"github.com/weir-limit/weir/storetest"
)

// serveEnv makes the test binary a process that lends a store whose clock is the
// test's.
const serveEnv = "WEIR_TEST_LEND_STORE"

// binaryEnv names the folder that weir is built into, once for all tests.
const binaryEnv = "WEIR_TEST_BINARY"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		if err := lendStore(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, err := os.MkdirTemp("", "weir")
	if err = errors.Join(err, os.Setenv(binaryEnv, dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir) // it is among temporary things
	os.Exit(code)
}

// redisEnv names the Redis that this process keeps counts in; without, it is memory.
const redisEnv = "WEIR_TEST_REDIS"

// lendStore serves the gRPC door, and says where.
func lendStore() error {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go endWithParent()
	fmt.Println(l.Addr())
	return rls.New(nil, rls.Options{Store: &rls.Lending{Store: &switched{stores: map[string]lent{}}, Rules: func(int, bool) {}}}).Serve(l)
}

// endWithParent ends this process when the test's ends, however that does: the test holds
// the other end of its standard input.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// lent is a store whose time is the test's, once set is called with one.
type lent interface {
	weir.Store
	weir.Witness
	set(now weir.Instant)
}

// newLent is a store of this name.
func newLent(name string) (lent, error) {
	redis := os.Getenv(redisEnv)
	if redis == "" {
		return &timed{Store: memstore.New(memstore.Options{})}, nil
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis}, ForceSingleClient: true, DisableRetry: true, DisableCache: true})
	if err != nil {
		return nil, err
	}
	return inRedis{redisstore.New(client, redisstore.Options{Prefix: name + ":"})}, nil
}

// inRedis is a store in Redis.
type inRedis struct{ *redisstore.Store }

// set sets a field that only tests set, and that only those of its own package could
// without this.
func (s inRedis) set(now weir.Instant) {
	field := reflect.ValueOf(s.Store).Elem().FieldByName("now")
	*(*string)(field.Addr().UnsafePointer()) = strconv.FormatInt(int64(now), 10)
}

// timed is a store in memory at a time of the test's; before there is any, by the
// wall clock.
type timed struct {
	*memstore.Store

	mu  sync.Mutex
	is  bool
	now weir.Instant
}

func (s *timed) set(now weir.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.is = now, true
}

// at is the time, and whether the test has set it.
func (s *timed) at() (weir.Instant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.is
}

func (s *timed) Look(ctx context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	now, set := s.at()
	if !set {
		return s.Store.Look(ctx, asks)
	}
	states, err := s.LookAt(now, asks)
	return now, states, err
}

func (s *timed) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if now, set := s.at(); set {
		return s.TakeAt(now, asks, out)
	}
	return s.Store.Take(ctx, asks, out)
}

func (s *timed) TakeSeen(ctx context.Context, asks []weir.Ask, out []weir.Decision, see func(weir.Instant, weir.State)) error {
	if now, set := s.at(); set {
		return s.TakeSeenAt(now, asks, out, see)
	}
	return s.Store.TakeSeen(ctx, asks, out, see)
}

func (s *timed) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if now, set := s.at(); set {
		return s.SettleAt(now, settlements)
	}
	return s.Store.Settle(ctx, settlements)
}

func (s *timed) Reset(ctx context.Context, keys []weir.StateKey) error {
	if now, set := s.at(); set {
		return s.ResetAt(now, keys)
	}
	return s.Store.Reset(ctx, keys)
}

// switched is several stores; a Reset of switchRule says which is meant from then on,
// and what time it is there.
type switched struct {
	mu      sync.Mutex
	stores  map[string]lent
	current lent
}

const switchRule = "client\x00switch"

func (s *switched) Traits() weir.Traits {
	if os.Getenv(redisEnv) != "" {
		return redisstore.TraitsOf(false)
	}
	return memstore.New(memstore.Options{}).Traits()
}

func (s *switched) is() lent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *switched) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	return s.is().Take(ctx, asks, out)
}

func (s *switched) TakeSeen(ctx context.Context, asks []weir.Ask, out []weir.Decision, see func(weir.Instant, weir.State)) error {
	return s.is().TakeSeen(ctx, asks, out, see)
}

func (s *switched) Settle(ctx context.Context, settlements []weir.Settlement) error {
	return s.is().Settle(ctx, settlements)
}

func (s *switched) Reset(ctx context.Context, keys []weir.StateKey) error {
	if keys[0].Rule != switchRule {
		return s.is().Reset(ctx, keys)
	}
	name, text, _ := strings.Cut(keys[0].Key, "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stores[name] == nil {
		own, err := newLent(name)
		if err != nil {
			return err
		}
		s.stores[name] = own
	}
	s.current = s.stores[name]
	if text == "" {
		return nil
	}
	at, err := strconv.ParseInt(text, 10, 64)
	s.current.set(weir.Instant(at))
	return err
}

// process is the daemon of TestStore.
type process struct {
	url string
	mu  *sync.Mutex
}

func startProcess(t *testing.T, env ...string) process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), serveEnv+"=1"), env...)
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
	if err := f.at("", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestStore holds the store of a daemon in another process to the contract.
func TestStore(t *testing.T) {
	storetest.Run(t, "../testdata/vectors", startProcess(t).open, storetest.Options{})
}

// TestStoreInRedis does so where the daemon keeps its counts in Redis.
func TestStoreInRedis(t *testing.T) {
	p := startProcess(t, redisEnv+"="+redistest.Start(t).Addr)
	storetest.Run(t, "../testdata/vectors", p.open, storetest.Options{})
}
