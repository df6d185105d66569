package main

import (
	"strconv"
	"sync/atomic"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/client"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/redisstore"
)

// BenchmarkTake is one take of one of 10,000 keys, by so many goroutines: of a daemon's
// store, of a Redis with and without the edge that Open puts around it, and by Envoy's call of the same daemon, which has no rule for it.
func BenchmarkTake(b *testing.B) {
	w := serve(b, build(b), "--grpc-store")
	far, err := client.Open("grpc://"+w.grpc, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = far.Close() }) // nothing is open
	url := "redis://" + redistest.Start(b).Addr
	redis, err := redisstore.Open(url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = redis.Close() }) // its server is gone
	bare, err := redisstore.Dial(url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = bare.Close() }) // likewise
	conn, err := grpc.NewClient(w.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() }) // likewise
	envoy := rls.NewRateLimitServiceClient(conn)
	limit := weir.MustParseLimit("100/s burst 100")
	take := func(s weir.Store) func(key string) error {
		return func(key string) error {
			asks := []weir.Ask{{State: weir.StateKey{Rule: "r#gcra", Key: key}, Limit: limit, Cost: 1}}
			return s.Take(b.Context(), asks, make([]weir.Decision, 1))
		}
	}
	for _, goroutines := range []int{1, 64} {
		for name, ask := range map[string]func(key string) error{
			"client": take(far), "redisstore": take(redis), "redisstore.Dial": take(bare),
			"ShouldRateLimit": func(key string) error {
				_, err := envoy.ShouldRateLimit(b.Context(), &rls.RateLimitRequest{Domain: "none", Descriptors: []*ratelimit.RateLimitDescriptor{
					{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "k", Value: key}}},
				}})
				return err
			},
		} {
			b.Run(strconv.Itoa(goroutines)+"/"+name, func(b *testing.B) {
				var n atomic.Uint64
				b.SetParallelism(max(goroutines/2, 1))
				b.ReportAllocs()
				run := func(pb *testing.PB) {
					for pb.Next() {
						if err := ask(strconv.FormatUint(n.Add(1)%10_000, 10)); err != nil {
							b.Error(err)
							return
						}
					}
				}
				if goroutines == 1 {
					for b.Loop() {
						if err := ask(strconv.FormatUint(n.Add(1)%10_000, 10)); err != nil {
							b.Fatal(err)
						}
					}
					return
				}
				b.RunParallel(run)
			})
		}
	}
}
