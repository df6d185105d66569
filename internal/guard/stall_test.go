package guard_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
)

// TestStalls: a store that stands still for 120 ms each half second lets pass what the
// limit does, and no more.
func TestStalls(t *testing.T) {
	for _, text := range []string{"100/s", "100/s burst 20", "100/s fixed-window", "100/s sliding-window", "100/s sliding-log", "1000/min", "500/min fixed-window"} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				store.delay.Store(int64(300 * time.Microsecond))
				g := guard.New(store, guard.Options{})
				began := time.Now()
				passed, local := int64(0), 0
				for time.Since(began) < 15*time.Second {
					delay := 300 * time.Microsecond
					if at := time.Since(began) % (500 * time.Millisecond); at >= 380*time.Millisecond {
						delay = 500*time.Millisecond - at
					}
					store.delay.Store(int64(delay))
					d := take(t, g, ask(text, weir.FallbackLocal))
					if d.Outcome == weir.Allowed {
						passed++
					}
					if d.Degraded != "" {
						local++
					}
					time.Sleep(time.Millisecond)
				}
				time.Sleep(time.Second) // who looks for the store ends
				most := weir.MustParseLimit(text).Bound(15*time.Second, 1)
				if passed > most || local < 1000 {
					t.Errorf("%d passed of %d, %d takes were decided here", passed, most, local)
				}
				if passed < most/2 {
					t.Errorf("only %d passed of %d", passed, most)
				}
			})
		})
	}
}

// TestGoesOn: what is left of a key when the store goes away is what is left here, of
// all nodes together; and a key that was used up stays so.
func TestGoesOn(t *testing.T) {
	for _, c := range []struct {
		limit       string
		used, nodes int
		rest        time.Duration
		passes      int64 // then
	}{
		{"100/day fixed-window", 100, 1, 0, 0},
		{"100/day fixed-window", 60, 1, 0, 40},
		{"100/day fixed-window", 60, 3, 0, 13},
		{"100/day", 100, 1, 0, 0},
		{"100/day sliding-log", 70, 1, time.Hour, 30},
		{"100/day sliding-window", 70, 1, time.Hour, 30},
		{"60/min", 60, 1, 10 * time.Second, 10},
		{"60/min", 60, 2, 10 * time.Second, 5},
		{"60/min leaky-queue queue 5", 6, 1, time.Hour, 6},
		{"2 concurrent ttl 1h", 2, 1, 0, 2}, // permits are not known here
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				g := guard.New(store, guard.Options{})
				asks := ask(c.limit, weir.FallbackLocal)
				asks[0].Policy.Nodes, asks[0].Receipt = c.nodes, 1
				for range c.used {
					asks[0].Receipt++
					if d := take(t, g, asks); d.Outcome != weir.Allowed || d.Degraded != "" {
						t.Fatalf("%+v", d)
					}
				}
				store.broken.Store(&errRefused)
				time.Sleep(c.rest)
				passed := int64(0)
				for range 200 {
					asks[0].Receipt++
					if d := take(t, g, asks); d.Outcome == weir.Allowed {
						passed++
					}
				}
				if passed != c.passes {
					t.Errorf("%d passed while the store was away, want %d", passed, c.passes)
				}
			})
		})
	}
}

// TestGoesOnThroughEdits: what the store said by one limit is what counts here for the
// limits that come after it, also when the first is back, and after it was asked by them.
func TestGoesOnThroughEdits(t *testing.T) {
	type step struct {
		away   bool
		count  int
		takes  int
		passed int
	}
	for name, steps := range map[string][]step{
		"lowered away":                {{false, 100, 90, 90}, {true, 10, 200, 0}},
		"lowered away and restored":   {{false, 100, 90, 90}, {true, 10, 200, 0}, {true, 100, 200, 10}},
		"lowered there, restored":     {{false, 100, 90, 90}, {false, 10, 1, 0}, {true, 100, 200, 10}},
		"away, back, away, restored":  {{false, 100, 90, 90}, {true, 10, 1, 0}, {false, 10, 1, 0}, {true, 100, 200, 10}},
		"used here, lowered there":    {{false, 100, 50, 50}, {true, 100, 40, 40}, {false, 10, 1, 0}, {true, 100, 200, 10}},
		"raised away":                 {{false, 10, 4, 4}, {true, 100, 200, 96}},
		"raised there, lowered, back": {{false, 10, 4, 4}, {false, 100, 50, 50}, {true, 10, 9, 0}, {true, 100, 200, 46}},
	} {
		for _, text := range []string{"%d/day fixed-window", "%d/day", "%d/day sliding-log", "%d/day sliding-window"} {
			t.Run(fmt.Sprintf(text+" "+name, 0), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newRemote()
					g := guard.New(store, guard.Options{})
					for i, step := range steps {
						store.broken.Store(nil)
						if step.away {
							store.broken.Store(&errRefused)
						} else if i > 0 {
							comeBack(t, g)
						}
						asks, passed := ask(fmt.Sprintf(text, step.count), weir.FallbackLocal), 0
						for range step.takes {
							d := take(t, g, asks)
							if d.Outcome == weir.Allowed {
								passed++
							}
							if (d.Degraded != "") != step.away {
								t.Fatalf("step %d: %+v", i, d)
							}
						}
						if passed != step.passed {
							t.Errorf("step %d, by %s: %d passed, want %d", i, asks[0].Limit, passed, step.passed)
						}
					}
				})
			})
		}
	}
}

