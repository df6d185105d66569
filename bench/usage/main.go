// Command usage measures what --usage-log costs weir serve at 100,000 decisions a second: two daemons,
// one of which logs, are asked by turns: make bench-usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/weir-limit/weir/bench/internal/load"
	"github.com/weir-limit/weir/bench/internal/server"
	"github.com/weir-limit/weir/bench/internal/table"
	"github.com/weir-limit/weir/bench/internal/traffic"
)

// decisions is how many there are each second.
const decisions = 100_000

// most is the target: the CPU with the log beside that without.
const most = 1.03

// bench is one run.
type bench struct {
	rounds int
	last   time.Duration
	table  *table.Table
	with   *server.Process
	bare   *server.Process
}

func main() {
	b := bench{rounds: 9, last: 6 * time.Second, table: table.New("with the log", "without", "ratio")}
	weir := flag.String("weir", "../bin/weir", "the daemon's program")
	log := flag.String("log", "", "the URL of the usage log (default: files in a folder that is removed)")
	short := flag.Bool("short", false, "take half a minute")
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.Parse()
	if *short {
		b.rounds, b.last = 3, 3*time.Second
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := b.run(ctx, *weir, *log)
	if err == nil {
		err = b.table.Print(os.Stdout, *asJSON)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "usage:", err)
		os.Exit(1)
	}
}

func (b *bench) run(ctx context.Context, weir, log string) error {
	dir, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rules := filepath.Join(dir, "bench.yaml")
	if err := os.WriteFile(rules, []byte(traffic.Rules), 0o600); err != nil {
		return err
	}
	if log == "" {
		log = "file:" + filepath.Join(dir, "usage")
	}
	const any = "127.0.0.1:0"
	serve := []string{weir, "serve", "--rules", rules, "--http", any, "--grpc", any, "--admin", any}
	if b.bare, err = server.Start(ctx, -1, nil, serve...); err != nil {
		return err
	}
	if b.with, err = server.Start(ctx, -1, nil, append(serve, "--usage-log", log)...); err != nil {
		return errors.Join(err, b.bare.Stop())
	}
	err = errors.Join(b.compare(1), b.compare(3))
	_, _ = b.with.Stop(), b.bare.Stop() // all was measured
	return err
}

// compare adds a row about calls with so many descriptors: each decision is one of 10,000 keys of its
// rule.
func (b *bench) compare(descriptors int) error {
	bodies, err := traffic.GRPC(descriptors)
	if err != nil {
		return err
	}
	var cpu [2][]float64 // microseconds for each decision, with and without
	for round := range b.rounds + 1 {
		for turn := range 2 {
			i := (round + turn) % 2
			n, err := b.measure([2]*server.Process{b.with, b.bare}[i], bodies, descriptors)
			if err != nil {
				return err
			}
			if round > 0 { // the first is to warm up
				cpu[i] = append(cpu[i], n)
			}
		}
	}
	b.table.Compare(fmt.Sprintf("%s decisions/s, %d a call, %s keys: CPU of a decision", table.Count(decisions), descriptors, table.Count(float64(descriptors*traffic.Keys))),
		"µs", cpu[0], cpu[1], table.AtMost(most))
	return nil
}

// measure is the CPU of a decision, in microseconds.
func (b *bench) measure(p *server.Process, bodies [][]byte, descriptors int) (float64, error) {
	rate := float64(decisions) / float64(descriptors)
	before, err := p.CPU()
	if err != nil {
		return 0, err
	}
	o := load.Open{Address: p.Addresses["grpc"], Connections: load.Connections, Rate: rate, Bodies: bodies, Last: b.last}
	t, err := o.H2()
	if err != nil {
		return 0, err
	}
	after, err := p.CPU()
	if err != nil {
		return 0, err
	}
	answered := float64(t.Answered)
	if least := rate * b.last.Seconds() * 0.9; answered < least {
		fmt.Fprintf(os.Stderr, "usage: the machine is too busy: %s of %s calls were answered\n", table.Count(answered), table.Count(rate*b.last.Seconds()))
	}
	return float64((after - before).Microseconds()) / (answered * float64(descriptors)), nil
}
