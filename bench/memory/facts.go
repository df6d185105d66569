package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	page "github.com/weir-limit/weir/bench/internal/table"
	"github.com/weir-limit/weir/memstore"
)

// fact is a figure that has no peer beside it.
type fact struct {
	What     string `json:"what"`
	Measured string `json:"measured"`
	Target   string `json:"target"`
	Met      bool   `json:"met"`
}

const slow = "1/day burst 1" // keys that stay in use

// facts measures those whose name contains only.
func facts(most, rounds int, only string) []fact {
	var out []fact
	for _, part := range []struct {
		name    string
		measure func() []fact
	}{
		{"growth", func() []fact { return growth(most) }},
		{"collection", func() []fact { return []fact{collection(most)} }},
		{"saving", func() []fact { return []fact{saving(min(most, million))} }},
		{"hot key", func() []fact { return []fact{hotKey()} }},
		{"algorithms", func() []fact { return algorithms(rounds) }},
		{"together", func() []fact { return together(rounds) }},
	} {
		if strings.Contains(part.name, only) || only == "facts" {
			note("%s", part.name)
			out = append(out, part.measure()...)
		}
	}
	return out
}

// count is a number as the page has it.
func count(n int) string { return page.Count(float64(n)) }

// growth asks for new keys one after the other.
func growth(most int) []fact {
	store := memstore.New(memstore.Options{MaxKeys: most})
	f := keep(store, slow)()
	before := heap()
	var worst, at, mill float64
	var b [16]byte
	next := min(100_000, most)
	for n := 0; n < most; {
		for ; n < next; n++ {
			f(keyOf(&b, uint64(n)))
		}
		bytes := float64(heap()-before) / float64(n)
		if bytes > worst {
			worst, at = bytes, float64(n)
		}
		if n >= min(most, million) && mill == 0 {
			mill = bytes
		}
		next = min(next+max(next/20, 1), most)
	}
	slowest, idle := slowest(keep(memstore.New(memstore.Options{MaxKeys: most}), slow)(), most), slowest(func(string) bool { return true }, 2*most)
	out := []fact{
		{"bytes a key, at " + count(min(most, million)), fmt.Sprintf("%.1f", mill), "≤ 40", mill <= 40},
		{"bytes a key, the worst from 100,000 to " + count(most), fmt.Sprintf("%.1f, at %.0f keys", worst, at), "≤ 56", worst <= 56},
		{"slowest take of " + count(most) + " new keys, on a processor", fmt.Sprintf("%v; of a take that does nothing %v", slowest, idle), "≤ 1 ms", slowest <= time.Millisecond},
	}
	for keys := tenThousand; keys <= most; keys *= 10 {
		cost, allocations := newKey(ours, keys)
		least, _ := newKey(floor, keys)
		out = append(out, fact{
			"a new key, growth up to " + count(keys) + " keys included",
			fmt.Sprintf("%.0f ns, %.4f allocations; floor %.0f", cost, allocations, least), "≤ 200 ns", cost <= 200,
		})
	}
	return out
}

// newKey is what each of so many new keys costs, nanoseconds and allocations.
func newKey(s subject, keys int) (cost, allocations float64) {
	runtime.LockOSThread() // whose time is measured
	defer runtime.UnlockOSThread()
	var b [16]byte
	var spent time.Duration
	var allocated uint64
	n := 0
	for n < million {
		debug.FreeOSMemory() // so that all begin with pages that the system has yet to give
		f := s.takes(plan{keys: keys, deny: true})()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		before := m.Mallocs
		begin := onProcessor()
		for i := range keys {
			f(keyOf(&b, uint64(i)))
		}
		spent += onProcessor() - begin
		runtime.ReadMemStats(&m)
		allocated += m.Mallocs - before
		n += keys
	}
	return float64(spent) / float64(n), float64(allocated) / float64(n)
}

// slowest is the longest that a take of a new key was on a processor; on the
// wall it would tell how busy the machine is. Even so other machines take processors away from a
// virtual machine, which a take that does nothing shows.
func slowest(f take, keys int) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var b [16]byte
	var slowest time.Duration
	begin := onProcessor()
	for n := range keys {
		f(keyOf(&b, uint64(n)))
		end := onProcessor()
		slowest = max(slowest, end-begin)
		begin = end
	}
	return slowest
}

