// Command daemon measures weir serve beside servers that decide nothing, in one
// run: make bench-daemon.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/weir-limit/weir/bench/internal/server"
	"github.com/weir-limit/weir/bench/internal/traffic"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "noop" {
		fail(server.Noop())
	}
	var b bench
	weir := flag.String("weir", "../bin/weir", "the daemon's program")
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.BoolVar(&b.short, "short", false, "take half a minute")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fail(b.start(ctx, *weir))
	err := b.run()
	b.stop()
	fail(err)
	fail(b.print(*asJSON))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "daemon:", err)
		os.Exit(1)
	}
}

func (b *bench) start(ctx context.Context, weir string) error {
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
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.noop, err = server.Start(ctx, -1, nil, self, "noop")
	return err
}

func (b *bench) stop() {
	for _, p := range []*server.Process{b.weir, b.noop} {
		_ = p.Stop() // all was measured
	}
}

// report is what --json prints.
type report struct {
	Machine string `json:"machine"`
	Go      string `json:"go"`
	Commit  string `json:"commit"`
	Rows    []row  `json:"rows"`
}

func (b *bench) print(asJSON bool) error {
	r := report{machine(), runtime.Version(), commit(), b.rows}
	if asJSON {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	fmt.Printf("%s, %s, commit %s\n\n", r.Machine, r.Go, r.Commit)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tweir\tbeside\tmeasured\ttarget\t")
	for _, row := range b.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", row.What, row.Weir, row.Beside, row.Measured, row.Target, row.Verdict)
	}
	return w.Flush()
}

func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
			}
		}
	}
	return fmt.Sprintf("%s/%s, %d × %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), model)
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
