package guardtest

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/memcachestore"
	"github.com/weir-limit/weir/redisstore"
	"github.com/weir-limit/weir/rules"
)

// Who opens a store by URL in a program has none of what the guard does for a daemon, and
// weir.Limiter can't ask for it. These tests hold what is wrong today. Issue 18 ("one
// spine, one engine, one edge") turns them round; each says what is right then.

// programs open the stores of programs, on servers of their own.
var programs = map[string]func(t *testing.T) (weir.Store, func(os.Signal)){
	"redis": func(t *testing.T) (weir.Store, func(os.Signal)) {
		server := redistest.Start(t, "timeout", "0")
		store, err := redisstore.Open("redis://" + server.Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() }) // its server may be gone
		return store, func(s os.Signal) { server.Signal(t, s) }
	},
	"memcached": func(t *testing.T) (weir.Store, func(os.Signal)) {
		server := memcachedtest.Start(t, "-m", "8")
		store, err := memcachestore.Open("memcached://"+server.Addr, memcachestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		return store, func(s os.Signal) { server.Signal(t, s) }
	},
}

const programRules = `domain: d
descriptors:
  - {key: open, limits: [5/day], fallback: open}
  - {key: synced, limits: [100000/s], sync: 100ms}
`

// programLimiter asks the rules of a file, and question is an event of a key of theirs.
func programLimiter(t *testing.T, store weir.Store) *rules.Limiter {
	t.Helper()
	set, err := rules.Parse("f", []byte(programRules))
	if err != nil {
		t.Fatal(err)
	}
	// Right: the rules are refused, if the store really has no fallback and no sync.
	if err := set.Fits(store.Traits()); err != nil {
		t.Fatal(err)
	}
	return rules.NewLimiter(store, set)
}

func question(key string) *rules.Request {
	return &rules.Request{Domain: "d", Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: key, Value: "v"}}, Cost: 1}}}
}

// TestProgramsHaveNoFallback: with its store frozen, a program waits for all the time of
// its caller, and fails: `fallback: open` is ignored without a word. Right, with issue 18
// ("one spine, one engine, one edge"): the rule lets pass, says that it did, and takes
// no longer than a call to the store may.
func TestProgramsHaveNoFallback(t *testing.T) {
	for name, open := range programs {
		t.Run(name, func(t *testing.T) {
			store, signal := open(t)
			l := programLimiter(t, store)
			for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
				if _, err := l.Check(t.Context(), question("open")); err == nil {
					break
				} else if time.Now().After(end) {
					t.Fatal(err)
				}
			}
			signal(syscall.SIGSTOP)
			defer signal(syscall.SIGCONT)
			for range 2 * guard.Enough { // right: after so many nobody waits any more
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				a, err := l.Check(ctx, question("open"))
				cancel()
				if !errors.Is(err, context.DeadlineExceeded) { // right: err is nil, and a is allowed by weir.FallbackOpen
					t.Errorf("%+v, %v: if this is right, turn the test round", a, err)
				}
			}
		})
	}
}

// TestProgramsHaveNoSync: each take of a rule with sync goes to the store of a program.
// Right, with issue 18 ("one spine, one engine, one edge"): nearly all are decided at home.
func TestProgramsHaveNoSync(t *testing.T) {
	server := redistest.Start(t, "timeout", "0")
	store, err := redisstore.Open("redis://" + server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() }) // its server may be gone
	l := programLimiter(t, store)
	const takes = 200
	for n, end := 0, time.Now().Add(10*time.Second); n < takes; {
		if _, err := l.Check(t.Context(), question("synced")); err == nil {
			n++
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if n := store.Stats().Takes; n < takes { // right: a few
		t.Errorf("%d of %d takes went to Redis: if this is right, turn the test round", n, takes)
	}
}
