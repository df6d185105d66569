package rls

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthService is gRPC's health service whose watchers are sent away when the
// listener closes. They would stay for ever, and closing would wait for them.
type healthService struct {
	*health.Server

	closing context.Context // has no other owner: it is how Stop reaches the watchers
	close   context.CancelFunc
}

func newHealthService() *healthService {
	h := &healthService{Server: health.NewServer()}
	h.closing, h.close = context.WithCancel(context.Background())
	return h
}

// Watch tells a client whenever the health of a service changes.
func (h *healthService) Watch(q *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(h.closing, cancel)()
	err := h.Server.Watch(q, &watch{stream, ctx})
	if h.closing.Err() != nil {
		return status.Error(codes.Unavailable, "the daemon stops")
	}
	return err
}

// watch is a stream that also ends when the listener closes.
type watch struct {
	healthpb.Health_WatchServer

	ctx context.Context
}

// Context ends with the stream, or with the listener.
func (w *watch) Context() context.Context { return w.ctx }
