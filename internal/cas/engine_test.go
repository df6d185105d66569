package cas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/storetest"
)

// server is cells that processes share: a map under a lock. It stands for all servers in the tests of
// the engine; the stores test it with theirs.
type server struct {
	mu     sync.Mutex
	cells  map[string]Cell
	writes uint64
	looks  int
	swaps  []int // cells of each that was asked for
}

// process is the server, as one process reaches it.
type process struct {
	*server

	steps    *atomic.Int64 // messages until the process dies; nil: it lives
	delay    time.Duration // of each answer, half of it drawn
	together bool          // it reads and writes all at one moment
}

var errDead = errors.New("the process is dead")

func (p process) step() error {
	if p.steps != nil && p.steps.Add(-1) < 0 {
		return errDead
	}
	return nil
}

func (p process) Look(_ context.Context, _ string, names []string, cells []Cell) error {
	if err := p.step(); err != nil {
		return err
	}
	time.Sleep(p.delay/2 + rand.N(p.delay/2+1))
	p.mu.Lock()
	p.looks++
	p.mu.Unlock()
	if p.together {
		p.read(names, cells)
		return p.step()
	}
	p.read(names[:1], cells)
	for i := len(names) - 1; i > 0; i-- { // in no order that the engine could rely on
		p.read(names[i:i+1], cells[i:])
	}
	return p.step()
}

// read reads cells at one moment.
func (p process) read(names []string, cells []Cell) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, name := range names {
		cells[i] = p.cells[name]
	}
}

func (p process) Swap(_ context.Context, _ string, swaps []Swap) (bool, error) {
	if err := p.step(); err != nil {
		return false, err
	}
	time.Sleep(p.delay/2 + rand.N(p.delay/2+1))
	written := p.swap(swaps)
	return written, p.step()
}

func (p process) swap(swaps []Swap) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server.swaps = append(p.server.swaps, len(swaps))
	for _, w := range swaps {
		if !w.Any && p.cells[w.Name].Version != w.Seen {
			return false
		}
	}
	for i, w := range swaps {
		p.writes++
		swaps[i].Version, swaps[i].Life = Version{Number: p.writes}, w.Keep
		p.cells[w.Name] = Cell{Value: w.Value, Version: swaps[i].Version}
	}
	return true
}

func (process) Where(string) string               { return "the server" }
func (process) Explain(_ string, err error) error { return fmt.Errorf("nothing was decided: %w", err) }
func (process) Close()                            {}

func open(t testing.TB, p process, together bool) *Engine {
	p.together = together
	e := New(Config{
		Package: "cas", Cells: p, MaxValue: 1 << 16, Together: together, NoteMark: "|",
		Traits: weir.Traits{Shared: true, Atomic: together, Evidence: true, Unfit: unfit},
		Name:   func(k weir.StateKey) string { return fmt.Sprintf("%q:%q", k.Placement(), k.Key) },
	})
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// unfit refuses what no record of a count can hold.
func unfit(l *weir.Limit) string {
	if l.Spec().Algorithm == weir.WarmUp {
		return "warm-up works in memory only"
	}
	return ""
}

func newServer() *server { return &server{cells: map[string]Cell{}} }

// timed is an engine whose time is the test's. It is for one goroutine.
type timed struct{ *Engine }

func (s timed) at(now weir.Instant) { s.At(func() weir.Instant { return now }, time.Hour) }

func (s timed) TakeAt(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	s.at(now)
	return s.Take(context.Background(), asks, out)
}

func (s timed) SettleAt(now weir.Instant, settlements []weir.Settlement) error {
	s.at(now)
	return s.Settle(context.Background(), settlements)
}

func (s timed) ResetAt(now weir.Instant, keys []weir.StateKey) error {
	s.at(now)
	return s.Reset(context.Background(), keys)
}

// TestStore holds the engine to the contract of stores, with and without swaps of several items.
func TestStore(t *testing.T) {
	for _, together := range []bool{false, true} {
		t.Run(fmt.Sprint(together), func(t *testing.T) {
			servers := map[string]*server{}
			of := func(name string) *server {
				if servers[name] == nil {
					servers[name] = newServer()
				}
				return servers[name]
			}
			storetest.Run(t, "../../testdata/vectors", func(t testing.TB, name string) storetest.Clocked {
				return timed{open(t, process{server: of(name)}, together)}
			}, storetest.Options{
				Immortal: func(testing.TB) []string { return nil },
				Dying: func(t testing.TB, name string, steps int) storetest.Clocked {
					left := new(atomic.Int64)
					left.Store(int64(steps))
					return timed{open(t, process{server: of(name), steps: left}, together)}
				},
			})
		})
	}
}

// TestTogether: takes of a tenant and a user each, and of one of the two, by several processes at a time,
// pass no more than either limit and all of what both let, and each is answered.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		tenant, user := weir.MustParseLimit("600/day fixed-window"), weir.MustParseLimit("20/day fixed-window")
		var passed, tenants atomic.Int64
		users := [40]atomic.Int64{}
		var wg sync.WaitGroup
		for range 3 {
			e := open(t, process{server: s, delay: time.Millisecond}, true)
			for worker := range 40 {
				wg.Go(func() {
					for n := range 30 {
						u := (worker*7 + n) % len(users)
						asks := []weir.Ask{
							{State: weir.StateKey{Rule: "tenant", Key: "t"}, Limit: tenant, Cost: 1},
							{State: weir.StateKey{Rule: "user", Key: fmt.Sprint(u)}, Limit: user, Cost: 1},
						}
						switch worker % 4 {
						case 0:
							asks[0], asks[1] = asks[1], asks[0]
						case 1:
							asks = asks[:1+n%2]
						}
						out := make([]weir.Decision, len(asks))
						err := e.Take(t.Context(), asks, out)
						if err != nil && !errors.Is(err, weir.ErrBusy) {
							t.Error(err)
						}
						for i := range asks {
							if !out[i].Charged {
								continue
							}
							passed.Add(1)
							if asks[i].State.Rule == "tenant" {
								tenants.Add(1)
							} else {
								users[u].Add(1)
							}
						}
					}
				})
			}
		}
		wg.Wait()
		if tenants.Load() != 600 {
			t.Errorf("%d of the tenant passed, want 600", tenants.Load())
		}
		for u := range users {
			if n := users[u].Load(); n > 20 {
				t.Errorf("%d of user %d passed, want 20 at most", n, u)
			}
		}
		check := open(t, process{server: s}, true)
		for u := range users {
			out := make([]weir.Decision, 1)
			err := check.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "user", Key: fmt.Sprint(u)}, Limit: user}}, out)
			if n := out[0].Remaining; err != nil || n != 20-users[u].Load() {
				t.Errorf("%d remain of user %d, of whom %d passed: %v", n, u, users[u].Load(), err)
			}
		}
	})
}

