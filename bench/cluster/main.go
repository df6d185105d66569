// Command cluster measures three nodes that share limits, on one machine, beside a
// server that decides nothing and a node that shares none, in one run: make bench-cluster.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir/bench/internal/server"
	"github.com/weir-limit/weir/bench/internal/table"
	"github.com/weir-limit/weir/bench/internal/traffic"
)

func main() {
	b := bench{table: table.New("three nodes", "beside", "ratio"), rounds: 11, last: 2 * time.Second, first: 10 * time.Second}
	weir := flag.String("weir", "../bin/weir", "the daemon's program")
	noop := flag.String("noop", "../bin/bench-noop", "the program of a server that decides nothing")
	asJSON := flag.Bool("json", false, "print one JSON object")
	short := flag.Bool("short", false, "take a few seconds")
	flag.Parse()
	if *short {
		b.rounds, b.last, b.first = 3, 500*time.Millisecond, 2*time.Second
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := b.start(ctx, *weir, *noop)
	if err == nil {
		err = b.run()
	}
	b.stop()
	fail(err)
	fail(b.table.Print(os.Stdout, *asJSON))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// start runs a no-op server and the nodes, and waits until these hear each other.
func (b *bench) start(ctx context.Context, weir, noop string) error {
	dir, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // rules are read at the start
	rules := filepath.Join(dir, "bench.yaml")
	if err := os.WriteFile(rules, []byte(traffic.Rules), 0o600); err != nil {
		return err
	}
	idle, err := server.Start(ctx, -1, nil, noop)
	if err != nil {
		return err
	}
	b.noop = side{idle}
	const any = "127.0.0.1:0"
	alone, err := server.Start(ctx, -1, nil, weir, "serve", "--store", "memory:", "--rules", rules, "--http", any, "--grpc", any, "--admin", any)
	if err != nil {
		return err
	}
	b.alone = side{alone}
	addresses := make([]string, nodes)
	for i := range addresses {
		if addresses[i], err = freePort(); err != nil {
			return err
		}
	}
	for _, at := range addresses {
		p, err := server.Start(ctx, -1, []string{"XDG_CACHE_HOME=" + dir}, weir, "serve", "--store", "cluster:", "--cluster", at, "--join", strings.Join(addresses, ","),
			"--rules", rules, "--http", any, "--grpc", any, "--admin", any)
		if err != nil {
			return err
		}
		b.nodes = append(b.nodes, p)
	}
	return b.settled(ctx)
}

func (b *bench) stop() {
	for _, p := range slices.Concat(b.nodes, b.noop, b.alone) {
		_ = p.Stop() // all was measured
	}
}
