// Command envoyratelimit sends the same random requests, under the same random
// rule files, to a real envoyproxy/ratelimit with Redis and to Weir. It prints
// every difference that docs/envoy.md does not list.
//
// Both are held against models: two servers that keep different counts, because
// one of them charges refused calls, are still compared field by field.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

// Exit codes, as weir's.
const (
	exitNo    = 1 // differences that nothing explains
	exitUsage = 2
	exitNot   = 3 // it could not be compared
)

// options are the flags.
type options struct {
	seed                            uint64
	requests, files, broken, shrink int
	json, bench, personality        bool
	source, weir                    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := compare(ctx)
	stop()
	os.Exit(code)
}

func compare(ctx context.Context) int {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "of all that is random")
	flag.IntVar(&o.requests, "requests", 12_000, "to send under good rule files")
	flag.IntVar(&o.files, "files", 60, "good rule files")
	flag.IntVar(&o.broken, "broken", 300, "rule files that are broken at random")
	flag.IntVar(&o.shrink, "shrink", 80, "tries to make a finding smaller")
	flag.BoolVar(&o.json, "json", false, "print JSON")
	flag.BoolVar(&o.bench, "bench", false, "measure both instead of comparing them")
	flag.BoolVar(&o.personality, "as-ratelimit", false, "start Weir as ratelimit, by the environment of envoyproxy/ratelimit, and compare statistics, too")
	flag.StringVar(&o.source, "ratelimit", "", "`DIR` of a checkout of envoyproxy/ratelimit (default the version of go.mod)")
	flag.StringVar(&o.weir, "weir", "../..", "`DIR` of Weir")
	flag.Parse()
	if flag.NArg() > 0 || o.requests < 1 || o.files < 1 || o.broken < 0 || o.shrink < 0 {
		flag.Usage()
		return exitUsage
	}
	result, err := o.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "not compared:", err)
		return exitNot
	}
	report := result.print
	if o.bench {
		report = result.printMeasured
	}
	if err := report(os.Stdout, o.json); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitNot
	}
	if result.Unclassified > 0 {
		return exitNo
	}
	return 0
}

func (o options) run(ctx context.Context) (*result, error) {
	dir, err := os.MkdirTemp("", "compare-ratelimit-bin-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a leftover in the folder for such things
	c := &comparison{options: o}
	list, err := listed(filepath.Join(o.weir, "docs", "envoy.md"))
	if err != nil {
		return nil, err
	}
	if c.built, err = build(ctx, dir, o.source, o.weir); err != nil {
		return nil, err
	}
	c.result = result{Seed: o.seed, Peer: c.built.version, Known: list}
	if c.servers, err = newServers(ctx, c.built, o.personality); err != nil {
		return nil, err
	}
	steps := []func(context.Context) error{c.probe, c.streams, c.damaged, c.doors}
	if o.personality {
		steps = []func(context.Context) error{c.probe, c.streams, c.statistics, c.doors}
	}
	if o.bench {
		steps = []func(context.Context) error{c.bench}
	}
	for _, step := range steps {
		if err = step(ctx); err != nil {
			break
		}
	}
	if closed := c.servers.close(); err == nil {
		err = closed
	}
	return &c.result, err
}