// TestGoesOnAfterShorter: what the store lets pass by a limit of a minute counts by that of
// a day, too, when that is back while the store is away.
func TestGoesOnAfterShorter(t *testing.T) {
	for _, text := range []string{"100/day fixed-window", "100/day", "100/day sliding-log", "100/day sliding-window"} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newRemote()
				g := guard.New(store, guard.Options{})
				use := func(text string, takes int) (passed int) {
					for range takes {
						if take(t, g, ask(text, weir.FallbackLocal)).Outcome == weir.Allowed {
							passed++
						}
					}
					return passed
				}
				passed := use(text, 80)
				for range 2 {
					time.Sleep(2 * time.Minute)
					passed += use("10/min fixed-window", 20)
				}
				store.broken.Store(&errRefused)
				use("10/min fixed-window", 1)
				if passed += use(text, 100); passed < 80 || passed > 100 {
					t.Errorf("%d passed of %s", passed, text)
				}
			})
		})
	}
}

// comeBack waits until the guard knows that its store is there.
func comeBack(t *testing.T, g *guard.Guard) {
	t.Helper()
	seek := ask("1000000/s", weir.FallbackOpen)
	seek[0].State.Rule = "seek"
	for range 20 {
		if take(t, g, seek).Degraded == "" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the store does not come back")
}

// TestToldWhenBack: what passed here is told to the store when it is back, whoever asks
// for the keys next.
func TestToldWhenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRemote()
		one, other := guard.New(store, guard.Options{}), guard.New(store, guard.Options{})
		const keys = 200
		passed := map[string]int{}
		use := func(g *guard.Guard, events int) {
			for n := range keys * events {
				asks := ask("10/day", weir.FallbackLocal)
				asks[0].State.Key, asks[0].Policy.Nodes = fmt.Sprint(n%keys), 2
				if take(t, g, asks).Outcome == weir.Allowed {
					passed[asks[0].State.Key]++
				}
			}
		}
		use(one, 2)
		store.broken.Store(&errRefused)
		use(one, 10)
		store.broken.Store(nil)
		time.Sleep(time.Second)
		seek := ask("1000000/s", weir.FallbackOpen)
		take(t, one, seek) // has the store asked whether it is back
		synctest.Wait()
		time.Sleep(time.Second)
		if s := one.Stats(); s.Unreported != 0 {
			t.Errorf("%+v", s)
		}
		use(other, 10)
		for key, n := range passed {
			if n > 10 {
				t.Errorf("key %s: %d passed of 10", key, n)
			}
		}
	})
}

// TestMaxSaid: beyond a bound, what the store said is forgotten, and counted: first of
// what is over first.
func TestMaxSaid(t *testing.T) {
	store := newRemote()
	g := guard.New(store, guard.Options{})
	used := ask("10/day fixed-window", weir.FallbackLocal)
	used[0].State.Key, used[0].Cost = "used up", 10
	take(t, g, used)
	const most, more = 1 << 16, 1 << 12
	asks := ask("10/s", weir.FallbackLocal)
	for n := range most + more {
		asks[0].State.Key = fmt.Sprint(n)
		take(t, g, asks)
	}
	if s := g.Stats(); s.Dropped+s.Local < more || s.Dropped > more+most/4 {
		t.Errorf("%+v after %d keys", s, most+more)
	}
	store.broken.Store(&errRefused)
	if d := take(t, g, used); d.Outcome != weir.Denied || d.Degraded == "" {
		t.Errorf("a key that was used up for the day: %+v", d)
	}
}

// TestOutages: however a store stands still, refuses and comes back, one process lets
// pass in no time more than the limit promises for it. Not of a leaky-queue: its slots here
// are up to one apart from those there.
func TestOutages(t *testing.T) {
	limits := []string{
		"20/s", "20/s burst 5", "40/2s strict", "20/s fixed-window", "30/2s sliding-window", "20/s sliding-log",
		"60/min fixed-window", "300/day", "30/2s sliding-window 4 conservative",
	}
	for seed := range uint64(60) {
		text := limits[seed%uint64(len(limits))]
		t.Run(fmt.Sprintf("%d %s", seed, text), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { outages(t, text, rand.New(rand.NewPCG(seed, 17))) })
		})
	}
}

// outages takes events of one key for 10 s from a store that fails at random.
func outages(t *testing.T, text string, random *rand.Rand) {
	store, limit := newRemote(), weir.MustParseLimit(text)
	store.delay.Store(int64(300 * time.Microsecond))
	g := guard.New(store, guard.Options{})
	began := time.Now()
	var passed []time.Duration
	for time.Since(began) < 10*time.Second {
		time.Sleep(time.Duration(random.IntN(20_000)) * time.Microsecond)
		if random.IntN(40) == 0 {
			d := time.Duration(random.IntN(400)) * time.Millisecond
			if random.IntN(2) == 0 {
				store.broken.Store(&errRefused)
			} else {
				store.delay.Store(int64(max(d, 20*time.Millisecond)))
			}
			time.AfterFunc(d, func() {
				store.broken.Store(nil)
				store.delay.Store(int64(300 * time.Microsecond))
			})
		}
		asks := ask(text, weir.FallbackLocal)
		asks[0].Cost = 1 + random.Int64N(2)
		d := take(t, g, asks) // which is decided at its end, here and there
		at := time.Since(began)
		for range d.Cost {
			if d.Charged {
				passed = append(passed, at)
			}
		}
	}
	time.Sleep(3 * time.Second) // who looks for the store ends
	for i := range passed {
		for j := i; j < len(passed); j++ {
			width := passed[j] - passed[i] + time.Microsecond
			if most := limit.Bound(width, 2); int64(j-i+1) > most {
				t.Fatalf("%d passed of %d from %v to %v", j-i+1, most, passed[i], passed[j])
			}
		}
	}
}
