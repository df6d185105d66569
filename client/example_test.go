package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/client"
	"github.com/weir-limit/weir/rules"
	"github.com/weir-limit/weir/rules/source"
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

// The rules of a daemon, asked in the program with counts at the daemon. It begins
// with the last good copy where the daemon is away. Here export stands for the
// daemon's http://127.0.0.1:8082, and nobody counts, so that fallbacks decide.
func ExampleStore_rules() {
	export := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "domain: shop\ndescriptors:\n  - key: user\n    limits: [2/min]\n")
	}))
	copies, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(copies) }()
	if err := ask(export.URL+"/v1/export", filepath.Join(copies, "rules.yaml")); err != nil {
		fmt.Println(err)
	}
	export.Close()
	if err := ask(export.URL+"/v1/export", filepath.Join(copies, "rules.yaml")); err != nil {
		fmt.Println(err)
	}
	// Output:
	// true true false
	// the daemon is away, and its last rules stand
	// true true false
}

// ask asks three times whether cy may buy, by the rules at url or their copy.
func ask(url, copied string) error {
	ctx := context.Background()
	store, err := client.Open("grpc://127.0.0.1:1", client.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	fits := func(set *rules.Set) error { return set.Fits(store.Traits()) }
	from, err := source.Open(url, source.Options{Cache: copied, Check: fits})
	if err != nil {
		return err
	}
	set, err := from.Load(ctx)
	switch {
	case set == nil:
		return err
	case err != nil:
		fmt.Println("the daemon is away, and its last rules stand")
	}
	limiter := rules.NewLimiter(store, set)
	following, stop := context.WithCancel(ctx)
	defer stop()
	go from.Watch(following, func(changed *rules.Set, err error) {
		if changed != nil {
			limiter.Replace(changed)
		} // else err says why the rules before stay
	})
	var allowed [3]any
	for i := range allowed {
		answer, err := limiter.Check(ctx, &rules.Request{Domain: "shop", Descriptors: []rules.Descriptor{
			{Entries: []rules.Entry{{Key: "user", Value: "cy"}}, Cost: 1},
		}})
		if err != nil {
			return err
		}
		allowed[i] = answer.Allowed
	}
	fmt.Println(allowed[:]...)
	return nil
}
