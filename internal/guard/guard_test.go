package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/memstore"
)

// remote is a store in memory that is as slow, or as far away, as a test says.
type remote struct {
	*memstore.Store

	takes  atomic.Int64
	delay  atomic.Int64 // nanoseconds; negative: it never answers
	broken atomic.Pointer[error]
}

func newRemote() *remote { return &remote{Store: memstore.New(memstore.Options{})} }

func (r *remote) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	r.takes.Add(1)
	if err := r.reach(ctx); err != nil {
		return err
	}
	return r.Store.Take(ctx, asks, out)
}

func (r *remote) Look(ctx context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	if err := r.reach(ctx); err != nil {
		return 0, nil, err
	}
	return r.Store.Look(ctx, asks)
}

// reach is the way there and back.
func (r *remote) reach(ctx context.Context) error {
	if err := r.broken.Load(); err != nil {
		return *err
	}
	switch d := time.Duration(r.delay.Load()); {
	case d < 0:
		<-ctx.Done()
		return ctx.Err()
	case d > 0:
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func ask(limit string, f weir.Fallback) []weir.Ask {
	return []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit(limit), Cost: 1, Policy: weir.Policy{Fallback: f}}}
}

func take(t *testing.T, s weir.Store, asks []weir.Ask) weir.Decision {
	t.Helper()
	out := make([]weir.Decision, len(asks))
	if err := s.Take(t.Context(), asks, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

var errRefused = errors.New("connection refused")

// TestFallbacks: a store that is away leaves the decision to each limit's
// fallback, which says so.
func TestFallbacks(t *testing.T) {
	store := newRemote()
	store.broken.Store(&errRefused)
	g := guard.New(store, guard.Options{})
	for range 5 {
		if d := take(t, g, ask("1/h", weir.FallbackOpen)); d.Outcome != weir.Allowed || d.Charged || d.Degraded != weir.FallbackOpen {
			t.Errorf("open: %+v", d)
		}
		if d := take(t, g, ask("1000/h", weir.FallbackClosed)); d.Outcome != weir.Denied || d.Degraded != weir.FallbackClosed {
			t.Errorf("closed: %+v", d)
		}
	}
	passed := 0
	for range 10 {
		if d := take(t, g, ask("4/h", "")); d.Outcome == weir.Allowed {
			passed++
			if !d.Charged || d.Degraded != weir.FallbackLocal {
				t.Errorf("local: %+v", d)
			}
		}
	}
	if passed != 4 {
		t.Errorf("local: %d passed of 4", passed)
	}
	asks := ask("9/h", weir.FallbackLocal)
	asks[0].State.Key, asks[0].Policy.Nodes = "shared", 3
	for passed = 0; take(t, g, asks).Outcome == weir.Allowed; passed++ {
	}
	if passed != 3 {
		t.Errorf("a third of 9 is %d", passed)
	}
}

// TestShares: the parts of all nodes together are no more than the limit, or one
// event each.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count, nodes := rapid.Int64Range(1, 50).Draw(t, "count"), rapid.IntRange(1, 12).Draw(t, "nodes")
		text := fmt.Sprintf(rapid.SampledFrom([]string{"%d/h", "%d/h fixed-window", "%d/h sliding-log", "%d concurrent", "%d/h leaky-queue queue 0", "%d/day fixed-window", "%d/week fixed-window zone Europe/Berlin", "%d/day fixed-window anchored", "%d/h strict"}).Draw(t, "limit"), count)
		store := newRemote()
		store.broken.Store(&errRefused)
		total := int64(0)
		for range nodes {
			g := guard.New(store, guard.Options{})
			asks, out := ask(text, weir.FallbackLocal), make([]weir.Decision, 1)
			asks[0].Policy.Nodes = nodes
			for {
				if err := g.Take(context.Background(), asks, out); err != nil {
					t.Fatal(err)
				}
				if out[0].Outcome != weir.Allowed {
					break
				}
				total++
			}
		}
		if total > max(count, int64(nodes)) {
			t.Errorf("%d nodes pass %d of %s", nodes, total, text)
		}
	})
}

