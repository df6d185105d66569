// Command daemon measures weir serve beside servers that decide nothing, in one
// run: make bench-daemon.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/weir-limit/weir/bench/internal/server"
	"github.com/weir-limit/weir/bench/internal/table"
	"github.com/weir-limit/weir/bench/internal/traffic"
)

func main() {
	b := bench{table: table.New()}
	weir := flag.String("weir", "../bin/weir", "the daemon's program")
	noop := flag.String("noop", "../bin/bench-noop", "the program of a server that decides nothing")
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.BoolVar(&b.short, "short", false, "take a minute")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fail(b.start(ctx, *weir, *noop))
	err := b.run()
	b.stop()
	fail(err)
	fail(b.table.Print(os.Stdout, *asJSON))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "daemon:", err)
		os.Exit(1)
	}
}

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
	const any = "127.0.0.1:0"
	b.weir, err = server.Start(ctx, -1, nil, weir, "serve", "--rules", rules, "--http", any, "--grpc", any, "--admin", any)
	if err != nil {
		return err
	}
	b.noop, err = server.Start(ctx, -1, nil, noop)
	return err
}

func (b *bench) stop() {
	for _, p := range []*server.Process{b.weir, b.noop} {
		_ = p.Stop() // all was measured
	}
}
