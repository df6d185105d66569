// Command http measures what middleware adds to a request that passes, in one run:
// Weir's beside others, all of which tell the client of the limit: make bench-http.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-limit/weir/bench/internal/table"
)

const (
	maxAdded  = 400 // nanoseconds of a processor
	maxAllocs = 2
	clients   = 10_000
	batch     = 20_000 // requests that are measured at a time
)

// costs are what a request costs behind one subject, by round.
type costs struct {
	nanoseconds []float64
	allocs      []float64
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object")
	short := flag.Bool("short", false, "measure 5 times instead of 41")
	flag.Parse()
	rounds := 41
	if *short {
		rounds = 5
	}
	t, err := run(rounds)
	if err == nil {
		err = t.Print(os.Stdout, *asJSON)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "http:", err)
		os.Exit(1)
	}
}

// run measures all subjects by turns.
func run(rounds int) (*table.Table, error) {
	all, err := subjects()
	if err != nil {
		return nil, err
	}
	by := map[string]*costs{}
	for _, s := range all {
		by[s.name] = &costs{}
		measure(s.handler, requests(s.peer), &costs{}) // all clients are known from here on
	}
	for range rounds {
		for _, s := range all {
			measure(s.handler, requests(s.peer), by[s.name])
		}
	}
	return report(all, by), nil
}

func report(all []subject, by map[string]*costs) *table.Table {
	t := table.New("ns", "", "allocations")
	bare, rival := by[all[0].name], by[httprateName]
	added := func(c *costs) []float64 {
		var ns []float64
		for i := range c.nanoseconds {
			ns = append(ns, c.nanoseconds[i]-bare.nanoseconds[i])
		}
		return ns
	}
	for _, s := range all[1:] {
		ns, allocs := added(by[s.name]), by[s.name].allocs
		row := table.Row{What: s.name, Weir: table.Spread(ns, ""), Measured: fmt.Sprintf("%.0f", table.Median(allocs))}
		if s.target {
			row.Target, row.Verdict = fmt.Sprintf("≤ %d, ≤ %d, less than httprate", maxAdded, maxAllocs), "MISS"
			if table.Median(ns) <= maxAdded && table.Median(allocs) <= maxAllocs+0.01 && table.Median(ns) < table.Median(added(rival)) {
				row.Verdict = "pass"
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// nowhere is a response that nobody reads.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(int)             {}

// measure adds what a request costs in time that this thread was on a processor,
// which others on the machine do not add to, and in pieces of memory.
func measure(h http.Handler, requests []*http.Request, c *costs) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w := &nowhere{http.Header{}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := onProcessor()
	for i := range batch {
		clear(w.header)
		h.ServeHTTP(w, requests[i%len(requests)])
	}
	spent := onProcessor() - begin
	runtime.ReadMemStats(&after)
	c.nanoseconds = append(c.nanoseconds, float64(spent)/batch)
	c.allocs = append(c.allocs, float64(after.Mallocs-before.Mallocs)/batch)
}

func onProcessor() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err) // Linux always has it
	}
	return time.Duration(ts.Nano())
}
