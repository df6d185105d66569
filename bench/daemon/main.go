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
	b := bench{table: table.New("Weir", "no-op", "ratio")}
	weir := flag.String("weir", "../bin/weir", "the daemon's program")
	noop := flag.String("noop", "../bin/bench-noop", "the program of a server that decides nothing")
	old := flag.String("old", "", "an older program of the daemon, to measure beside in place of the no-op server")
	flag.StringVar(&b.store, "store", "", "the store of the daemon, and of an older program, such as redis://HOST:PORT; their memory where it is empty")
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.BoolVar(&b.short, "short", false, "take a minute")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	beside := *noop
	if *old != "" {
		b.old, beside = true, *old
	}
	fail(b.start(ctx, *weir, beside))
	err := b.run(ctx)
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

func (b *bench) start(ctx context.Context, weir string, beside string) error {
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
	serve := []string{"serve", "--rules", rules, "--http", any, "--grpc", any, "--admin", any, "--resp", any}
	if b.store != "" {
		serve = append(serve, "--store", b.store)
	}
	b.weir, err = server.Start(ctx, -1, nil, append([]string{weir}, serve...)...)
	if err != nil {
		return err
	}
	if !b.old {
		serve = nil
	}
	b.beside, err = server.Start(ctx, -1, nil, append([]string{beside}, serve...)...)
	return err
}

func (b *bench) stop() {
	for _, p := range []*server.Process{b.weir, b.beside} {
		_ = p.Stop() // all was measured
	}
}
