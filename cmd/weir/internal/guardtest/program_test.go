package guardtest

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/memcachestore"
	"github.com/weir-limit/weir/natsstore"
	"github.com/weir-limit/weir/pgstore"
	"github.com/weir-limit/weir/redisstore"
	"github.com/weir-limit/weir/rules"
)

// These tests hold that a Go program that opens a store by URL has what a daemon has around
// its store.

// programs open the stores of programs, on servers of their own.
var programs = map[string]func(t *testing.T) (open func() *edge.Store, signal func(os.Signal)){
	"redis": func(t *testing.T) (func() *edge.Store, func(os.Signal)) {
		server := redistest.Start(t, "timeout", "0")
		open := func() *edge.Store { return opened(t)(redisstore.Open("redis://" + server.Addr)) }
		return open, func(s os.Signal) { server.Signal(t, s) }
	},
	"memcached": func(t *testing.T) (func() *edge.Store, func(os.Signal)) {
		server := memcachedtest.Start(t, "-m", "8")
		open := func() *edge.Store {
			return opened(t)(memcachestore.Open("memcached://"+server.Addr, memcachestore.Options{}))
		}
		return open, func(s os.Signal) { server.Signal(t, s) }
	},
	"postgres": func(t *testing.T) (func() *edge.Store, func(os.Signal)) {
		server := postgrestest.StartTCP(t)
		url := server.Database(t)
		open := func() *edge.Store { return opened(t)(pgstore.Open(url, pgstore.Options{})) }
		thaw := func() {}
		return open, func(s os.Signal) {
			if thaw(); s == syscall.SIGSTOP {
				thaw = server.Freeze(t)
			}
		}
	},
	"nats": func(t *testing.T) (func() *edge.Store, func(os.Signal)) {
		server := natstest.Start(t)
		open := func() *edge.Store { return opened(t)(natsstore.Open("nats://"+server.Addr, natsstore.Options{})) }
		return open, func(s os.Signal) { // the server is in this process, and can't be frozen
			if server.Stop(); s == syscall.SIGCONT {
				server.Restart(t)
			}
		}
	},
}

func opened(t *testing.T) func(*edge.Store, error) *edge.Store {
	return func(s *edge.Store, err error) *edge.Store {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() }) // its server may be gone
		s.Meet(t.Context())
		return s
	}
}

const programRules = `domain: d
descriptors:
  - {key: open, limits: [5/day], fallback: open}
  - {key: closed, limits: [5/day], fallback: closed}
  - {key: parted, limits: [10/day], nodes: 3}
  - {key: synced, limits: [100000/s], sync: 100ms}
`

// programLimiter asks the rules of a file, and question is an event of a key of theirs.
func programLimiter(t *testing.T, store weir.Store) *rules.Limiter {
	t.Helper()
	set, err := rules.Parse("f", []byte(programRules))
	if err != nil {
		t.Fatal(err)
	}
	if err := set.Fits(store.Traits()); err != nil {
		t.Fatal(err)
	}
	return rules.NewLimiter(store, set)
}

func question(key string) *rules.Request {
	return &rules.Request{Domain: "d", Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: key, Value: "v"}}, Cost: 1}}}
}

// TestProgramsFallBack: with its store frozen, a program has the answers of its rules'
// fallbacks, which say what they are, and take no longer than a call to the store may.
// Three programs that name their number pass their parts of a limit, 9 of 10.
func TestProgramsFallBack(t *testing.T) {
	for name, start := range programs {
		t.Run(name, func(t *testing.T) {
			open, signal := start(t)
			var three []*rules.Limiter
			for range 3 {
				three = append(three, programLimiter(t, open()))
			}
			if a, err := three[0].Check(t.Context(), question("open")); err != nil || a.Decisions[0].Degraded != "" {
				t.Fatalf("%+v, %v", a, err)
			}
			signal(syscall.SIGSTOP)
			defer signal(syscall.SIGCONT)
			for range 2 * guard.Enough { // more than the limit has, so that only open allows them
				falls(t, three[0], "open", weir.Allowed, weir.FallbackOpen)
			}
			falls(t, three[0], "closed", weir.Denied, weir.FallbackClosed)
			passed := 0
			for _, l := range three {
				for range 10 {
					if a := fallen(t, l, "parted"); a.Outcome == weir.Allowed {
						passed++
					}
				}
			}
			if passed != 9 {
				t.Errorf("three programs passed %d of their parts of 10, 3 each", passed)
			}
		})
	}
}

func fallen(t *testing.T, l *rules.Limiter, key string) weir.Decision {
	t.Helper()
	began := time.Now()
	a, err := l.Check(t.Context(), question(key))
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 2*time.Second { // of a deadline of 400 ms, on a busy machine
		t.Errorf("%v for an answer without the store", took)
	}
	return a.Decisions[0].Decision
}

func falls(t *testing.T, l *rules.Limiter, key string, want weir.Outcome, by weir.Fallback) {
	t.Helper()
	if d := fallen(t, l, key); d.Outcome != want || d.Degraded != by {
		t.Errorf("%s: %v by %q, want %v by %q", key, d.Outcome, d.Degraded, want, by)
	}
}

