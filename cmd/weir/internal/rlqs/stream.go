package rlqs

import (
	"context"
	"errors"
	"io"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Service is the gRPC service of a Server, until it is closed.
type Service struct {
	rlqs.UnimplementedRateLimitQuotaServiceServer

	server  *Server
	closing context.Context // has no other owner: it is how Close reaches the streams
	close   context.CancelFunc
}

// NewService makes the service.
func NewService(s *Server) *Service {
	v := &Service{server: s}
	v.closing, v.close = context.WithCancel(context.Background())
	return v
}

// Close ends all streams. Proxies go by what they have until it ends, and report to another daemon.
func (v *Service) Close() { v.close() }

// StreamRateLimitQuotas answers the reports of a proxy, one after the other: the next is read when the answer to the
// last was sent, so that no more than one waits here.
func (v *Service) StreamRateLimitQuotas(stream rlqs.RateLimitQuotaService_StreamRateLimitQuotasServer) error {
	x, err := v.server.Open()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { // for nothing else ends a Recv
		defer x.Close()
		ended <- v.serve(x, stream)
	}()
	select {
	case err := <-ended:
		return err
	case <-v.closing.Done():
		return status.Error(codes.Unavailable, "the daemon stops; report to another one")
	}
}

func (v *Service) serve(x *Session, stream rlqs.RateLimitQuotaService_StreamRateLimitQuotasServer) error {
	for begun := false; ; begun = true {
		q, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !begun { // from here on the stream is not one whose request is late
			if err := stream.SendHeader(metadata.MD{}); err != nil {
				return err
			}
		}
		now := time.Now()
		answer, err := x.Report(stream.Context(), now, q)
		if err != nil {
			return err
		}
		if answer == nil {
			continue
		}
		if time.Since(now) >= Delay/2 {
			v.server.count(Late, 1)
			continue // what it says began too long ago; the next report gets it anew
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
		if time.Since(now) >= Delay {
			v.server.count(Late, 1)
			return status.Error(codes.Unavailable, "an answer could not be sent in time; open the stream again")
		}
	}
}
