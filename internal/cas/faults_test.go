package cas

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
)

// stalls keeps answers back until open is closed.
type stalls struct {
	process
	open chan struct{}
}

func (p stalls) Look(ctx context.Context, at string, names []string, cells []Cell) error {
	select {
	case <-p.open:
	case <-ctx.Done():
		return ctx.Err()
	}
	return p.process.Look(ctx, at, names, cells)
}

func openOn(t testing.TB, c Cells, together bool) *Engine {
	e := New(Config{
		Package: "cas", Cells: c, MaxValue: 1 << 16, Together: together, NoteMark: "|", Traits: weir.Traits{Unfit: unfit},
		Name: func(k weir.StateKey) string { return fmt.Sprintf("%q:%q", k.Placement(), k.Key) },
	})
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// TestLanesStay: after a time in which the server was slow, about maxLanes lanes are left.
func TestLanesStay(t *testing.T) {
	st := stalls{process{server: newServer()}, make(chan struct{})}
	e := openOn(t, st, true)
	limit := weir.MustParseLimit("10/day")
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for n := range maxWaiting {
		wg.Go(func() {
			var asks []weir.Ask
			for i := range 8 {
				asks = append(asks, weir.Ask{State: weir.StateKey{Rule: "r", Key: fmt.Sprint(n, i)}, Limit: limit, Cost: 1})
			}
			_ = e.Take(ctx, asks, make([]weir.Decision, len(asks)))
		})
	}
	for e.Stats().Waiting < maxWaiting {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond)
	cancel()
	close(st.open)
	wg.Wait()
	time.Sleep(500 * time.Millisecond)
	for n := range 10000 { // newcomers make room
		asks := []weir.Ask{{State: weir.StateKey{Rule: "new", Key: fmt.Sprint(n)}, Limit: limit, Cost: 1}}
		if err := e.Take(t.Context(), asks, make([]weir.Decision, 1)); err != nil {
			t.Fatal(err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.lanes) > maxLanes+maxLanes/10 {
		t.Errorf("%d lanes are left, and about %d were to be", len(e.lanes), maxLanes)
	}
}

// TestRoundsBounded: callers that leave a slow server leave no more rounds than may wait.
func TestRoundsBounded(t *testing.T) {
	st := stalls{process{server: newServer()}, make(chan struct{})}
	e := openOn(t, st, false)
	limit := weir.MustParseLimit("10/day")
	before := runtime.NumGoroutine()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range 4 * maxWaiting {
		_ = e.submit(gone, takeJobOf(limit, n), fmt.Sprint(n)) // joins, and leaves at once
	}
	time.Sleep(100 * time.Millisecond)
	if n := runtime.NumGoroutine() - before; n > maxWaiting+100 {
		t.Errorf("%d goroutines of rounds that nobody waits for, %d lanes, %d jobs wait", n, len(e.lanes), e.Stats().Waiting)
	}
}

func takeJobOf(limit *weir.Limit, n int) *job {
	j, _ := lookJob(weir.Ask{State: weir.StateKey{Rule: "r", Key: fmt.Sprint(n)}, Limit: limit})
	return j
}

func TestBusySpreads(t *testing.T) {
	for _, together := range []bool{false, true} {
		t.Run(fmt.Sprint(together), func(t *testing.T) { busySpreads(t, together) })
	}
}

// busySpreads: a take of an item that no other process touches is not refused because others' items are busy.
func busySpreads(t *testing.T, together bool) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		limit := weir.MustParseLimit("1000000000/day")
		tenant := weir.Ask{State: weir.StateKey{Rule: "tenant", Key: "t"}, Limit: limit, Cost: 1}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var lone, loneBusy, joint, jointBusy atomic.Int64
		for p := range 6 {
			e := open(t, process{server: s, delay: time.Millisecond}, together)
			for w := range 30 {
				wg.Go(func() {
					user := weir.Ask{State: weir.StateKey{Rule: "user", Key: fmt.Sprint(p, w%5)}, Limit: limit, Cost: 1}
					for ctx.Err() == nil {
						asks := []weir.Ask{tenant, user}
						if w >= 20 {
							asks = asks[1:]
						}
						err := e.Take(t.Context(), asks, make([]weir.Decision, len(asks)))
						n, b := &joint, &jointBusy
						if w >= 20 {
							n, b = &lone, &loneBusy
						}
						n.Add(1)
						if errors.Is(err, weir.ErrBusy) {
							b.Add(1)
						} else if err != nil {
							t.Error(err)
						}
						time.Sleep(rand.N(2 * time.Millisecond))
					}
				})
			}
		}
		time.Sleep(3 * time.Second)
		stop()
		wg.Wait()
		t.Logf("joint takes: %d, busy %d", joint.Load(), jointBusy.Load())
		if loneBusy.Load() > 0 {
			t.Errorf("%d of %d takes of a user of this process alone were refused: other processes wrote the count", loneBusy.Load(), lone.Load())
		}
	})
}

