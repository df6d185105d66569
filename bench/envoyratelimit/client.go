package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// callTimeout is how long a server may take for one answer.
const callTimeout = 5 * time.Second

// client talks to one server.
type client struct {
	name string
	http string // HOST:PORT
	conn *grpc.ClientConn
	rls  rls.RateLimitServiceClient
}

func dial(name, httpAddr, grpcAddr string) (*client, error) {
	conn, err := grpc.NewClient(grpcAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", name, err)
	}
	return &client{name: name, http: httpAddr, conn: conn, rls: rls.NewRateLimitServiceClient(conn)}, nil
}

// ask sends one request. An error that the server answers is an answer here, not an error.
func (c *client) ask(ctx context.Context, q *rls.RateLimitRequest, json bool) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if json {
		return c.post(ctx, q)
	}
	r, err := c.rls.ShouldRateLimit(ctx, q)
	switch code := grpcstatus.Code(err); code {
	case codes.OK:
		return answerOf(r), nil
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return answer{}, fmt.Errorf("ask %s: %w", c.name, err)
	default:
		return answer{Err: code.String()}, nil
	}
}

// post asks by POST /json.
func (c *client) post(ctx context.Context, q *rls.RateLimitRequest) (answer, error) {
	body, err := protojson.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	code, text, err := c.do(ctx, http.MethodPost, "/json", body)
	if err != nil {
		return answer{}, err
	}
	if code != http.StatusOK && code != http.StatusTooManyRequests {
		return answer{Err: strconv.Itoa(code)}, nil
	}
	var r rls.RateLimitResponse
	if err := protojson.Unmarshal(text, &r); err != nil {
		return answer{}, fmt.Errorf("read the answer of %s: %w", c.name, err)
	}
	if (code == http.StatusOK) != (r.GetOverallCode() == rls.RateLimitResponse_OK) {
		return answer{Err: fmt.Sprintf("%d with %v", code, r.GetOverallCode())}, nil
	}
	return answerOf(&r), nil
}

// do sends one HTTP request.
func (c *client) do(ctx context.Context, method, path string, body []byte) (code int, text []byte, err error) {
	q, err := http.NewRequestWithContext(ctx, method, "http://"+c.http+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", c.name, err)
	}
	defer r.Body.Close() // it was only read
	text, err = io.ReadAll(io.LimitReader(r.Body, 1<<20))
	return r.StatusCode, text, err
}

// health asks gRPC's health service about a service name.
func (c *client) health(ctx context.Context, service string) string {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := healthpb.NewHealthClient(c.conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		return grpcstatus.Code(err).String()
	}
	return r.GetStatus().String()
}

func codeOf(err error) string { return grpcstatus.Code(err).String() }
