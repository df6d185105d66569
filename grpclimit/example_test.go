package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/grpclimit"
	"github.com/weir-limit/weir/memstore"
)

// A server with two rules: calls of each peer, and at most ten at a time of all.
func ExampleNewServer() {
	limits, err := grpclimit.NewServer(memstore.New(memstore.Options{}), []grpclimit.Rule{
		{Name: "peer", Limit: weir.MustParseLimit("2/h"), Key: grpclimit.Peer},
		{Name: "busy", Limit: weir.MustParseLimit("10 concurrent")},
	}, grpclimit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, stop, err := serve(limits)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	for range 3 {
		_, err := client.Check(context.Background(), &grpc_health_v1.HealthCheckRequest{})
		s := status.Convert(err)
		fmt.Printf("%v %q\n", s.Code(), s.Message())
		for _, detail := range s.Details() {
			if retry, ok := detail.(*errdetails.RetryInfo); ok {
				fmt.Println("come back in", retry.RetryDelay.AsDuration().Round(time.Minute))
			}
		}
	}
	// Output:
	// OK ""
	// OK ""
	// ResourceExhausted "there were too many calls; come back later"
	// come back in 30m0s
}

// A client that waits for ten calls a second, and for what the server asks. Who
// has not the time is told how long it would be.
func ExampleNewClient() {
	limits, err := grpclimit.NewServer(memstore.New(memstore.Options{}), []grpclimit.Rule{
		{Name: "calls", Limit: weir.MustParseLimit("2/h")},
	}, grpclimit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	waits, err := grpclimit.NewClient(grpclimit.ClientOptions{
		Limiter: weir.NewLimiter(memstore.New(memstore.Options{}), "own", weir.MustParseLimit("10/s")),
		MaxWait: time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, stop, err := serve(limits, grpc.WithUnaryInterceptor(waits.Unary), grpc.WithStreamInterceptor(waits.Stream))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	for range 4 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		cancel()
		if denied, ok := errors.AsType[*weir.DeniedError](err); ok {
			fmt.Println("not asked: more than", denied.Answer.RetryAfter.Truncate(30*time.Minute))
			continue
		}
		fmt.Println("asked:", status.Code(err))
	}
	// Output:
	// asked: OK
	// asked: OK
	// asked: ResourceExhausted
	// not asked: more than 30m0s
}

// serve starts a server that does nothing but tell its health.
func serve(limits *grpclimit.Server, o ...grpc.DialOption) (grpc_health_v1.HealthClient, func(), error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(limits.Unary), grpc.StreamInterceptor(limits.Stream))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(l) }()
	cc, err := grpc.NewClient(l.Addr().String(), append(o, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		server.Stop()
		return nil, nil, err
	}
	return grpc_health_v1.NewHealthClient(cc), func() {
		_ = cc.Close()
		server.Stop()
	}, nil
}
