package load

import (
	"context"
	"sync/atomic"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// stock is a caller of grpc-go's own client.
type stock struct {
	client   rls.RateLimitServiceClient
	requests []*rls.RateLimitRequest
}

func (stock) Close() error { return nil } // callers share one connection

// Stock makes the calls by grpc-go's client, on one connection.
func (l Closed) Stock() (*Result, error) {
	conn, err := grpc.NewClient(l.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	s := stock{client: rls.NewRateLimitServiceClient(conn)}
	for _, body := range l.Bodies {
		q := &rls.RateLimitRequest{}
		if err := proto.Unmarshal(body, q); err != nil {
			return nil, err
		}
		s.requests = append(s.requests, q)
	}
	dial := func() (stock, error) { return s, nil }
	return closed(l.InFlight, l.Last, dial, func(s stock, i int, stop *atomic.Bool) (*Result, error) {
		r := &Result{}
		for next := i * len(s.requests) / l.InFlight; !stop.Load(); next++ {
			begun := time.Now()
			if _, err := s.client.ShouldRateLimit(context.Background(), s.requests[next%len(s.requests)]); err != nil {
				r.Refused++
				continue
			}
			r.Answered++
			r.Latencies = append(r.Latencies, time.Since(begun))
		}
		return r, nil
	})
}