// TestClosedTakesNoOther: what a closed limit denies charges no other.
func TestClosedTakesNoOther(t *testing.T) {
	store := newRemote()
	store.broken.Store(&errRefused)
	g := guard.New(store, guard.Options{})
	local, both := ask("2/h", weir.FallbackLocal), append(ask("2/h", weir.FallbackLocal), ask("5/h", weir.FallbackClosed)...)
	both[1].State.Rule = "other"
	for range 5 {
		if d := take(t, g, both); d.Charged {
			t.Errorf("charged: %+v", d)
		}
	}
	if d := take(t, g, local); d.Remaining != 1 {
		t.Errorf("after what was denied: %+v", d)
	}
}

// timeline runs calls at 2,000 a second against a store that is away from 1 s to
// 4 s, and tells what they met.
func timeline(t *testing.T, away func(*remote), back func(*remote)) (missed int, slowest time.Duration, degradedAfter time.Duration, changes []string) {
	t.Helper()
	store := newRemote()
	store.delay.Store(int64(300 * time.Microsecond))
	var mu sync.Mutex
	g := guard.New(store, guard.Options{Changed: func(_ string, err error) {
		mu.Lock()
		defer mu.Unlock()
		changes = append(changes, fmt.Sprint(err))
	}})
	const tick = 500 * time.Microsecond
	start := time.Now()
	done := make(chan struct{})
	calls := 0
	for now := time.Duration(0); now < 6*time.Second; now += tick {
		switch now {
		case time.Second:
			away(store)
		case 4 * time.Second:
			back(store)
		}
		calls++
		go func() {
			began := time.Now()
			d := take(t, g, ask("1000000/s", weir.FallbackOpen))
			took := time.Since(began)
			mu.Lock()
			if slowest = max(slowest, took); took >= 10*time.Millisecond {
				missed++
			}
			if d.Degraded != "" && began.Sub(start) > 4*time.Second {
				degradedAfter = max(degradedAfter, began.Sub(start)-4*time.Second)
			}
			mu.Unlock()
			done <- struct{}{}
		}()
		time.Sleep(tick)
		for len(done) > 0 || calls > 200 {
			<-done
			calls--
		}
	}
	for ; calls > 0; calls-- {
		<-done
	}
	return missed, slowest, degradedAfter, changes
}

// TestTimeline: a store that freezes, or refuses, for three seconds costs few
// calls their deadline, and is used again within a second of its return.
func TestTimeline(t *testing.T) {
	for name, away := range map[string]func(*remote){
		"frozen":  func(r *remote) { r.delay.Store(-1) },
		"refused": func(r *remote) { r.broken.Store(&errRefused) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				missed, slowest, after, changes := timeline(t, away, func(r *remote) {
					r.delay.Store(int64(300 * time.Microsecond))
					r.broken.Store(nil)
				})
				if missed > 10 {
					t.Errorf("%d calls paid the deadline, want at most 10", missed)
				}
				if slowest > 60*time.Millisecond {
					t.Errorf("the slowest call took %v", slowest)
				}
				if after > time.Second {
					t.Errorf("calls fell back until %v after the store's return", after)
				}
				if len(changes) != 2 || changes[1] != "<nil>" {
					t.Errorf("told %q", changes)
				}
			})
		})
	}
}

// TestDeadline: a call takes no more than three quarters of its caller's time.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.delay.Store(-1)
		g := guard.New(store, guard.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Millisecond)
		defer cancel()
		start, out := time.Now(), make([]weir.Decision, 1)
		if err := g.Take(ctx, ask("5/s", weir.FallbackOpen), out); err != nil || out[0].Degraded != weir.FallbackOpen {
			t.Errorf("%+v, %v", out[0], err)
		}
		if took := time.Since(start); took != 6*time.Millisecond {
			t.Errorf("it took %v of 8 ms", took)
		}
	})
}

// TestNobodyGetsALimitTwice: what was used while the store was away is told to it
// when it is back.
func TestNobodyGetsALimitTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		g := guard.New(store, guard.Options{})
		asks := ask("10/h", weir.FallbackLocal)
		passed := 0
		count := func(n int) {
			for range n {
				if take(t, g, asks).Outcome == weir.Allowed {
					passed++
				}
			}
		}
		count(4)
		store.broken.Store(&errRefused)
		count(20)
		if passed != 10 {
			t.Errorf("%d passed with the store away, want 4 and the 6 that were left", passed)
		}
		store.broken.Store(nil)
		time.Sleep(time.Second)
		count(1) // has the store asked whether it is back
		synctest.Wait()
		count(20)
		if passed != 10 {
			t.Errorf("%d passed after the store's return, want no more than the 10 before", passed)
		}
		if left := g.Stats().Unreported; left != 0 {
			t.Errorf("%d keys are unreported", left)
		}
	})
}