// TestProgramsSync: nearly all takes of a rule with sync are decided in the program. What the
// store has not heard when it is closed it hears then, and the next program knows.
func TestProgramsSync(t *testing.T) {
	open, _ := programs["redis"](t)
	store := open()
	l := programLimiter(t, store)
	const takes = 200
	for range takes {
		if _, err := l.Check(t.Context(), question("synced")); err != nil {
			t.Fatal(err)
		}
	}
	if n := store.Stats().Local; n < takes*9/10 {
		t.Errorf("the program decided %d of %d takes itself", n, takes)
	}
	limiter := weir.MustParseLimit("1000/h")
	ask := []weir.Ask{{State: weir.StateKey{Rule: "r#bucket", Key: "k"}, Limit: limiter, Cost: 1, Policy: weir.Policy{Sync: weir.MaxSync}}}
	out := make([]weir.Decision, 1)
	for range 3 { // the first goes to the store, and the others stay here for 10 s
		if err := store.Take(t.Context(), ask, out); err != nil || out[0].Outcome != weir.Allowed {
			t.Fatalf("%+v, %v", out[0], err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	ask[0].Peek, ask[0].Policy.Sync = true, 0
	if err := open().Take(t.Context(), ask, out); err != nil || out[0].Remaining != 997 {
		t.Errorf("%+v, %v: 997 remain", out[0], err)
	}
}

// TestCloseEndsAll: Close tells a store that is there again what a fallback let pass, and
// leaves nothing running, whether the store is there or not.
func TestCloseEndsAll(t *testing.T) {
	for name, start := range programs {
		if name == "nats" {
			continue // its server begins and ends goroutines in this process
		}
		t.Run(name, func(t *testing.T) {
			open, signal := start(t)
			before := runtime.NumGoroutine()
			store := open()
			l := programLimiter(t, store)
			signal(syscall.SIGSTOP)
			for range guard.Enough {
				falls(t, l, "open", weir.Allowed, weir.FallbackOpen)
			}
			began := time.Now()
			_ = store.Close() // its server does not answer
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("Close took %v", took)
			}
			signal(syscall.SIGCONT)
			ended(t, before)
			falls(t, l, "open", weir.Allowed, weir.FallbackOpen) // whoever still asks is answered
			if err := store.Close(); err != nil {
				t.Log("closed again:", err)
			}
			ended(t, before)
		})
	}
}

// TestCloseReports: a store that is closed as soon as its server is back reports what the
// fallback let pass, and the next program knows. Without the server, Close says what is lost.
func TestCloseReports(t *testing.T) {
	inRedis := redistest.Start(t, "timeout", "0")
	inMemcached := memcachedtest.Start(t, "-m", "8")
	for name, c := range map[string]struct {
		server server
		open   func() (*edge.Store, error)
	}{
		"redis": {inRedis, func() (*edge.Store, error) { return redisstore.Open("redis://" + inRedis.Addr) }},
		"memcached": {inMemcached, func() (*edge.Store, error) {
			return memcachestore.Open("memcached://"+inMemcached.Addr, memcachestore.Options{})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := func(store *edge.Store) *weir.Limiter {
				return weir.NewLimiter(store, "r", weir.MustParseLimit("100/day fixed-window anchored"))
			}
			c.server.Kill()
			for _, back := range []bool{false, true} {
				store := opened(t)(c.open())
				for range 30 {
					if a, err := limiter(store).Take(t.Context(), "k", 1); err != nil || a.Outcome != weir.Allowed {
						t.Fatalf("%+v, %v", a, err)
					}
				}
				if s := store.Stats(); s.Away != 1 || s.Unreported != 1 {
					t.Fatalf("%+v", s)
				}
				if back {
					c.server.Restart(t)
				}
				if err := store.Close(); errors.Is(err, weir.ErrAway) == back || back && err != nil {
					t.Errorf("the server is back: %v; closed with %v", back, err)
				}
			}
			if a, err := limiter(opened(t)(c.open())).Take(t.Context(), "k", 1); err != nil || a.Degraded != "" || a.Remaining != 69 {
				t.Errorf("%+v, %v: 69 remain", a, err)
			}
		})
	}
}

// ended waits until no more goroutines run than before.
func ended(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			all := make([]byte, 1<<16)
			t.Fatalf("%d goroutines were left to run:\n%s", runtime.NumGoroutine()-before, all[:runtime.Stack(all, true)])
		}
	}
}

// TestBareStoresRefuseRules: stores without the edge refuse rules that need one.
func TestBareStoresRefuseRules(t *testing.T) {
	inRedis, err := redisstore.Dial("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inRedis.Close() }()
	inMemcached, err := memcachestore.Dial("memcached://127.0.0.1:1", memcachestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inMemcached.Close() }()
	set, err := rules.Parse("f", []byte(programRules))
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []weir.Store{inRedis, inMemcached} {
		if err := set.Fits(store.Traits()); err == nil {
			t.Errorf("%T: rules with fallback, nodes and sync load", store)
		}
		if _, err := weir.NewLimiter(store, "r", weir.MustParseLimit("5/s")).With(weir.Policy{Nodes: 2}); err == nil {
			t.Errorf("%T: a limiter has nodes", store)
		}
	}
}
