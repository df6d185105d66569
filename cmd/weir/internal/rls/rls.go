// Package rls is the gRPC listener: Envoy's rate limit service, version 3, and
// gRPC's health service beside it.
package rls

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/weir-limit/weir/cmd/weir/internal/envoy"
	"github.com/weir-limit/weir/cmd/weir/internal/overload"
	"github.com/weir-limit/weir/internal/storewire"
	"github.com/weir-limit/weir/rules"
)

// The bounds of the listener.
const (
	// MaxMessage is how large a request may be; larger ones are answered with
	// RESOURCE_EXHAUSTED.
	MaxMessage = 2 << 20
	// maxStreams is how many calls a connection may have in flight. More wait at
	// the client, and Envoy opens another connection. Under overload it is less.
	maxStreams = 256
	// workers is how many goroutines wait for calls. One that is made for a call
	// alone grows its stack each time, which was a fifth of a call's cost. When all
	// are busy, calls get goroutines of their own; idle, they hold 8 KiB each.
	workers = 256
	// maxHeaders is how large the metadata of a call may be.
	maxHeaders = 16 << 10
	// handshake is how long a connection may take to be set up.
	handshake = 10 * time.Second
	// idle is how long a connection may be without calls; pingEvery and
	// pingTimeout find those whose client is gone.
	idle        = 15 * time.Minute
	pingEvery   = 2 * time.Minute
	pingTimeout = 20 * time.Second
	// pingLeast is how often a client may ping at most.
	pingLeast = 5 * time.Second
)

// serviceName is what clients of envoyproxy/ratelimit ask the health of.
const serviceName = "ratelimit"

// Options of the listener.
type Options struct {
	// Client is what of a client's address bounds how many different limits it may
	// bring. Nil: all are one client.
	Client func(address string) string
	// TLS is how connections are made safe. Nil: they are not.
	TLS *tls.Config
	// HandshakeFailed is called after each handshake of TLS that failed.
	HandshakeFailed func()
	// Log gets the errors that are the daemon's own. Nil logs nothing.
	Log *slog.Logger
	// Gate says how much the listener may take. Nil takes everything.
	Gate *overload.Gate
	// Budget is what calls may hold together that are not answered. Nil bounds nothing.
	Budget *overload.Budget
	// Refused is called for each call that is refused because too much is
	// asked, and for each connection that is closed for it, with the reason, one of
	// Reasons.
	Refused func(reason string)
	// Observe is called after each call.
	Observe func(code codes.Code, took time.Duration)
	// Echo tells Envoy in the dynamic metadata of each answer what was asked.
	Echo bool
	// Trace is called before each call, and may give it a context. The server calls end afterwards,
	// unless it is nil. Nil: nobody traces.
	Trace func(context.Context) (traced context.Context, end func(codes.Code))
	// Store is how the store is lent to programs. Nil: it is not.
	Store *Lending
	// Panicked is called after a call that panicked was answered with INTERNAL.
	Panicked func()
}

// Server is the gRPC listener. It is made by New.
type Server struct {
	rls.UnimplementedRateLimitServiceServer

	limiter envoy.Limiter
	options Options
	grpc    *grpc.Server
	health  *healthService
}

// New makes the listener to limiter. Its health is NOT_SERVING until SetServing.
func New(limiter envoy.Limiter, o Options) *Server {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Gate = cmp.Or(o.Gate, new(overload.Gate))
	if o.Refused == nil {
		o.Refused = func(string) {}
	}
	o.Budget = cmp.Or(o.Budget, new(overload.Budget))
	if o.Observe == nil {
		o.Observe = func(codes.Code, time.Duration) {}
	}
	if o.Panicked == nil {
		o.Panicked = func() {}
	}
	if o.HandshakeFailed == nil {
		o.HandshakeFailed = func() {}
	}
	s := &Server{limiter: limiter, options: o, health: newHealthService()}
	safe := insecure.NewCredentials()
	if o.TLS != nil {
		safe = credentials.NewTLS(o.TLS)
	}
	s.grpc = grpc.NewServer(append(
		ServerOptions(), grpc.Creds(&watching{safe, o.Gate, o.Budget, o.Refused, o.HandshakeFailed, o.Client}), grpc.ForceServerCodecV2(newCodec()), grpc.InTapHandle(s.admit),
	)...)
	s.grpc.RegisterService(&grpc.ServiceDesc{
		ServiceName: rls.RateLimitService_ServiceDesc.ServiceName,
		HandlerType: rls.RateLimitService_ServiceDesc.HandlerType,
		Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: s.handle}},
		Metadata:    rls.RateLimitService_ServiceDesc.Metadata,
	}, s)
	if o.Store != nil {
		s.grpc.RegisterService(newLender(s).service(), nil)
	}
	healthpb.RegisterHealthServer(s.grpc, s.health)
	s.SetServing(false)
	return s
}

// ServerOptions bound what a client can do to a server. They are for the listener,
// and for a server that is measured beside it.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessage),
		grpc.RPCDecompressor(unpacker{}), //nolint:staticcheck // nothing else bounds what one server unpacks
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.NumStreamWorkers(workers),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ConnectionTimeout(handshake),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idle, Time: pingEvery, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingLeast, PermitWithoutStream: true}),
	}
}