func asksOfMany(id uint64, users int, user string) []weir.Ask {
	l := weir.MustParseLimit("1000000/day")
	asks := []weir.Ask{{State: weir.StateKey{Rule: "tenant", Key: "t"}, Limit: l, Cost: 1, Receipt: id, Once: true}}
	for u := range users {
		asks = append(asks, weir.Ask{State: weir.StateKey{Rule: "user", Key: fmt.Sprint(user, u)}, Limit: l, Cost: 1, Receipt: id, Once: true})
	}
	return asks
}

// TestOnceLarge: joint takes with Once, one after the other, over counts that have been used, do not fill the item of the first ask.
func TestOnceLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, process{server: newServer()}, true)
		for id := range uint64(200) {
			asks := asksOfMany(id+1, 63, "u")
			if err := e.Take(t.Context(), asks, make([]weir.Decision, len(asks))); err != nil {
				t.Errorf("take %d: %v", id, err)
				// others of the tenant?
				one := []weir.Ask{{State: asks[0].State, Limit: asks[0].Limit, Cost: 1}}
				t.Log("a plain take of the tenant:", e.Take(t.Context(), one, make([]weir.Decision, 1)))
				break
			}
		}
	})
}

// TestOnceLargeTogether: takes that all pass one after the other pass together, too; and a plain take beside them.
func TestOnceLargeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, process{server: newServer(), delay: 10 * time.Millisecond}, true)
		for range 2 {
			asks := asksOfMany(0, 63, "u")
			if err := e.Take(t.Context(), asks, make([]weir.Decision, len(asks))); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		var failed, plain atomic.Int64
		for id := range uint64(32) {
			wg.Go(func() {
				asks := asksOfMany(id+1, 63, "u")
				if err := e.Take(t.Context(), asks, make([]weir.Decision, len(asks))); err != nil {
					failed.Add(1)
				}
			})
			wg.Go(func() {
				asks := asksOfMany(0, 0, "")
				if err := e.Take(t.Context(), asks, make([]weir.Decision, 1)); err != nil {
					plain.Add(1)
					t.Log(err)
				}
			})
		}
		wg.Wait()
		if failed.Load() > 0 || plain.Load() > 0 {
			t.Errorf("%d of 32 failed, and %d plain ones beside them", failed.Load(), plain.Load())
		}
	})
}

// lined is a server that is asked over two connections, by at, and numbers writes by connection, as
// memcachestore does, but swaps several cells at one moment.
type lined struct{ process }

func lineOf(at string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(at))
	return 1 + h.Sum64()%2
}

func (p lined) Look(ctx context.Context, at string, names []string, cells []Cell) error {
	err := p.process.Look(ctx, at, names, cells)
	for i := range cells {
		if cells[i].Version.Number != 0 {
			cells[i].Version.Epoch = lineOf(at)
		}
	}
	return err
}

func (p lined) Swap(ctx context.Context, at string, swaps []Swap) (bool, error) {
	for i := range swaps {
		if s := &swaps[i]; s.Seen.Number != 0 && s.Seen.Epoch != lineOf(at) {
			return false, nil
		} else {
			s.Seen.Epoch = 0
		}
	}
	ok, err := p.process.Swap(ctx, at, swaps)
	for i := range swaps {
		swaps[i].Version.Epoch = lineOf(at)
	}
	return ok, err
}

// TestAt: nobody else writes, and a take of two items, of which the first is only looked at, passes.
func TestAt(t *testing.T) {
	for n := range 20 {
		e := openOn(t, lined{process{server: newServer()}}, true)
		limit := weir.MustParseLimit("10/day")
		a := weir.Ask{State: weir.StateKey{Rule: "a", Key: fmt.Sprint(n)}, Limit: limit, Cost: 1, Peek: true}
		b := weir.Ask{State: weir.StateKey{Rule: "b", Key: fmt.Sprint(n)}, Limit: limit, Cost: 1}
		for range 2 {
			if err := e.Take(t.Context(), []weir.Ask{a, b}, make([]weir.Decision, 2)); err != nil {
				t.Errorf("key %d: %v", n, err)
			}
		}
	}
}

// refuses says that no note was written.
type refuses struct{ process }

func (p refuses) Swap(ctx context.Context, at string, swaps []Swap) (bool, error) {
	if swaps[0].Any {
		return false, nil
	}
	return p.process.Swap(ctx, at, swaps)
}

// TestSpillRefused: notes that could not be written elsewhere stay.
func TestSpillRefused(t *testing.T) {
	e := openOn(t, refuses{process{server: newServer()}}, false)
	limit := weir.MustParseLimit("1000/day fixed-window")
	var first weir.Settlement
	for id := range uint64(100) {
		out := make([]weir.Decision, 1)
		if err := e.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limit, Cost: 1, Receipt: id + 1}}, out); err != nil {
			t.Log(err)
			break
		}
		st := weir.Settlement{Receipt: out[0].Receipt, Used: 1}
		if id == 0 {
			first = st
		}
		if err := e.Settle(t.Context(), []weir.Settlement{st}); err != nil {
			t.Log(err)
			break
		}
	}
	first.Used = 0
	if err := e.Settle(t.Context(), []weir.Settlement{first}); !errors.Is(err, weir.ErrSettled) {
		t.Errorf("settled twice: %v", err)
	}
}