// TestWhoLeavesTellsNothing: a caller that leaves while the store is away has not
// brought it back, and one that gives it no time has not sent it away.
func TestWhoLeavesTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		var changes []string
		var mu sync.Mutex
		g := guard.New(store, guard.Options{Changed: func(_ string, away error) {
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, fmt.Sprint(away != nil))
		}})
		store.delay.Store(int64(800 * time.Microsecond))
		for range 2 * guard.Enough {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if err := g.Take(ctx, ask("9/h", weir.FallbackOpen), make([]weir.Decision, 1)); err != nil {
				t.Error(err)
			}
			cancel()
		}
		if g.Stats().Away > 0 {
			t.Error("callers in a hurry have sent the store away")
		}
		store.delay.Store(-1)
		for range guard.Enough {
			take(t, g, ask("9/h", weir.FallbackOpen))
		}
		for range 5 {
			time.Sleep(time.Second)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			_, _, _ = g.Look(ctx, ask("9/h", "")) // it is the probe, and is left
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if g.Stats().Away == 0 || len(changes) != 1 {
			t.Errorf("away %v after changes to %v; want one, and away", g.Stats().Away > 0, changes)
		}
		time.Sleep(time.Second) // who looks for the store gives up
	})
}

// TestOldUsage: what was used in a window that is over is not told to the next one.
func TestOldUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		g := guard.New(store, guard.Options{})
		asks := ask("10/s", weir.FallbackLocal)
		store.broken.Store(&errRefused)
		for range 20 {
			take(t, g, asks)
		}
		store.broken.Store(nil)
		time.Sleep(time.Hour)
		take(t, g, asks) // has the store asked whether it is back
		synctest.Wait()
		time.Sleep(time.Hour)
		if d := take(t, g, asks); d.Outcome != weir.Allowed || d.Remaining != 9 {
			t.Errorf("two hours after it was used: %+v", d)
		}
		if left := g.Stats().Unreported; left != 0 {
			t.Errorf("%d keys are unreported", left)
		}
	})
}

// TestMaxUnreported: beyond a bound, what is used locally is not told, and counted.
func TestMaxUnreported(t *testing.T) {
	store := newRemote()
	store.broken.Store(&errRefused)
	g := guard.New(store, guard.Options{})
	const most, more = 1 << 16, 10
	asks := ask("10/h", weir.FallbackLocal)
	for n := range most + more {
		asks[0].State.Key = fmt.Sprint(n)
		take(t, g, asks)
	}
	if s := g.Stats(); s.Unreported != most || s.Unkept != more {
		t.Errorf("%+v after %d keys", s, most+more)
	}
}

// TestUnusedMakesRoom: beyond that bound, keys that are as never used by now make room.
func TestUnusedMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		store.broken.Store(&errRefused)
		g := guard.New(store, guard.Options{})
		const most = 1 << 16
		asks := ask("10/s", weir.FallbackLocal)
		for n := range most {
			asks[0].State.Key = fmt.Sprint(n)
			take(t, g, asks)
		}
		time.Sleep(time.Second)
		for n := range most / 16 {
			asks[0].State.Key = fmt.Sprint("later ", n)
			take(t, g, asks)
		}
		if s := g.Stats(); s.Unkept != 0 || s.Unreported > most {
			t.Errorf("%+v: keys whose use is over have made no room", s)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Errorf("%v, though all is as never used when it has looked for the store", err)
		}
	})
}

// TestReportsAreCharged: what a fallback let pass is charged though other processes have used up
// the limit meanwhile: it has happened.
func TestReportsAreCharged(t *testing.T) {
	store := newRemote()
	here, there := guard.New(store, guard.Options{Near: true}), ask("10/h fixed-window", weir.FallbackLocal)
	store.broken.Store(&errRefused)
	for range 5 {
		take(t, here, there)
	}
	there[0].Cost = 8
	take(t, store.Store, there)
	store.broken.Store(nil)
	there[0].Cost, there[0].Peek = 1, true
	take(t, here, there)
	_, states, err := store.Store.Look(t.Context(), there)
	if err != nil {
		t.Fatal(err)
	}
	if used := there[0].Limit.Used(states[0], weir.InstantOf(time.Now())); used != 13 {
		t.Errorf("%d events are used in the store, want 8 and 5", used)
	}
}