// TestRounds: whatever items jobs are of, and whoever leaves, each job that stays is done, over all of
// its items, and in the end all lanes are at rest. No swap of one process is refused by another of its own.
func TestRounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		count := rapid.IntRange(1, 60).Draw(rt, "jobs")
		sets := make([][]string, count)
		for i := range sets {
			n := rapid.IntRange(1, 4).Draw(rt, "items")
			names := rapid.Permutation([]string{"a", "b", "c", "d", "e", "f"}).Draw(rt, "names")
			sets[i] = names[:n]
		}
		impatient := rapid.SliceOfN(rapid.IntRange(0, 9), count, count).Draw(rt, "impatient")
		synctest.Test(t, func(t *testing.T) {
			e := open(t, process{server: newServer(), delay: 10 * time.Millisecond}, true)
			var mu sync.Mutex
			var wg sync.WaitGroup
			done := 0
			for i, names := range sets {
				j := &job{done: make(chan struct{})}
				j.apply = func(_ weir.Instant, items []*item) error {
					mu.Lock()
					defer mu.Unlock()
					if len(items) != len(names) {
						t.Errorf("%d items for %v", len(items), names)
					}
					for _, it := range items {
						it.changed = true
					}
					return nil
				}
				wg.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if impatient[i] == 0 {
						time.AfterFunc(time.Duration(rand.IntN(30))*time.Millisecond, cancel)
					}
					err := e.submit(ctx, j, names...)
					mu.Lock()
					defer mu.Unlock()
					done++
					if err != nil && impatient[i] != 0 {
						t.Errorf("job %d of %v: %v", i, names, err)
					}
				})
			}
			wg.Wait()
			if done != count || e.Stats().Lost > 0 {
				t.Errorf("%d of %d jobs were done; %d swaps were refused", done, count, e.Stats().Lost)
			}
			time.Sleep(time.Second) // a round whose callers have left goes on
			e.mu.Lock()
			defer e.mu.Unlock()
			for name, l := range e.lanes {
				if l.running || len(l.waiting) > 0 {
					t.Errorf("lane %s is not at rest", name)
				}
			}
		})
	})
}

// TestOneSwap: takes of one tenant and many users that meet share swaps, and a process that is alone need
// not look before.
func TestOneSwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		e := open(t, process{server: s, delay: time.Millisecond}, true)
		limit := weir.MustParseLimit("1000/day")
		take := func() {
			var wg sync.WaitGroup
			for u := range 63 {
				wg.Go(func() {
					asks := []weir.Ask{
						{State: weir.StateKey{Rule: "tenant", Key: "t"}, Limit: limit, Cost: 1},
						{State: weir.StateKey{Rule: "user", Key: fmt.Sprint(u)}, Limit: limit, Cost: 1},
					}
					out := make([]weir.Decision, 2)
					if err := e.Take(t.Context(), asks, out); err != nil || out[1].Outcome != weir.Allowed {
						t.Errorf("%+v, %v", out, err)
					}
				})
			}
			wg.Wait()
		}
		take()
		take()
		if len(s.swaps) > 5 || s.looks > 3 {
			t.Errorf("126 takes took %d looks and swaps of %v cells", s.looks, s.swaps)
		}
	})
}

// TestNoStarvation: a take of two items that are both in use all the time waits for one round of each.
func TestNoStarvation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 10 * time.Millisecond
		e := open(t, process{server: newServer(), delay: delay}, true)
		limit := weir.MustParseLimit("1000000/day")
		asksOf := func(names ...string) []weir.Ask {
			var asks []weir.Ask
			for _, name := range names {
				asks = append(asks, weir.Ask{State: weir.StateKey{Rule: name, Key: "k"}, Limit: limit, Cost: 1})
			}
			return asks
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, of := range [][]weir.Ask{asksOf("a"), asksOf("b"), asksOf("a", "c"), asksOf("c"), asksOf("d", "b")} {
			for range 20 {
				wg.Go(func() {
					for ctx.Err() == nil {
						_ = e.Take(ctx, of, make([]weir.Decision, len(of))) // ends with ctx
						time.Sleep(rand.N(2 * delay))
					}
				})
			}
		}
		for range 50 {
			began := time.Now()
			asks := asksOf("a", "b")
			if err := e.Take(t.Context(), asks, make([]weir.Decision, 2)); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 8*delay {
				t.Errorf("it took %v, and a round takes %v at most", took, 2*delay)
			}
		}
		stop()
		wg.Wait()
	})
}
