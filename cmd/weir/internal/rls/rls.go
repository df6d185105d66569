// Package rls is the gRPC listener: Envoy's rate limit service and its rate limit quota service, version 3, and
// gRPC's health service beside them.
package rls

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	quota "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weir-limit/weir/cmd/weir/internal/envoy"
	"github.com/weir-limit/weir/cmd/weir/internal/h2"
	"github.com/weir-limit/weir/cmd/weir/internal/overload"
	"github.com/weir-limit/weir/cmd/weir/internal/rlqs"
	"github.com/weir-limit/weir/internal/here"
	"github.com/weir-limit/weir/rules"
)

// The bounds of the listener.
const (
	// MaxMessage is how large a request may be; larger ones are answered with
	// RESOURCE_EXHAUSTED.
	MaxMessage = 2 << 20
	// workers is how many goroutines wait for calls that must wait for a store. One that is made for a call
	// alone grows its stack each time. When all are busy, calls get goroutines of their own; idle, they hold
	// 8 KiB each.
	workers = 256
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
	// Answers are what answers to Envoy have beside the decision.
	Answers envoy.Options
	// Shadowed is called for each denial that Answers.Shadow lets pass. Nil: nobody is told.
	Shadowed func()
	// Trace is called before each call, and may give it a context. The server calls end afterwards,
	// unless it is nil. Nil: nobody traces.
	Trace func(context.Context) (traced context.Context, end func(codes.Code))
	// MaxAge is for how long a connection takes calls, or up to a tenth more. Zero: for ever.
	MaxAge time.Duration
	// Store is how the store is lent to programs. Nil: it is not.
	Store *Lending
	// Quotas is Envoy's rate limit quota service. Nil: there is none.
	Quotas *rlqs.Service
	// Here is that the limiter never waits, and the store that is lent neither: calls are then answered on the
	// goroutine that reads their connection.
	Here bool
	// Tries is that the limiter can tell a caller that must not wait (package here) whether it would have to: calls are then answered on that
	// goroutine where they need not wait. It is of no use beside Here.
	Tries bool
	// Panicked is called after a call that panicked was answered with INTERNAL.
	Panicked func()
}

// Server is the gRPC listener. It is made by New.
type Server struct {
	limiter  envoy.Limiter
	options  Options
	methods  map[string]*method // by path
	messages sync.Pool          // of *message
	http     *h2.Server
	grpc     *grpc.Server // what is left: health, and what there is not
	health   *healthService

	running sync.WaitGroup
	work    chan func()
	closing chan struct{}
	closed  sync.Once
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
	s := &Server{
		limiter: limiter, options: o, health: newHealthService(), grpc: grpc.NewServer(grpc.MaxRecvMsgSize(MaxMessage)),
		methods: map[string]*method{}, work: make(chan func()), closing: make(chan struct{}),
	}
	s.methods[rls.RateLimitService_ShouldRateLimit_FullMethodName] = &method{name: "ShouldRateLimit", answer: s.shouldRateLimit}
	if o.Store != nil {
		newLender(s).register(s.methods)
	}
	services := map[string]bool{}
	for path, m := range s.methods {
		m.serve = s.serving(m)
		services[path[1:strings.LastIndexByte(path, '/')]] = true
	}
	for name := range services { // gRPC says of other methods that there are none
		s.grpc.RegisterService(&grpc.ServiceDesc{ServiceName: name}, nil)
	}
	healthpb.RegisterHealthServer(s.grpc, s.health)
	if o.Quotas != nil {
		quota.RegisterRateLimitQuotaServiceServer(s.grpc, o.Quotas)
	}
	s.http = h2.NewServer(h2.Config{
		Fast: s.fast, Rest: http.HandlerFunc(s.rest), TLS: o.TLS, Gate: o.Gate, Budget: o.Budget, Refused: o.Refused,
		HandshakeFailed: o.HandshakeFailed, Connect: s.clientOf, MaxAge: o.MaxAge,
		Panicked: func(where string, p any) { _ = s.panicked(where, p) },
	})
	s.begin()
	s.SetServing(false)
	return s
}

// clientOf is what Options.Client says of the address that a connection comes from.
func (s *Server) clientOf(c net.Conn) any {
	if s.options.Client == nil || c.RemoteAddr() == nil {
		return ""
	}
	return s.options.Client(c.RemoteAddr().String())
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
	if err := s.http.Serve(l); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Stop closes the listeners and answers the calls that are in flight. When ctx
// ends first, those that are left get no answer. Then it waits for them.
func (s *Server) Stop(ctx context.Context) error {
	s.health.close()
	if s.options.Quotas != nil {
		s.options.Quotas.Close()
	}
	err := s.http.Shutdown(ctx)
	s.closed.Do(func() { close(s.closing) })
	s.running.Wait()
	s.grpc.Stop()
	return err
}

// Reasons for which calls are refused.
const (
	ReasonWait = "wait" // work waits too long for a processor
	ReasonLate = "late" // the caller gave up before its turn came
	// And those for which connections are closed.
	ReasonSlow   = h2.ReasonSlow
	ReasonUnread = h2.ReasonUnread
	ReasonFlood  = h2.ReasonFlood
)

// Reasons are all that Options.Refused is called with.
func Reasons() []string {
	return []string{ReasonWait, ReasonLate, ReasonSlow, ReasonUnread, ReasonFlood}
}

// panicked tells of a call that panicked, and is its answer.
func (s *Server) panicked(route string, p any) error {
	s.options.Log.Error("a call panicked", "route", route, "panic", p, "stack", string(debug.Stack()))
	s.options.Panicked()
	return status.Error(codes.Internal, "this is a bug of the daemon; its log says more")
}

// from is the limiter of a call: it is told who asks.
type from struct {
	server *Server
	client string // of Options.Client
}

// CheckInto is that of the limiter.
func (f *from) CheckInto(ctx context.Context, r *rules.Request, a *rules.Answer) error {
	r.Client = f.client
	err := f.server.limiter.CheckInto(ctx, r, a)
	if o := &f.server.options; err == nil && o.Answers.Shadow && !a.Allowed && o.Shadowed != nil {
		o.Shadowed()
	}
	return err
}

// shouldRateLimit answers one call.
func (s *Server) shouldRateLimit(ctx context.Context, m *message, dst []byte) ([]byte, error) {
	out, err := m.wire.Answer(ctx, &m.from, m.text, s.options.Answers, dst)
	if err == nil {
		return out, nil
	}
	if bad, ok := errors.AsType[*envoy.RequestError](err); ok {
		return dst, status.Error(codes.InvalidArgument, bad.Error())
	}
	switch {
	case errors.Is(err, here.ErrWaits):
		return dst, here.ErrWaits
	case errors.Is(err, rules.ErrNoRules):
		return dst, status.Error(codes.Unavailable, "no rules are loaded yet; try again when the health service says so")
	case ctx.Err() != nil:
		return dst, status.FromContextError(ctx.Err()).Err()
	}
	s.options.Log.Error("a call failed", "route", "ShouldRateLimit", "error", err)
	return dst, status.Error(codes.Unavailable, "the daemon could not decide; its log says why")
}
