package client_test

import (
	"context"
	"fmt"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/client"
	"github.com/weir-limit/weir/rules"
	"github.com/weir-limit/weir/rules/source"
)

// A program that shares its counts with others at a daemon, which runs as weir serve
// --grpc-store.
func ExampleOpen() {
	store, err := client.Open("grpc://127.0.0.1:8081", client.Options{
		Changed: func(_ string, away error) { fmt.Println("the daemon is away, or, without a reason, back:", away) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	limiter := weir.NewLimiter(store, "uploads", weir.MustParseLimit("100/min"))
	answer, err := limiter.Take(context.Background(), "alice", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Outcome, answer.Remaining, answer.Degraded)
}

// Rules that the daemon serves, matched in the program, with counts at the daemon. A
// start without it has the last good copy of the rules, and their fallbacks.
func ExampleOpen_rules() {
	ctx := context.Background()
	from, err := source.Open("http://127.0.0.1:8082/v1/export", source.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	set, err := from.Load(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := client.Open("grpc://127.0.0.1:8081", client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	limiter := rules.NewLimiter(store, set)
	go from.Watch(ctx, func(set *rules.Set, _ error) {
		if set != nil {
			limiter.Replace(set)
		}
	})
	answer, err := limiter.Check(ctx, &rules.Request{Domain: "demo", Descriptors: []rules.Descriptor{
		{Entries: []rules.Entry{{Key: "client_id", Value: "alice"}}, Cost: 1},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Allowed)
}
