// Command nooptest is a server that decides nothing, which bench measures beside the
// daemon. It is here for the options of the daemon's gRPC listener.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-limit/weir/cmd/weir/internal/h2"
	listener "github.com/weir-limit/weir/cmd/weir/internal/rls"
)

// answers says OK, with a status for each descriptor as long as a real one.
type answers struct {
	rls.UnimplementedRateLimitServiceServer
}

func (answers) ShouldRateLimit(_ context.Context, q *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	r := &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}
	for range q.Descriptors {
		r.Statuses = append(r.Statuses, &rls.RateLimitResponse_DescriptorStatus{
			Code:               rls.RateLimitResponse_OK,
			CurrentLimit:       &rls.RateLimitResponse_RateLimit{Name: "bench/user", RequestsPerUnit: 1_000_000, Unit: rls.RateLimitResponse_RateLimit_HOUR},
			LimitRemaining:     999_999,
			DurationUntilReset: &durationpb.Duration{Seconds: 1},
		})
	}
	return r, nil
}

func main() {
	if err := noop(); err != nil {
		fmt.Fprintln(os.Stderr, "nooptest:", err)
		os.Exit(1)
	}
}

// noop serves answers that decide nothing: gRPC by grpc-go, with as many
// streams and workers as weir's listener; /v1/check by net/http and encoding/json; /auth by
// net/http, which reads nothing of its query.
func noop() error {
	var config net.ListenConfig
	g, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := grpc.NewServer(
		grpc.MaxRecvMsgSize(listener.MaxMessage), grpc.MaxConcurrentStreams(h2.MaxStreams), grpc.NumStreamWorkers(256), grpc.MaxHeaderListSize(16<<10),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 15 * time.Minute, Time: 2 * time.Minute, Timeout: 20 * time.Second}),
	)
	rls.RegisterRateLimitServiceServer(s, answers{})
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/check", check)
	mux.HandleFunc("/auth", func(w http.ResponseWriter, _ *http.Request) { describe(w.Header()) })
	web := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	fmt.Printf("noop ready http=%s grpc=%s\n", h.Addr(), g.Addr())
	failed := make(chan error, 2)
	go func() { failed <- s.Serve(g) }()
	go func() { failed <- web.Serve(h) }()
	return <-failed
}

type question struct {
	Domain      string `json:"domain"`
	Descriptors []struct {
		Entries []struct {
			Key   string `json:"key"`
			Value string `json:"value"`
		} `json:"entries"`
		Cost int64 `json:"cost"`
	} `json:"descriptors"`
	Peek    bool `json:"peek"`
	Receipt bool `json:"receipt"`
}

type decision struct {
	Descriptor int     `json:"descriptor"`
	Rule       string  `json:"rule"`
	Limit      string  `json:"limit"`
	Outcome    string  `json:"outcome"`
	Cost       int64   `json:"cost"`
	Charged    bool    `json:"charged"`
	Remaining  int64   `json:"remaining"`
	Reset      float64 `json:"reset_after_seconds"`
	Shadow     bool    `json:"shadow"`
	Degraded   string  `json:"degraded"`
}

type answer struct {
	ID        string     `json:"id"`
	Allowed   bool       `json:"allowed"`
	Decisive  int        `json:"decisive"`
	Decisions []decision `json:"decisions"`
}

func check(w http.ResponseWriter, r *http.Request) {
	var q question
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a := answer{ID: "f46fb4dcf60644d5", Allowed: true}
	for i := range q.Descriptors {
		a.Decisions = append(a.Decisions, decision{
			Descriptor: i, Rule: "bench/user", Limit: "1000000/h", Outcome: "allowed", Cost: 1, Charged: true, Remaining: 999_999, Reset: 0.0036,
		})
	}
	w.Header().Set("Content-Type", "application/json")
	describe(w.Header())
	_ = json.NewEncoder(w).Encode(&a) // the client may be gone
}

func describe(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("RateLimit-Policy", `"bench/user";q=1000000;w=3600`)
	h.Set("RateLimit", `"bench/user";r=999999`)
}
