// Command overload offers weir serve five times what it can do and shows what
// comes of it: make bench-overload. The server has one processor, the generator
// the other.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/weir-limit/weir/bench/internal/load"
	"github.com/weir-limit/weir/bench/internal/server"
	"github.com/weir-limit/weir/bench/internal/traffic"
)

// deadline is when Envoy gives up a call, unless it is told otherwise. What is
// answered later is no goodput.
const deadline = 20 * time.Millisecond

func main() {
	times := flag.Float64("times", 5, "how much is offered, of what the server can do")
	weir := flag.String("weir", "../bin/weir", "the daemon's program")
	short := flag.Bool("short", false, "take a fifth of the time")
	flag.Parse()
	if os.Getenv("WEIR_BENCH_PINNED") == "" {
		fail(pinned())
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	last := 5 * time.Second
	if *short {
		last = time.Second
	}
	fail(run(ctx, *weir, *times, last))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "overload:", err)
		os.Exit(1)
	}
}

// pinned runs this program again on the last processor alone.
func pinned() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command("taskset", append([]string{"-c", fmt.Sprint(runtime.NumCPU() - 1), self}, os.Args[1:]...)...)
	cmd.Env = append(os.Environ(), "WEIR_BENCH_PINNED=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

func run(ctx context.Context, weir string, times float64, last time.Duration) error {
	dir, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rules := filepath.Join(dir, "bench.yaml")
	if err := os.WriteFile(rules, []byte(traffic.Rules), 0o600); err != nil {
		return err
	}
	const any = "127.0.0.1:0"
	p, err := server.Start(ctx, 0, []string{"GOMAXPROCS=1"}, weir, "serve", "--rules", rules, "--http", any, "--grpc", any, "--admin", any)
	if err != nil {
		return err
	}
	defer p.Stop()
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "door\tconnections\tpatience\tcan do\ta call\toffered\tin time\tof what it can\tby its time\tp50\tp99\tlate\trefused\tafter p50\tgiven up: unsent\tunanswered\tprocessors: server\tothers\tother doors\t\n")
	defer out.Flush()
	o := overloading{p, out, times, last}
	if err := o.grpc(); err != nil {
		return err
	}
	return o.http()
}

// patience is how long a call waits for a free stream or connection, where it
// does not wait until its deadline.
const patience = 2 * time.Millisecond

// overloading offers a server more than it can do.
type overloading struct {
	server *server.Process
	out    *tabwriter.Writer
	times  float64
	last   time.Duration
}

// can is the most that a closed loop gets of a door.
type can struct {
	rate float64 // calls per second
	cost float64 // of one, in seconds of the server's processor
}

// best tries closed loops.
func (o *overloading) best(inFlight []int, run func(inFlight int, last time.Duration) (*load.Result, error)) (best can, err error) {
	for _, n := range inFlight {
		used := server.Use(o.server)
		r, err := run(n, o.last/5)
		if err != nil {
			return best, err
		}
		if own, _ := used(); r.Rate() > best.rate {
			best = can{r.Rate(), own / r.Rate()}
		}
	}
	return best, nil
}

// grpc measures the gRPC door with few clients and with many, and with clients
// that wait until the deadline.
func (o *overloading) grpc() error {
	bodies, err := traffic.GRPC(3)
	if err != nil {
		return err
	}
	at := o.server.Addresses["grpc"]
	for _, connections := range []int{4, 32, 256} {
		can, err := o.best(slices.Compact([]int{max(64, connections), max(128, connections), 256, 512}), func(n int, last time.Duration) (*load.Result, error) {
			return load.ClosedH2(at, connections, n, bodies, last)
		})
		if err != nil {
			return err
		}
		for _, patience := range []time.Duration{patience, deadline} {
			l := load.Open{Address: at, Connections: connections, Rate: o.times * can.rate, Deadline: deadline, Patience: patience, Bodies: bodies, Last: o.last}
			if err := o.offer("gRPC", can, l, l.H2); err != nil {
				return err
			}
		}
	}
	return nil
}

// http measures the HTTP door.
func (o *overloading) http() error {
	requests := traffic.Check()
	at := o.server.Addresses["http"]
	for _, connections := range []int{256, 2048} {
		can, err := o.best([]int{32, 64, 128, 256}, func(n int, last time.Duration) (*load.Result, error) {
			return load.ClosedH1(at, n, requests, last)
		})
		if err != nil {
			return err
		}
		l := load.Open{Address: at, Connections: connections, Rate: o.times * can.rate, Deadline: deadline, Patience: patience, Bodies: requests, Last: o.last}
		if err := o.offer("HTTP", can, l, l.H1); err != nil {
			return err
		}
	}
	return nil
}

// offer runs a load and prints what came of it.
func (o *overloading) offer(door string, can can, l load.Open, run func() (*load.Tally, error)) error {
	health, used := watch(o.server), server.Use(o.server)
	t, err := run()
	if err != nil {
		return err
	}
	own, others := used()
	slices.Sort(t.Latencies)
	slices.Sort(t.Refusal)
	rate := func(n int64) string { return fmt.Sprintf("%.0f/s", float64(n)/t.Took.Seconds()) }
	fmt.Fprintf(o.out, "%s\t%d\t%v\t%.0f/s\t%.1f µs\t%s\t%s\t%.0f %%\t%.0f %%\t%v\t%v\t%s\t%s\t%v\t%s\t%s\t%.2f\t%.2f\t%s\t\n",
		door, l.Connections, l.Patience, can.rate, 1e6*can.cost, rate(t.Offered), rate(t.Answered), 100*t.Rate()/can.rate, 100*t.Rate()*can.cost/own,
		quantile(t.Latencies, 0.5), quantile(t.Latencies, 0.99), rate(t.Late), rate(t.Refused), quantile(t.Refusal, 0.5),
		rate(t.Unsent), rate(t.Expired), own, others, health())
	time.Sleep(time.Second) // until calls that were given up are gone
	return nil
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Round(10 * time.Microsecond)
}

// watch asks the admin door for metrics, each time on a new connection, until
// it is called; it says how many answers came and the slowest.
func watch(p *server.Process) func() string {
	done, said := make(chan struct{}), make(chan string)
	go func() {
		asked, ok, worst := 0, 0, time.Duration(0)
		for {
			select {
			case <-done:
				said <- fmt.Sprintf("%d of %d, ≤ %v", ok, asked, worst.Round(time.Millisecond))
				return
			case <-time.After(100 * time.Millisecond):
			}
			asked++
			start := time.Now()
			if load.Get(p.Addresses["http"], "/healthz") == nil && load.Get(p.Addresses["admin"], "/debug/pprof/cmdline") == nil {
				ok++
			}
			worst = max(worst, time.Since(start))
		}
	}()
	return func() string { close(done); return <-said }
}