// SetServing says what the health service answers.
func (s *Server) SetServing(yes bool) {
	state := healthpb.HealthCheckResponse_NOT_SERVING
	if yes {
		state = healthpb.HealthCheckResponse_SERVING
	}
	for _, name := range []string{"", serviceName, rls.RateLimitService_ServiceDesc.ServiceName} {
		s.health.SetServingStatus(name, state)
	}
}

// Serve answers calls on l until Stop. It closes l.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Stop closes the listeners and answers the calls that are in flight. When ctx
// ends first, those that are left get no answer.
func (s *Server) Stop(ctx context.Context) error {
	s.health.close()
	done := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
		return ctx.Err()
	}
}

// Reasons for which calls are refused.
const (
	ReasonWait = "wait" // work waits too long for a processor
	ReasonLate = "late" // the caller gave up before its turn came
	// And those for which connections are closed.
	ReasonSlow   = "slow"   // a call did not arrive in time
	ReasonUnread = "unread" // its answers are not read
	ReasonFlood  = "flood"  // frames ask nothing
)

// Reasons are all that Options.Refused is called with.
func Reasons() []string {
	return []string{ReasonWait, ReasonLate, ReasonSlow, ReasonUnread, ReasonFlood}
}

// admit is a tap.ServerInHandle: it refuses before a call has cost much. Health
// is always told. UNAVAILABLE lets Envoy apply its failure mode, and stock
// clients ask another daemon; RESOURCE_EXHAUSTED would look like a decision.
func (s *Server) admit(ctx context.Context, call *tap.Info) (context.Context, error) {
	forStore := strings.HasPrefix(call.FullMethodName, "/"+storewire.Service+"/")
	if s.options.Gate.Shut() && (forStore || call.FullMethodName == rls.RateLimitService_ShouldRateLimit_FullMethodName) {
		s.options.Refused(ReasonWait)
		return ctx, status.Error(codes.Unavailable, "more is asked than can be decided in time; ask again later, or another daemon")
	}
	if forStore && s.options.Store != nil {
		return ctx, s.options.Store.admit(call.Header)
	}
	return ctx, nil
}

// handle is a grpc.MethodHandler in place of the generated one. Whatever
// happens in a call, the process lives on.
func (s *Server) handle(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (response any, err error) {
	start := time.Now()
	if s.options.Trace != nil {
		var end func(codes.Code)
		if ctx, end = s.options.Trace(ctx); end != nil {
			defer func() { end(status.Code(err)) }()
		}
	}
	defer func() {
		if p := recover(); p != nil {
			response, err = nil, s.panicked("ShouldRateLimit", p)
		}
		s.options.Observe(status.Code(err), time.Since(start))
	}()
	if ctx.Err() != nil { // nobody waits for it, so nothing is charged
		s.options.Refused(ReasonLate)
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	s.options.Gate.Begin()
	defer s.options.Gate.End()
	in := new(inbound)
	if err := decode(in); err != nil {
		return nil, err
	}
	q := new(rls.RateLimitRequest)
	if err := in.read(func(wire []byte) error { return envoy.Unmarshal(wire, q) }); err != nil {
		return nil, unread("the request is no RateLimitRequest: ", err)
	}
	return s.ShouldRateLimit(ctx, q)
}

// unread is the answer to a call whose bytes are no request: unless they say what is
// wrong themselves, what they are not comes first.
func unread(not string, err error) error {
	if _, ok := errors.AsType[*envoy.RequestError](err); ok {
		not = ""
	}
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	return status.Error(codes.InvalidArgument, not+err.Error())
}

// panicked tells of a call that panicked, and is its answer.
func (s *Server) panicked(route string, p any) error {
	s.options.Log.Error("a call panicked", "route", route, "panic", p, "stack", string(debug.Stack()))
	s.options.Panicked()
	return status.Error(codes.Internal, "this is a bug of the daemon; its log says more")
}

// clientOf is what Options.Client says of the address that a call comes from.
func clientOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		if from, ok := p.Addr.(caller); ok {
			return from.client
		}
	}
	return ""
}

// from is the limiter of a call: it is told who asks.
type from struct {
	server *Server
	client string
}

// Check is that of the limiter.
func (f from) Check(ctx context.Context, r *rules.Request) (*rules.Answer, error) {
	r.Client = f.client
	return f.server.limiter.Check(ctx, r)
}

// ShouldRateLimit answers one call.
func (s *Server) ShouldRateLimit(ctx context.Context, q *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	response, err := envoy.ShouldRateLimit(ctx, from{s, clientOf(ctx)}, q, s.options.Echo)
	if err == nil {
		return response, nil
	}
	if _, ok := errors.AsType[*envoy.RequestError](err); ok {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	switch {
	case errors.Is(err, rules.ErrNoRules):
		return nil, status.Error(codes.Unavailable, "no rules are loaded yet; try again when the health service says so")
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	s.options.Log.Error("a call failed", "route", "ShouldRateLimit", "error", err)
	return nil, status.Error(codes.Unavailable, "the daemon could not decide; its log says why")
}
