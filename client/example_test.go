package client_test

import (
	"context"
	"fmt"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/client"
)

// A program that shares its counts with others at a daemon, which runs as weir serve
// --grpc-store. Here nobody listens, so that the fallback of the limit decides.
func ExampleOpen() {
	store, err := client.Open("grpc://127.0.0.1:1", client.Options{})
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
	// Output: allowed 99 local
}
