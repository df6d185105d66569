// Command stores measures Weir's shared stores beside others in one run, on servers
// that it starts itself: make bench-stores.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/weir-limit/weir/bench/internal/table"
)

func main() {
	if at := os.Getenv(natsServerEnv); at != "" {
		fail(serveNATS(at))
		return
	}
	b := bench{table: table.New("Weir", "beside", "ratio")}
	asJSON := flag.Bool("json", false, "print one JSON object")
	flag.BoolVar(&b.short, "short", false, "take 40 seconds")
	only := flag.String("only", "", "measure this way alone for 4 seconds, such as weir, and write its profile to cpu.out; lease measures leases alone")
	store := flag.String("store", "", "measure this store alone: redis, memcached, postgres, nats, or lease on two of them")
	callers := flag.Int("callers", goroutines, "by so many goroutines")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fail(b.start(ctx))
	var err error
	if *only != "" {
		err = b.profile(ctx, *only, *callers)
	} else if err = b.run(ctx, *store); err == nil {
		err = b.table.Print(os.Stdout, *asJSON)
	}
	b.stop()
	fail(err)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "stores:", err)
		os.Exit(1)
	}
}