// TestReportsAreOfWhatIsInUse: the store hears of what is still in use of what was
// used while it was away: not of what was given back, nor of what has drained.
func TestReportsAreOfWhatIsInUse(t *testing.T) {
	for _, c := range []struct {
		limit string
		used  int64 // of the 4 that the receipt is for; 4: it is not settled
		rest  time.Duration
		want  int64 // remaining of 10, after one event more
	}{
		{"10/h", 4, 0, 1},
		{"10/h", 1, 0, 4},
		{"10/h", 0, 0, 5},
		{"10/h", 6, 0, -1}, // more than there is: denied
		{"10/h fixed-window", 1, 0, 4},
		{"10/10s", 4, 5 * time.Second, 7},
		{"10/10s", 1, 3 * time.Second, 8},
		{"10/10s sliding-window", 4, time.Hour, 9},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newRemote()
			g := guard.New(store, guard.Options{})
			store.broken.Store(&errRefused)
			asks := ask(c.limit, weir.FallbackLocal)
			for range 4 {
				take(t, g, asks)
			}
			asks[0].Cost, asks[0].Receipt = 4, 7
			d := take(t, g, asks)
			if c.used != 4 {
				if err := g.Settle(t.Context(), []weir.Settlement{{Receipt: d.Receipt, Used: c.used}}); err != nil {
					t.Fatal(err)
				}
			}
			store.broken.Store(nil)
			time.Sleep(time.Second) // the breaker's time, and a tenth of a period of 10 s
			asks[0].Cost, asks[0].Receipt = 1, 0
			other := ask(c.limit, weir.FallbackOpen)
			other[0].State.Key = "other"
			take(t, g, other) // has the store asked whether it is back
			synctest.Wait()
			time.Sleep(c.rest)
			d = take(t, g, asks)
			if d.Degraded != "" || d.Outcome == weir.Allowed && d.Remaining != c.want || (d.Outcome == weir.Allowed) != (c.want >= 0) {
				t.Errorf("%+v: %+v", c, d)
			}
			if left := g.Stats().Unreported; left != 0 {
				t.Errorf("%+v: %d keys are unreported", c, left)
			}
		})
	}
}

// TestReceiptsOfFallbacks are settled where they were made.
func TestReceiptsOfFallbacks(t *testing.T) {
	store := newRemote()
	store.broken.Store(&errRefused)
	g := guard.New(store, guard.Options{})
	asks := ask("1 concurrent ttl 1h", weir.FallbackLocal)
	asks[0].Receipt = 9
	d := take(t, g, asks)
	if d.Receipt == nil || take(t, g, asks).Outcome != weir.Denied {
		t.Fatalf("%+v", d)
	}
	store.broken.Store(nil)
	if err := g.Settle(t.Context(), []weir.Settlement{{Receipt: d.Receipt}}); err != nil {
		t.Fatal(err)
	}
	if err := g.Settle(t.Context(), []weir.Settlement{{Receipt: d.Receipt}}); !errors.Is(err, weir.ErrSettled) && !errors.Is(err, weir.ErrExpired) {
		t.Errorf("settled twice: %v", err)
	}
}

// remembering is a remote store that has one key's denial by itself.
type remembering struct{ *remote }

func (remembering) TakeLocally(asks []weir.Ask, out []weir.Decision) bool {
	if asks[0].State.Key != "denied" {
		return false
	}
	out[0] = weir.Decision{Outcome: weir.Denied}
	return true
}