// jammed refuses all swaps, and lets its looks see that nobody writes.
type jammed struct {
	process

	until time.Time
	swaps *int
}

func (j jammed) Swap(ctx context.Context, at string, swaps []Swap) (bool, error) {
	if time.Now().Before(j.until) {
		*j.swaps++
		return false, nil
	}
	return j.process.Swap(ctx, at, swaps)
}

// TestJammed: while a write of an item is on its way for long, others of it are tried ever more seldom, and
// are done soon after.
func TestJammed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		swaps := 0
		until := time.Now().Add(10 * time.Second)
		e := openOn(t, jammed{process{server: newServer(), delay: time.Millisecond}, until, &swaps}, false)
		ask := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit("10/day"), Cost: 1}}
		out := make([]weir.Decision, 1)
		if err := e.Take(t.Context(), ask, out); err != nil || out[0].Outcome != weir.Allowed {
			t.Errorf("%+v, %v", out[0], err)
		}
		if late := time.Since(until); swaps > 600 || late > 100*time.Millisecond {
			t.Errorf("%d swaps in 10 s, and it was done after %v more", swaps, late)
		}
	})
}

// TestNotedInVain: notes are looked for only of jobs that the round can decide.
func TestNotedInVain(t *testing.T) {
	e := openOn(t, process{server: newServer()}, true)
	limit := weir.MustParseLimit("10/day")
	once := func(n int) *job { j := takeJobOf(limit, n); j.kind, j.id = noteOnce, uint64(n+1); return j }
	hold := func(name string, v bool) {
		e.mu.Lock()
		if e.lanes[name] == nil {
			e.lanes[name] = &lane{name: name, alone: true}
		}
		e.lanes[name].running = v
		e.mu.Unlock()
	}
	hold("t", true)
	hold("u", true) // one busy user
	_ = e.join(once(0), []string{"t"})
	for n := range 32 {
		_ = e.join(once(n+1), []string{"t", "u"})
	}
	for n := range 20 {
		_ = e.join(once(n+100), []string{"t"})
	}
	hold("t", false)
	e.mu.Lock()
	lanes := e.ready(e.lanes["t"])
	e.mu.Unlock()
	noted := e.noted(lanes)
	if jobs := e.claim(lanes, noted); len(jobs) != 21 {
		t.Errorf("%d notes are looked for, and %d jobs of 21 that could be decided are", len(noted), len(jobs))
	}
}

// bigOne has one cell that holds no count.
type bigOne struct {
	process
	name string
}

func (p bigOne) Look(ctx context.Context, at string, names []string, cells []Cell) error {
	err := p.process.Look(ctx, at, names, cells)
	for i, n := range names {
		if n == p.name {
			cells[i] = Cell{Err: errForeign}
		}
	}
	return err
}

// TestOneBad: one item that can't be read fails only the takes of it.
func TestOneBad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := weir.MustParseLimit("10/day")
		bad := weir.StateKey{Rule: "user", Key: "bad"}
		name := func(k weir.StateKey) string { return fmt.Sprintf("%q:%q", k.Placement(), k.Key) }
		e := openOn(t, bigOne{process{server: newServer(), delay: time.Millisecond}, name(bad)}, true)
		ask := func(r, k string) weir.Ask {
			return weir.Ask{State: weir.StateKey{Rule: r, Key: k}, Limit: limit, Cost: 1}
		}
		done := make(chan error, 3)
		take := func(asks ...weir.Ask) { done <- e.Take(t.Context(), asks, make([]weir.Decision, len(asks))) }
		go take(ask("tenant", "t")) // the lane works, and the others meet
		synctest.Wait()
		go take(ask("tenant", "t"), ask("user", "good"))
		go take(ask("tenant", "t"), ask("user", "bad"))
		failed := 0
		for range 3 {
			if err := <-done; err != nil {
				failed++
				t.Log(err)
			}
		}
		if failed != 1 {
			t.Errorf("%d takes failed, and one item can't be read", failed)
		}
	})
}

// TestOnceBeyond: a store that says Atomic takes Once of all that is of one take.
func TestOnceBeyond(t *testing.T) {
	e := open(t, process{server: newServer()}, true)
	limit := weir.MustParseLimit("10/day")
	var asks []weir.Ask
	for k := range 3 {
		asks = append(asks, weir.Ask{State: weir.StateKey{Rule: "r", Key: fmt.Sprint(k)}, Limit: limit, Cost: 1, Receipt: 7, Once: true})
	}
	if err := e.Take(t.Context(), asks, make([]weir.Decision, 3)); err != nil {
		t.Errorf("Atomic is %v: %v", e.Traits().Atomic, err)
	}
}
