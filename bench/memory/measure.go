package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// keyOf writes the key of a number into b: 16 bytes, most of which differ.
func keyOf(b *[16]byte, n uint64) string {
	binary.LittleEndian.PutUint64(b[:8], n)
	binary.LittleEndian.PutUint64(b[8:], n*0x9e3779b97f4a7c15)
	return unsafe.String(&b[0], len(b)) // no copy for each call
}

// traffic is which keys come, in order: the same for all subjects.
type traffic []uint32

func newTraffic(keys int) traffic {
	t := make(traffic, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	if keys == tenThousand {
		z := rand.NewZipf(r, 1.1, 1, uint64(keys-1))
		for i := range t {
			t[i] = uint32(z.Uint64())
		}
		return t
	}
	for i := range t {
		t[i] = uint32(r.IntN(keys))
	}
	return t
}

// run takes n times, and returns the time that the thread was on a processor,
// which others on the machine do not add to as they do to the time on the wall.
func run(f take, t traffic, from, n int) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var b [16]byte
	begin := onProcessor()
	for i := range n {
		f(keyOf(&b, uint64(t[(from+i)&(len(t)-1)])))
	}
	return onProcessor() - begin
}

func onProcessor() time.Duration {
	var ts unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts))
	return time.Duration(ts.Nano())
}

// costs are measurements of one subject.
type costs struct {
	Name   string  `json:"name"`
	Median float64 `json:"median_ns"`
	Min    float64 `json:"min_ns"`
	Max    float64 `json:"max_ns"`
}

// scenario is one row of the table.
type scenario struct {
	plan

	procs int
}

func (s scenario) String() string {
	what := map[int]string{1: "1 key", tenThousand: "10,000 keys, zipf", million: "1,000,000 keys"}[s.keys]
	outcome, workers := "allow", "1 worker"
	if s.deny {
		outcome = "deny"
	}
	if s.procs > 1 {
		workers = fmt.Sprint(s.procs, " workers")
	}
	return fmt.Sprintf("%s, %s, %s", what, outcome, workers)
}

// batch is how many takes are measured at a time: some milliseconds.
const batch = 1 << 16

// compare measures subjects in one scenario, by turns.
func (s scenario) compare(subjects []subject, rounds int) []costs {
	var takes []func() take
	var out []costs
	for _, sub := range subjects {
		f := sub.takes(s.plan)
		if f == nil {
			continue
		}
		fill(f(), s.keys)
		takes, out = append(takes, f), append(out, costs{Name: sub.name})
	}
	t := newTraffic(s.keys)
	samples := make([][]float64, len(takes))
	runtime.GC()
	for round := range rounds {
		for i, f := range takes {
			samples[i] = append(samples[i], s.sample(f, t, round))
		}
	}
	for i := range out {
		slices.Sort(samples[i])
		out[i].Median, out[i].Min, out[i].Max = samples[i][rounds/2], samples[i][0], samples[i][rounds-1]
	}
	return out
}

// sample is nanoseconds of a processor for each take.
func (s scenario) sample(worker func() take, t traffic, round int) float64 {
	run(worker(), t, round*batch, batch/8) // what others have put out of the caches
	spent := make([]time.Duration, s.procs)
	var wg sync.WaitGroup
	for w := range s.procs {
		f := worker()
		wg.Go(func() { spent[w] = run(f, t, round*batch+w*batch*7, batch) })
	}
	wg.Wait()
	var sum time.Duration
	for _, d := range spent {
		sum += d
	}
	return float64(sum) / float64(batch*s.procs)
}

// fill makes every key known.
func fill(f take, keys int) {
	block := make([][16]byte, keys) // the strings of peers that keep them
	for i := range keys {
		f(keyOf(&block[i], uint64(i)))
	}
}

func note(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