func heap() int64 {
	runtime.GC() // twice: what others have left is freed for sure
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// collection compares full garbage collections with an empty and a full store.
func collection(keys int) fact {
	store := memstore.New(memstore.Options{MaxKeys: keys})
	f := keep(store, slow)()
	collect := func() time.Duration {
		var all []time.Duration
		for range 9 {
			begin := time.Now()
			runtime.GC()
			all = append(all, time.Since(begin))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	empty := collect()
	var b [16]byte
	for n := range keys {
		f(keyOf(&b, uint64(n)))
	}
	full := collect() - empty
	runtime.KeepAlive(store)
	return fact{"garbage collection with " + count(keys) + " keys, over an empty table", full.String(), "≤ 10 ms", full <= 10*time.Millisecond}
}

// saving takes while all counts are saved, again and again, and as often while
// they are not.
func saving(keys int) fact {
	dir, err := os.MkdirTemp("", "weir-bench")
	must(err)
	defer func() { must(os.RemoveAll(dir)) }()
	store, err := memstore.Open(filepath.Join(dir, "counts"), memstore.Options{MaxKeys: keys})
	must(err)
	f := keep(store, allow)()
	fill(f, keys)
	t, takes := newTraffic(keys), 0
	ask := func(more func() bool) (over int, slowest time.Duration) {
		var b [16]byte
		begin := time.Now()
		for i := 0; more(); i++ {
			f(keyOf(&b, uint64(t[i&(len(t)-1)])))
			takes = i
			end := time.Now()
			took := end.Sub(begin)
			if slowest = max(slowest, took); took > time.Millisecond {
				over++
			}
			begin = end
		}
		return over, slowest
	}
	var saved atomic.Bool
	go func() {
		for range 10 {
			must(store.Save())
		}
		saved.Store(true)
	}()
	over, slowest := ask(func() bool { return !saved.Load() })
	n, left := takes, takes
	overIdle, slowestIdle := ask(func() bool { left--; return left > 0 })
	return fact{
		"takes over 1 ms on the wall while " + count(keys) + " keys are saved ten times",
		fmt.Sprintf("%d of %s, the slowest %v; while they are not, %d and %v", over, count(n), slowest, overIdle, slowestIdle),
		"none", over <= overIdle,
	}
}

// hotKey lets 64 goroutines ask for one key.
func hotKey() fact {
	store := memstore.New(memstore.Options{})
	limit := weir.MustParseLimit("100000/s burst 1000")
	var passed atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for range 64 {
		wg.Go(func() {
			asks := [1]weir.Ask{{State: weir.StateKey{Rule: "bench", Key: "hot"}, Limit: limit, Cost: 1}}
			var out [1]weir.Decision
			for range 20_000 {
				must(store.Take(context.Background(), asks[:], out[:]))
				if out[0].Charged {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	most := 1000 + int64(time.Since(begin)/(10*time.Microsecond)) + 1
	return fact{"one hot key, 64 goroutines", fmt.Sprintf("%d passed", passed.Load()), fmt.Sprintf("at most %d", most), passed.Load() <= most}
}

// algorithms compares the others with GCRA.
func algorithms(rounds int) []fact {
	texts := []struct {
		text string
		most float64
	}{
		{allow, 1},
		{"1000000000/h fixed-window", 1.5},
		{"1000000000/h sliding-window", 1.5},
		{"1000000000/h sliding-window 12", 1.5},
		{"100/ms sliding-log", 3},
		{"1000000000 concurrent ttl 1us", 1.5},
	}
	var subjects []subject
	for _, t := range texts {
		subjects = append(subjects, subject{name: t.text, workers: func(plan) func() take { return keep(memstore.New(memstore.Options{}), t.text) }})
	}
	var out []fact
	costs := scenario{plan{keys: tenThousand}, 1}.compare(subjects, rounds)
	for i, c := range costs[1:] {
		ratio := c.Median / costs[0].Median
		out = append(out, fact{c.Name + " against GCRA", fmt.Sprintf("%.1f ns, %.2f ×", c.Median, ratio), fmt.Sprintf("≤ %.1f ×", texts[i+1].most), ratio <= texts[i+1].most})
	}
	return out
}

// together compares several limits on a request with one.
func together(rounds int) []fact {
	var subjects []subject
	for _, n := range []int{1, 2, 4} {
		subjects = append(subjects, subject{name: fmt.Sprintf("%d limits", n), workers: func(plan) func() take { return several(n) }})
	}
	costs := scenario{plan{keys: tenThousand}, 1}.compare(subjects, rounds)
	two, four := costs[1].Median/costs[0].Median, costs[2].Median/costs[0].Median
	return []fact{
		{"two limits on a request", fmt.Sprintf("%.1f ns, %.2f ×", costs[1].Median, two), "≤ 1.6 ×", two <= 1.6},
		{"four limits on a request", fmt.Sprintf("%.1f ns, %.2f ×", costs[2].Median, four), "≤ 3 ×", four <= 3},
	}
}

func several(n int) func() take {
	store, limit := memstore.New(memstore.Options{}), weir.MustParseLimit(allow)
	rules := []string{"a", "b", "c", "d"}
	return func() take {
		asks, out := make([]weir.Ask, n), make([]weir.Decision, n)
		for i := range n {
			asks[i] = weir.Ask{State: weir.StateKey{Rule: rules[i]}, Limit: limit, Cost: 1}
		}
		return func(key string) bool {
			for i := range asks {
				asks[i].State.Key = key
			}
			must(store.Take(context.Background(), asks, out))
			return out[0].Charged
		}
	}
}
