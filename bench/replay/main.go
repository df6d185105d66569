// Command replay measures how fast weir replay reads logs that it makes up
// itself: make bench-replay.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/weir-limit/weir/bench/internal/table"
)

// rules are what somebody would begin with: a pace for everybody, a stricter one
// for logins, and one for what is dear.
const rules = `domain: shop
descriptors:
  - key: remote_address
    limits: [100/min burst 50]
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        limits: [5/min sliding-window 6]
  - key: path
    value: /api/*
    share_threshold: true
    descriptors:
      - key: remote_address
        limits: [20/s]
`

func main() {
	weir := flag.String("weir", "../bin/weir", "the program")
	asJSON := flag.Bool("json", false, "print one JSON object")
	short := flag.Bool("short", false, "take a few seconds")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b := bench{weir: *weir, lines: 3_000_000, rounds: 3, table: table.New("Weir", "beside", "measured")}
	if *short {
		b.lines, b.rounds = 300_000, 1
	}
	err := b.run(ctx)
	if err == nil {
		err = b.table.Print(os.Stdout, *asJSON)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	weir          string
	lines, rounds int
	table         *table.Table
}

// The targets, in lines a second of processor time.
const (
	plainTarget = 500_000
	gzipTarget  = 250_000
)

func (b *bench) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return err
	}
	for _, log := range []struct {
		name   string
		format format
		packed string
		target float64
		with   []string
	}{
		{"combined", combined, "", plainTarget, nil},
		{"combined, gzip", combined, "gzip", gzipTarget, nil},
		{"combined, zstd", combined, "zstd", gzipTarget, nil},
		{"JSON", asObject, "", 0, nil},
		{"combined, against a second file", combined, "", 0, []string{"--against", file}},
	} {
		name := filepath.Join(dir, "access.log")
		if err := write(name, log.format, log.packed, b.lines); err != nil {
			return err
		}
		if err := b.measure(ctx, log.name, log.target, append([]string{"replay", "--rules", file, "--log", name, "--json"}, log.with...)); err != nil {
			return err
		}
	}
	return nil
}

// measure runs the program and adds a line for what it cost.
func (b *bench) measure(ctx context.Context, what string, target float64, args []string) error {
	var rates, costs, walls []float64
	most := int64(0)
	for range b.rounds {
		c := exec.CommandContext(ctx, b.weir, args...)
		c.Stderr = os.Stderr
		began := time.Now()
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		wall := time.Since(began)
		cpu := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
		rates = append(rates, float64(b.lines)/cpu.Seconds())
		costs = append(costs, cpu.Seconds()*1e6/float64(b.lines))
		walls = append(walls, float64(b.lines)/wall.Seconds())
		if use, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
			most = max(most, use.Maxrss)
		}
	}
	row := table.Row{
		What: what + ": lines/s of a core", Weir: table.Spread(rates, ""),
		Beside:   fmt.Sprintf("%.2f µs of CPU a line, %.0f lines/s by the clock, %d MB at most", table.Median(costs), table.Median(walls), most>>10),
		Measured: fmt.Sprintf("%.0f", table.Median(rates)),
	}
	if target > 0 {
		row.Target, row.Verdict = fmt.Sprintf("≥ %.0f", target), table.AtLeast(target).Verdict(table.Median(rates))
	}
	b.table.Rows = append(b.table.Rows, row)
	return nil
}
