package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/grpclimit"
	"github.com/weir-limit/weir/memstore"
)

func mustAddr(address string) netip.AddrPort { return netip.MustParseAddrPort(address) }

// service is a real one: it answers, and counts its calls.
type service struct {
	grpc_testing.UnimplementedTestServiceServer

	calls   atomic.Int64
	retries atomic.Int64 // calls that gRPC itself sent again
}

func (s *service) EmptyCall(ctx context.Context, _ *grpc_testing.Empty) (*grpc_testing.Empty, error) {
	s.calls.Add(1)
	if len(metadata.ValueFromIncomingContext(ctx, "grpc-previous-rpc-attempts")) > 0 {
		s.retries.Add(1)
	}
	return &grpc_testing.Empty{}, nil
}

func (s *service) FullDuplexCall(stream grpc_testing.TestService_FullDuplexCallServer) error {
	s.calls.Add(1)
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.Send(&grpc_testing.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// dial starts a server with limits, and connects to it.
func dial(t testing.TB, limits *grpclimit.Server, o ...grpc.DialOption) (*service, grpc_testing.TestServiceClient) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := new(service)
	server := grpc.NewServer(grpc.UnaryInterceptor(limits.Unary), grpc.StreamInterceptor(limits.Stream))
	grpc_testing.RegisterTestServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	cc, err := grpc.NewClient(l.Addr().String(), append(o, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return s, grpc_testing.NewTestServiceClient(cc)
}

// TestRetryPolicyObeys: gRPC's own retries come back when the pushback says, not by
// their backoff, which would take them a minute; and not at all when it says so.
func TestRetryPolicyObeys(t *testing.T) {
	const policy = `{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 5, "initialBackoff": "100s", "maxBackoff": "100s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`
	var asked atomic.Int64
	r := rule("calls", "1/s")
	r.Cost = func(ctx context.Context, _ string, _ any) int64 {
		asked.Add(1)
		if len(metadata.ValueFromIncomingContext(ctx, "much")) > 0 {
			return 7
		}
		return 1
	}
	s, client := dial(t, newServer(t, grpclimit.Options{}, r), grpc.WithDefaultServiceConfig(policy))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 3 {
		if _, err := client.EmptyCall(ctx, &grpc_testing.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	if s.calls.Load() != 3 || s.retries.Load() == 0 {
		t.Errorf("%d calls, %d of them sent again", s.calls.Load(), s.retries.Load())
	}
	asked.Store(0)
	_, err := client.EmptyCall(metadata.AppendToOutgoingContext(ctx, "much", "1"), &grpc_testing.Empty{})
	if status.Code(err) != codes.ResourceExhausted || asked.Load() != 1 {
		t.Errorf("%v after %d tries", err, asked.Load())
	}
}

// TestClientAndServer: the interceptors of both sides over a real connection. All
// calls pass in the end.
func TestClientAndServer(t *testing.T) {
	limits := newServer(t, grpclimit.Options{}, rule("calls", "20/s burst 5"))
	client, err := grpclimit.NewClient(grpclimit.ClientOptions{MaxTries: 20, RetryPercent: 100})
	if err != nil {
		t.Fatal(err)
	}
	s, asks := dial(t, limits, grpc.WithUnaryInterceptor(client.Unary), grpc.WithStreamInterceptor(client.Stream))
	var all sync.WaitGroup
	for range 15 {
		all.Go(func() {
			if _, err := asks.EmptyCall(t.Context(), &grpc_testing.Empty{}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.calls.Load(); n != 15 {
		t.Errorf("%d calls passed", n)
	}
}

// TestClientStreams: a stream that is denied is not sent again, but what it is told
// holds the next.
func TestClientStreams(t *testing.T) {
	client, err := grpclimit.NewClient(grpclimit.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, asks := dial(t, newServer(t, grpclimit.Options{}, rule("calls", "1/s")), grpc.WithStreamInterceptor(client.Stream))
	for denied, tries := false, 0; !denied; tries++ {
		if tries == 100 {
			t.Fatal("no stream is denied")
		}
		stream, err := asks.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.CloseSend()
		_, err = stream.Recv()
		denied = status.Code(err) == codes.ResourceExhausted
	}
	stream, err := asks.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&grpc_testing.StreamingOutputCallRequest{}); err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Error(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// denied is the trailer and the error of a server that says to come back.
func denied(code codes.Code, retry time.Duration, pushback ...string) (metadata.MD, error) {
	s := status.New(code, "no")
	if retry >= 0 {
		s, _ = s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
	}
	md := metadata.MD{}
	md.Append("grpc-retry-pushback-ms", pushback...)
	return md, s.Err()
}

// TestClientRetries: what is sent again, and when.
func TestClientRetries(t *testing.T) {
	cc, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	const s = time.Second
	for _, c := range []struct {
		name     string
		code     codes.Code
		retry    time.Duration // −1: not told
		pushback []string
		tries    int
		after    time.Duration
	}{
		{"RetryInfo", codes.ResourceExhausted, 5 * s, nil, 2, 5 * s},
		{"pushback", codes.ResourceExhausted, -1, []string{"7000"}, 2, 7 * s},
		{"both: never earlier than either", codes.ResourceExhausted, 5 * s, []string{"7000"}, 2, 7 * s},
		{"both, the other way", codes.Unavailable, 9 * s, []string{"7000"}, 2, 9 * s},
		{"nothing told: it may have been done", codes.Unavailable, -1, nil, 1, 0},
		{"too large a message, say", codes.ResourceExhausted, -1, nil, 1, 0},
		{"another code", codes.Internal, 5 * s, []string{"7000"}, 1, 0},
		{"never again", codes.ResourceExhausted, 5 * s, []string{"-1"}, 1, 0},
		{"no number", codes.ResourceExhausted, 5 * s, []string{"soon"}, 1, 0},
		{"two numbers", codes.ResourceExhausted, 5 * s, []string{"1", "2"}, 1, 0},
		{"no int32", codes.ResourceExhausted, 5 * s, []string{"2147483648"}, 1, 0},
		{"later than there is time for", codes.ResourceExhausted, time.Hour, nil, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := grpclimit.NewClient(grpclimit.ClientOptions{})
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				var came []time.Duration
				invoke := func(_ context.Context, _ string, _, _ any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
					if came = append(came, time.Since(began)); len(came) > 1 {
						return nil
					}
					trailer, err := denied(c.code, c.retry, c.pushback...)
					for _, o := range opts {
						if o, ok := o.(grpc.TrailerCallOption); ok {
							*o.TrailerAddr = trailer
						}
					}
					return err
				}
				err = client.Unary(t.Context(), method, nil, nil, cc, invoke)
				if (err == nil) != (c.tries == 2) || err != nil && status.Code(err) != c.code || len(came) != c.tries {
					t.Fatalf("%v after %v", err, came)
				}
				if last := came[len(came)-1]; last < c.after || last > c.after+max(c.after/10, 100*time.Millisecond) {
					t.Errorf("the last try came after %v, want %v", last, c.after)
				}
			})
		})
	}
}

// TestClientOwnLimit: calls wait for the client's own limit, and who can't is told
// by a status.
func TestClientOwnLimit(t *testing.T) {
	cc, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	synctest.Test(t, func(t *testing.T) {
		client, err := grpclimit.NewClient(grpclimit.ClientOptions{
			Limiter:    weir.NewLimiter(memstore.New(memstore.Options{}), "own", weir.MustParseLimit("1/s")),
			Key:        func(_ context.Context, m string) string { return m },
			Cost:       func(_ context.Context, _ string, message any) int64 { return message.(int64) },
			Priority:   func(ctx context.Context, _ string) int { return len(metadataOf(ctx)) },
			MaxWaiting: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var mu sync.Mutex
		var order []string
		ask := func(ctx context.Context, cost int64) error {
			return client.Unary(ctx, method, cost, nil, cc, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, strconv.Itoa(int(time.Since(began)/time.Second))+":"+metadataOf(ctx))
				return nil
			})
		}
		if err := ask(t.Context(), 1); err != nil {
			t.Error(err)
		}
		var all sync.WaitGroup
		for _, priority := range []string{"", "x"} {
			all.Go(func() {
				if err := ask(metadata.AppendToOutgoingContext(t.Context(), "priority", priority), 1); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		err = ask(t.Context(), 1)
		if !errors.Is(err, grpclimit.ErrQueueFull) || status.Code(err) != codes.ResourceExhausted {
			t.Error(err)
		}
		all.Wait()
		if len(order) != 3 || order[1] != "1:x" || order[2] != "2:" {
			t.Errorf("%q", order)
		}

		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		err = ask(short, 1)
		if _, ok := errors.AsType[*weir.DeniedError](err); !ok || status.Code(err) != codes.ResourceExhausted {
			t.Error(err)
		}
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, leave)
		if err := ask(gone, 1); !errors.Is(err, context.Canceled) || status.Code(err) != codes.Canceled {
			t.Error(err)
		}
		if err := ask(t.Context(), 9); status.Code(err) != codes.ResourceExhausted {
			t.Error(err)
		}
	})
}

func metadataOf(ctx context.Context) string {
	md, _ := metadata.FromOutgoingContext(ctx)
	if v := md.Get("priority"); len(v) > 0 {
		return v[0]
	}
	return ""
}

// TestClientPermits: a stream holds its permit of the own limit until it ends,
// read or not.
func TestClientPermits(t *testing.T) {
	client, err := grpclimit.NewClient(grpclimit.ClientOptions{
		Limiter: weir.NewLimiter(memstore.New(memstore.Options{}), "own", weir.MustParseLimit("1 concurrent ttl 1h")),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, asks := dial(t, newServer(t, grpclimit.Options{}, rule("calls", "1000/s")),
		grpc.WithUnaryInterceptor(client.Unary), grpc.WithStreamInterceptor(client.Stream))
	for i := range 6 {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := asks.FullDuplexCall(ctx)
		if err != nil {
			t.Fatal(err)
		}
		short, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := asks.EmptyCall(short, &grpc_testing.Empty{}); err == nil {
			t.Error("the permit is held, and a call passes")
		}
		stop()
		switch i % 3 {
		case 0: // it is read to its end
			_ = stream.CloseSend()
			_, _ = stream.Recv()
		case 1: // nobody reads it
		case 2: // one message is read, and no more
			_ = stream.Send(&grpc_testing.StreamingOutputCallRequest{})
			_, _ = stream.Recv()
		}
		cancel()
		if _, err := asks.EmptyCall(t.Context(), &grpc_testing.Empty{}); err != nil {
			t.Error(err)
		}
	}
}
