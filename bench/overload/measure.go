//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/weir-limit/weir/bench/internal/load"
	"github.com/weir-limit/weir/bench/internal/server"
	"github.com/weir-limit/weir/bench/internal/table"
)

// overloading offers a server more than it can do.
type overloading struct {
	server *server.Process
	out    io.Writer
	times  float64
	rounds int
	last   time.Duration
	lines  []line
}

// line is what came of one load, by round.
type line struct {
	group *group
	open  load.Open
	of    []sample
}

// can is what a closed loop gets of a door.
type can struct {
	rate float64 // calls per second
	cost float64 // of one, in seconds of the server's processor
}

// measure loads a door by turns, closed and open, as the speed of a machine is
// not the same for a minute.
func (o *overloading) measure(g group) error {
	best, most := g.inFlight[0], 0.0
	for _, n := range g.inFlight {
		c, err := o.can(g, n, o.last/4)
		if err != nil {
			return err
		}
		if c.rate > most {
			best, most = n, c.rate
		}
	}
	lines := make([]line, len(g.open))
	for range o.rounds {
		can, err := o.can(g, best, o.last/2)
		if err != nil {
			return err
		}
		for i, open := range g.open {
			open.Rate, open.Last = o.times*can.rate, o.last
			s, err := o.offer(g, can, open)
			if err != nil {
				return err
			}
			lines[i] = line{&g, open, append(lines[i].of, s)}
		}
	}
	o.lines = append(o.lines, lines...)
	return nil
}

func (o *overloading) can(g group, inFlight int, last time.Duration) (can, error) {
	var used func() server.Usage
	r, err := g.closed(inFlight, last, func() { used = server.Use(o.server) })
	if err != nil {
		return can{}, err
	}
	return can{r.Rate(), used().Server / r.Rate()}, nil
}

// sample is the numbers of a line in one round, in the order of columns.
type sample []float64

// columns are what a line says after who asks.
func columns() []struct{ name, form string } {
	return []struct{ name, form string }{
		{"can do", "%.0f/s"},
		{"a call", "%.1f µs"},
		{"offered", "%.0f/s"},
		{"in time", "%.0f/s"},
		{"of what it can", "%.0f %%"},
		{"by its time", "%.0f %%"},
		{"p50", "%.1f ms"},
		{"p99", "%.1f ms"},
		{"late", "%.0f/s"},
		{"refused", "%.0f/s"},
		{"after p50", "%.1f ms"},
		{"unsent", "%.0f/s"},
		{"unanswered", "%.0f/s"},
		{"opened again", "%.0f/s"},
		{"processors: server", "%.2f"},
		{"generator", "%.2f"},
		{"others", "%.2f"},
		{"health after", "%.0f ms"},
		{"unhealthy", "%.0f"},
	}
}

// The columns that the page has.
const (
	capacity = 0
	offered  = 2
	ratio    = 4
	p50      = 6
	p99      = 7
)

// offer runs an open load.
func (o *overloading) offer(g group, can can, l load.Open) (sample, error) {
	var used func() server.Usage
	l.Counting = func() { used = server.Use(o.server) }
	health := watch(o.server)
	t, err := g.run(&l)
	if err != nil {
		return nil, err
	}
	u := used()
	slowest, failed := health()
	slices.Sort(t.Latencies)
	slices.Sort(t.Refusal)
	rate := func(n int64) float64 { return float64(n) / t.Took.Seconds() }
	if err := o.calm(); err != nil {
		return nil, err
	}
	return sample{
		can.rate, 1e6 * can.cost, rate(t.Offered), t.Rate(), 100 * t.Rate() / can.rate, 100 * t.Rate() * can.cost / u.Server,
		quantile(t.Latencies, 0.5), quantile(t.Latencies, 0.99), rate(t.Late), rate(t.Refused), quantile(t.Refusal, 0.5),
		rate(t.Unsent), rate(t.Expired), rate(t.Dialled), u.Server, u.Own, u.Others, milli(slowest), float64(failed),
	}, nil
}

// calm waits until calls that were given up are gone, and what was done against
// them, too.
func (o *overloading) calm() error {
	for range 100 {
		time.Sleep(100 * time.Millisecond)
		text, err := load.Get(o.server.Addresses["admin"], "/metrics")
		if err == nil && bytes.Contains(text, []byte("weir_in_flight_limit{listener=\"http\"} 0\n")) {
			return nil
		}
	}
	return errors.New("the server holds to a limit of HTTP connections after 10 s without any")
}

// print writes the table of docs/performance.md, and then the median of each number.
func (o *overloading) print() error {
	var rows [][]string
	for _, l := range o.lines {
		inTime := l.column(ratio)
		told := fmt.Sprintf("%.0f %% (%.0f…%.0f)", table.Median(inTime), slices.Min(inTime), slices.Max(inTime))
		// Clients that queue until the deadline are in the table to show what comes of it.
		met := l.open.Patience > fails || table.Median(inTime) >= goal
		rows = append(rows, []string{
			l.group.door, fmt.Sprint(l.open.Connections), fmt.Sprintf("%v, %v", l.open.Patience, l.open.Rest),
			table.Count(table.Median(l.column(capacity))) + "/s", table.Count(table.Median(l.column(offered))) + "/s",
			table.Goal(told, met), fmt.Sprintf("%.1f, %.1f ms", table.Median(l.column(p50)), table.Median(l.column(p99))),
		})
	}
	head := []string{"", "connections", "patience, rest", "can do", "offered", "in time", "p50, p99"}
	if err := table.Grid(o.out, head, rows); err != nil {
		return err
	}
	fmt.Fprintln(o.out)
	return o.printAll()
}

// goal is how much of what the server can do is to be in time, in percent, for clients that
// fail a call that must wait for longer than this to be sent.
const (
	goal  = 90
	fails = 2 * time.Millisecond
)

// column is a number of all rounds.
func (l *line) column(i int) []float64 {
	var of []float64
	for _, s := range l.of {
		of = append(of, s[i])
	}
	return of
}

func (o *overloading) printAll() error {
	out := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
	fmt.Fprint(out, "door\tconnections\tpatience\trest\t")
	for _, c := range columns() {
		fmt.Fprint(out, c.name, "\t")
	}
	for _, l := range o.lines {
		fmt.Fprintf(out, "\n%s\t%d\t%v\t%v\t", l.group.door, l.open.Connections, l.open.Patience, l.open.Rest)
		for i, c := range columns() {
			fmt.Fprintf(out, c.form+"\t", table.Median(l.column(i)))
		}
	}
	fmt.Fprintln(out)
	return out.Flush()
}

func milli(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return milli(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)])
}

// watch asks for health on the HTTP door and on the admin door, each time on a
// new connection, until it is called; it says how long the slowest answer took,
// and how often none came within a second.
func watch(p *server.Process) func() (slowest time.Duration, failed int) {
	done, ended := make(chan struct{}), make(chan struct{})
	var slowest time.Duration
	failed := 0
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
			start := time.Now()
			_, lost := load.Get(p.Addresses["http"], "/healthz")
			_, none := load.Get(p.Addresses["admin"], "/debug/pprof/cmdline")
			if lost != nil || none != nil {
				failed++
			}
			slowest = max(slowest, time.Since(start))
		}
	}()
	return func() (time.Duration, int) {
		close(done)
		<-ended
		return slowest, failed
	}
}
