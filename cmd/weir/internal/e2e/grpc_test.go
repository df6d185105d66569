package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// envoyTimeout is Envoy's own, when its configuration names none.
const envoyTimeout = 20 * time.Millisecond

// TestEnvoyClient asks as Envoy does: one connection, 20 ms for an answer, and
// who gets none is let pass.
func TestEnvoyClient(t *testing.T) {
	t.Parallel()
	d := edge(t)
	conn, err := grpc.NewClient(d.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stub := rls.NewRateLimitServiceClient(conn)
	ask := func(key string) (*rls.RateLimitResponse, error) {
		ctx, cancel := context.WithTimeout(t.Context(), envoyTimeout)
		defer cancel()
		return stub.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "edge", Descriptors: []*ratelimit.RateLimitDescriptor{{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "route", Value: "export"}, {Key: "api_key", Value: key}},
		}}})
	}

	watch := health(t, conn)
	expectHealth(t, watch, grpc_health_v1.HealthCheckResponse_SERVING)

	// A machine may be too busy for 20 ms; such a call is charged or not, and
	// tells nothing.
	passed := 0
	eventually(t, "nothing was over the limit", func() bool {
		r, err := ask("ann")
		if status.Code(err) == codes.DeadlineExceeded {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		s := r.GetStatuses()[0]
		if r.GetOverallCode() == rls.RateLimitResponse_OK {
			passed++
			return false
		}
		if s.GetCode() != rls.RateLimitResponse_OVER_LIMIT || s.GetLimitRemaining() != 0 || s.GetDurationUntilReset().AsDuration() > 720*time.Second ||
			s.GetCurrentLimit().GetRequestsPerUnit() != 5 || s.GetCurrentLimit().GetUnit() != rls.RateLimitResponse_RateLimit_HOUR {
			t.Errorf("over the limit: %v", r)
		}
		return true
	})
	if passed > 5 {
		t.Errorf("%d passed", passed)
	}
	drains(t, d, watch, ask)
}

// drains: a daemon that is told to stop says so to who watches, and loses no
// call of those who listen.
func drains(t *testing.T, d *daemon, watch grpc_health_v1.Health_WatchClient, ask func(string) (*rls.RateLimitResponse, error)) {
	t.Helper()
	stopped := make(chan error, 1)
	go func() { stopped <- d.stop() }()
	for i := 0; ; i++ {
		if _, err := ask(fmt.Sprint("drain", i)); err != nil && status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("call %d: %v", i, err)
			break
		}
		if d.says("draining") { // and its health says so from now on
			break
		}
	}
	expectHealth(t, watch, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	if _, err := ask("late"); err != nil && status.Code(err) != codes.DeadlineExceeded && status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := watch.Recv(); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the watch goes on: %v", err)
	}
}

func health(t *testing.T, conn *grpc.ClientConn) grpc_health_v1.Health_WatchClient {
	t.Helper()
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return watch
}

func expectHealth(t *testing.T, watch grpc_health_v1.Health_WatchClient, want grpc_health_v1.HealthCheckResponse_ServingStatus) {
	t.Helper()
	got, err := watch.Recv()
	if err != nil || got.GetStatus() != want {
		t.Fatalf("health is %v (%v), not %v", got.GetStatus(), err, want)
	}
}