// TestRememberedDenialsTellNothing: what the store answers by itself does not make it
// look as if it were there, and needs none that is.
func TestRememberedDenialsTellNothing(t *testing.T) {
	store := remembering{newRemote()}
	store.broken.Store(&errRefused)
	g := guard.New(store, guard.Options{})
	denied := ask("5/h", weir.FallbackOpen)
	denied[0].State.Key = "denied"
	for range 3 {
		take(t, g, ask("5/h", weir.FallbackOpen))
		if d := take(t, g, denied); d.Outcome != weir.Denied || d.Degraded != "" {
			t.Errorf("%+v", d)
		}
	}
	if g.Stats().Away == 0 {
		t.Error("three calls failed, and the store is not away")
	}
	if d := take(t, g, denied); d.Outcome != weir.Denied || d.Degraded != "" || g.Stats().Away == 0 {
		t.Errorf("%+v", d)
	}
}

// unwritable is a store that reads and pings, and refuses to write, as Redis does
// without memory or as a replica.
type unwritable struct{ *remote }

func (u unwritable) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if asks[0].Peek {
		return u.Store.Take(ctx, asks, out)
	}
	return u.remote.Take(ctx, asks, out)
}

func (u unwritable) Look(ctx context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	return u.Store.Look(ctx, asks)
}

// TestUnwritable: a store that only reads is away all the time, and not back with
// each question whether it is.
func TestUnwritable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := unwritable{newRemote()}
		store.broken.Store(&errRefused)
		var changes []string
		g := guard.New(store, guard.Options{Changed: func(_ string, away error) { changes = append(changes, fmt.Sprint(away)) }})
		for n := range 1000 {
			if d := take(t, g, ask("1000000/s", "")); d.Degraded != weir.FallbackLocal {
				t.Fatalf("%d: %+v", n, d)
			}
			if n%100 == 0 {
				g.Contact(t.Context(), func(context.Context, int) error { return nil })
			}
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		if diff := cmp.Diff([]string{errRefused.Error()}, changes); diff != "" {
			t.Error(diff)
		}
		store.broken.Store(nil)
		time.Sleep(time.Second)
		take(t, g, ask("1000000/s", "")) // tries
		synctest.Wait()
		if d := take(t, g, ask("1000000/s", "")); d.Degraded != "" || len(changes) != 2 {
			t.Errorf("%+v, %q", d, changes)
		}
	})
}

// TestNear: a store with deadlines of its own gets the caller's time, and the
// fallback, by the number of nodes, where it fails all the same.
func TestNear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote()
		g := guard.New(r, guard.Options{Near: true, Nodes: func() int { return 4 }})
		asks := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit("8/day"), Cost: 1}}
		out := make([]weir.Decision, 1)
		r.delay.Store(int64(time.Second))
		if err := g.Take(t.Context(), asks, out); err != nil || out[0].Degraded != "" || out[0].Remaining != 7 {
			t.Errorf("it was cut short: %+v, %v", out[0], err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := g.Take(ctx, asks, out); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("beyond the caller's time: %+v, %v", out[0], err)
		}
		busy := weir.ErrBusy
		r.broken.Store(&busy)
		if err := g.Take(t.Context(), asks, out); err != nil || out[0].Degraded != weir.FallbackLocal || out[0].Remaining != 1 {
			t.Errorf("a fourth of 8 less one: %+v, %v", out[0], err)
		}
		r.broken.Store(nil)
		if err := g.Take(t.Context(), asks, out); err != nil || out[0].Degraded != "" || out[0].Remaining != 5 {
			t.Errorf("it was not told of what the fallback let pass: %+v, %v", out[0], err)
		}
	})
}

// halfway is a store that fills in evidence, and then fails.
type halfway struct{ *memstore.Store }

func (h halfway) Take(_ context.Context, asks []weir.Ask, _ []weir.Decision) error {
	asks[0].Evidence.Tell(1, weir.State{1})
	return errRefused
}

// TestFallbackGivesNoEvidence: neither that of its own count, nor that of the try that
// failed.
func TestFallbackGivesNoEvidence(t *testing.T) {
	for _, fallback := range []weir.Fallback{weir.FallbackLocal, weir.FallbackClosed} {
		g := guard.New(halfway{memstore.New(memstore.Options{})}, guard.Options{})
		asks, seen := ask("0/h", fallback), weir.Evidence{Always: true}
		asks[0].Evidence = &seen
		if d := take(t, g, asks); d.Degraded != fallback || d.Outcome == weir.Allowed || seen.Told {
			t.Errorf("%s: %+v tells %+v", fallback, d, seen)
		}
	}
}
