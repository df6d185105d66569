package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/admission"
	"github.com/weir-limit/weir/internal/sleep"
	"github.com/weir-limit/weir/rules"
)

// Server has the interceptors of a server: Unary and Stream. They may be used by
// several servers at once.
type Server struct {
	options Options
	gate    admission.Gate

	rules    []rule   // of a program
	describe Describe // for rules of a file; else nil

	warned [2]atomic.Bool // of what is told once
}

func newServer(o Options) *Server {
	s := &Server{options: o}
	s.gate.Unsettled = func(ctx context.Context, err error) { s.warn(warnedKept, ctx, err) } // its ttl frees it
	return s
}

// NewServer makes interceptors that hold calls to rules, whose counts live in
// store. The error names every fault of the rules, and limits that the store can't keep.
func NewServer(store weir.Store, all []Rule, o Options) (*Server, error) {
	checked, err := check(all, store)
	if err != nil {
		return nil, err
	}
	s := newServer(o)
	s.gate.Store, s.rules = store, checked
	return s, nil
}

// Describe tells the rules of a file what a call is. message is the request of a
// unary call, and nil for a stream. A call without descriptors meets no rule and
// passes.
type Describe func(ctx context.Context, method string, message any) []rules.Descriptor

// NewServerFromRules makes interceptors that ask the rules of a domain, from a
// rule file: the rules then say which client may do what, not the program. Rules may be replaced at
// any time. The limiter may have no rules yet. If it has some, the domain is among them, and its
// store keeps their limits: else NewServerFromRules fails. A stream is asked about when it begins.
func NewServerFromRules(limiter *rules.Limiter, domain string, describe Describe, o Options) (*Server, error) {
	var faults []error
	if err := admission.DomainFault(limiter, domain); err != nil {
		faults = append(faults, fmt.Errorf("grpclimit: %w", err))
	}
	if describe == nil {
		faults = append(faults, errors.New("grpclimit: no function describes the calls; pass one that makes their descriptors"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	s := newServer(o)
	s.gate.Limiter, s.gate.Domain, s.describe = limiter, domain, describe
	return s, nil
}

// Unary is a grpc.UnaryServerInterceptor.
func (s *Server) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	marked, pass := s.passes(ctx, info.FullMethod)
	if pass {
		return handler(ctx, request)
	}
	all := func(*Rule) bool { return true }
	trailer := func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) } // fails outside of a server only
	held, err := s.admit(ctx, info.FullMethod, request, all, trailer)
	if err != nil {
		return nil, err
	}
	defer held.End(true)
	return handler(marked, request)
}

// Stream is a grpc.StreamServerInterceptor.
func (s *Server) Stream(service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx := stream.Context()
	marked, pass := s.passes(ctx, info.FullMethod)
	if pass {
		return handler(service, stream)
	}
	calls := func(r *Rule) bool { return !r.Messages }
	held, err := s.admit(ctx, info.FullMethod, nil, calls, stream.SetTrailer)
	if err != nil {
		return err
	}
	defer held.End(true)
	return handler(service, &counted{ServerStream: stream, ctx: marked, server: s, method: info.FullMethod})
}

// counted is a stream whose messages are counted.
type counted struct {
	grpc.ServerStream

	ctx    context.Context
	server *Server
	method string
}

func (c *counted) Context() context.Context { return c.ctx }

// RecvMsg is the next message, if the rules that count messages let it pass.
func (c *counted) RecvMsg(message any) error {
	if err := c.ServerStream.RecvMsg(message); err != nil || c.server.describe != nil {
		return err
	}
	messages := func(r *Rule) bool { return r.Messages }
	held, err := c.server.admit(c.ctx, c.method, message, messages, c.SetTrailer)
	held.End(true) // a plan with permits: a message is done when it has come
	return err
}

// passes is whether a call is not counted: it is skipped, or was counted already
// by the same interceptors. marked is the context by which these know it again.
func (s *Server) passes(ctx context.Context, method string) (marked context.Context, yes bool) {
	if s.options.Skip != nil && s.options.Skip(method) {
		return ctx, true
	}
	if ctx.Value(s) != nil {
		s.warn(warnedTwice, ctx, errTwice)
		return ctx, true
	}
	return context.WithValue(ctx, s, true), false
}

var errTwice = errors.New("a call has met the same interceptors twice, and was counted once; register them once")

// The warnings that are logged once.
const (
	warnedTwice = iota
	warnedKept
)

func (s *Server) warn(what int, ctx context.Context, err error) {
	if s.options.Log != nil && !s.warned[what].Swap(true) {
		s.options.Log.WarnContext(ctx, "grpclimit", "error", err)
	}
}

// admit returns when a call may go, and what has to be settled when it ends, or
// the status of a call that may not.
func (s *Server) admit(ctx context.Context, method string, message any, which func(*Rule) bool, trailer func(metadata.MD)) (*admission.Charge, error) {
	c, err := s.decide(ctx, method, message, which)
	if err != nil {
		return nil, s.failed(ctx, method, err)
	}
	if len(c.Shadows) > 0 {
		s.report(ctx, method, &Denial{Rules: c.Shadows, Shadow: true, Passed: c.Allowed})
	}
	if !c.Allowed {
		s.report(ctx, method, denial(c))
		trailer(s.pushback(c))
		return nil, s.status(c).Err()
	}
	var held *admission.Charge
	if s.gate.Charges(c) {
		held = new(admission.Charge)
		s.gate.Charge(ctx, c, held)
	}
	if c.Hold > 0 && sleep.For(ctx, c.Hold) != nil {
		held.GiveBack()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return held, nil
}

// failed is what becomes of a call about which nothing was decided: nil lets it
// pass.
func (s *Server) failed(ctx context.Context, method string, err error) error {
	d := &Denial{Err: err}
	switch {
	case admission.Malformed(err):
		s.report(ctx, method, d)
		return status.Error(codes.InvalidArgument, "the call can't be counted: its key or its cost is missing")
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case s.options.FailOpen:
		d.Passed = true
		s.report(ctx, method, d)
		return nil
	}
	s.report(ctx, method, d)
	return status.Error(codes.Unavailable, "whether the call may pass could not be decided; come back later")
}

func (s *Server) report(ctx context.Context, method string, d *Denial) {
	if s.options.OnDenied != nil {
		s.options.OnDenied(ctx, method, d)
	}
}
