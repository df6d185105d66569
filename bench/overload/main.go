//go:build linux

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
	"time"

	"github.com/weir-limit/weir/bench/internal/server"
	"github.com/weir-limit/weir/bench/internal/traffic"
)

func main() {
	times := flag.Float64("times", 5, "how much is offered, of what the server can do")
	weir := flag.String("weir", "../bin/weir", "the daemon's program")
	door := flag.String("door", "", "grpc or http alone")
	short := flag.Bool("short", false, "take a fifth of the time")
	flag.Parse()
	if os.Getenv("WEIR_BENCH_PINNED") == "" {
		fail(pinned())
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o := overloading{out: os.Stdout, times: *times, rounds: 5, last: 2 * time.Second}
	if *short {
		o.rounds, o.last = 2, time.Second
	}
	fail(o.run(ctx, *weir, *door))
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

// run measures the doors, or one of them.
func (o *overloading) run(ctx context.Context, weir, door string) error {
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
	o.server, err = server.Start(ctx, 0, []string{"GOMAXPROCS=1"}, weir, "serve", "--rules", rules, "--http", any, "--grpc", any, "--admin", any)
	if err != nil {
		return err
	}
	defer o.server.Stop()
	all, err := clients(o.server)
	if err != nil {
		return err
	}
	for _, c := range all {
		if door == "" || door == c.door {
			if err := o.measure(c); err != nil {
				return err
			}
		}
	}
	return o.print()
}
