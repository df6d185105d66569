package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/lane"
	"github.com/weir-limit/weir/internal/limittext"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/internal/storewire"
)

// How a connection is kept.
const (
	// firstPause and lastPause bound the time between tries to connect to a daemon
	// that is away.
	firstPause = 50 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	// dialTimeout is how long one may take.
	dialTimeout = time.Second
	// pingEvery and lostAfter find a daemon that is gone without a word. The listener
	// allows no more pings.
	pingEvery = 10 * time.Second
	lostAfter = 5 * time.Second
)

// daemon is one that is asked.
type daemon struct {
	name   string
	token  string // empty: none
	conn   *grpc.ClientConn
	lane   lane.Lane[*call]
	limits *limittext.Cache
	counts *counts
	traits atomic.Pointer[weir.Traits] // nil before it was asked
	skew   atomic.Int64                // its store's clock less ours, microseconds
	late   atomic.Int32                // calls in a row that were not answered in time
	away   atomic.Bool                 // another is asked, of the same store
}

// now is what the clock of its store is thought to show.
func (d *daemon) now() weir.Instant {
	return weir.InstantOf(time.Now()) + weir.Instant(d.skew.Load())
}

// sight is what a denial stood on, or a take that asks for its evidence, of each ask; the
// zero sight is of all else.
type sight struct {
	now    weir.Instant
	states []weir.State
}

// dial makes the connection, which connects by itself as soon as it is used.
func dial(p *place, limits *limittext.Cache, counts *counts) (*daemon, error) {
	d := &daemon{name: p.name, token: p.token, limits: limits, counts: counts}
	conn, err := grpc.NewClient(
		p.target,
		grpc.WithAuthority(p.authority),
		grpc.WithTransportCredentials(p.safe),
		grpc.WithDisableRetry(), // an answer that was lost may have been a charge
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 2, Jitter: 0.2, MaxDelay: lastPause},
			MinConnectTimeout: dialTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: lostAfter}),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(codec{}),
			grpc.MaxCallRecvMsgSize(storewire.MaxMessage), grpc.MaxCallSendMsgSize(storewire.MaxMessage),
		),
		grpc.WithPerRPCCredentials(bearer(p.token)),
	)
	if err != nil {
		return nil, &URLError{fmt.Sprintf("%q: %v", p.name, err)}
	}
	d.conn = conn
	d.lane.Name, d.lane.Run, d.lane.Together, d.lane.Alone = "client", d.run, together, alone
	return d, nil
}

// bearer is a token that calls show; empty: none.
type bearer string

// GetRequestMetadata is what calls show.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if b == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity is false: Open refuses tokens that could be read on the
// way.
func (bearer) RequireTransportSecurity() bool { return false }

// call sends a message and reads the answer.
func (d *daemon) call(ctx context.Context, method string, q storewire.Written, r storewire.Read) error {
	return d.explain(ctx, d.conn.Invoke(ctx, method, q, r))
}

// explain is an error of a call as callers and the guard know it.
func (d *daemon) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	said := status.Convert(err)
	switch is := said.Code(); {
	case is == codes.InvalidArgument || is == codes.ResourceExhausted:
		return &record.AskError{Err: fmt.Errorf("client: daemon %s: %s", d.name, said.Message())}
	case is == codes.Unimplemented:
		return &RefusedError{d.name, "it does not offer its store to programs; start it with --grpc-store"}
	case is == codes.Unauthenticated || is == codes.PermissionDenied:
		return &RefusedError{d.name, said.Message()}
	case ctx.Err() != nil:
		return lane.Late("client", ctx.Err())
	}
	return fmt.Errorf("client: daemon %s: %s: %w", d.name, said.Message(), weir.ErrAway)
}

// run asks the daemon what calls want.
func (d *daemon) run(ctx context.Context, calls []*call) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	q := make(storewire.Batch, len(calls))
	for i, c := range calls {
		q[i] = c.take
	}
	d.counts.takes.Add(int64(len(calls)))
	d.counts.messages.Add(1)
	r := storewire.TakeResponse{Limits: d.limits.Get}
	err := d.call(ctx, storewire.Take, q, &r)
	if err == nil && len(r.Answers) != len(calls) {
		err = fmt.Errorf("client: daemon %s: %d answers to %d takes", d.name, len(r.Answers), len(calls))
	}
	for i, c := range calls {
		if c.Err = err; err == nil {
			c.answer = r.Answers[i]
		}
	}
}

// take decides asks, and tells what a denial stood on.
func (d *daemon) take(ctx context.Context, asks []weir.Ask, out []weir.Decision) (sight, error) {
	c := &call{take: storewire.AppendTake(nil, asks), parts: 1 + len(asks)}
	if len(c.take) > storewire.MaxMessage || c.parts > storewire.MaxParts {
		return sight{}, &record.AskError{Err: fmt.Errorf("client: a take of %d asks in %d bytes; there may be %d in %d: write shorter keys, or ask for less at once",
			len(asks), len(c.take), storewire.MaxParts-1, storewire.MaxMessage)}
	}
	if err := d.lane.Do(ctx, c); err != nil {
		return sight{}, err
	}
	switch decisions := c.answer.Decisions; {
	case c.answer.Err != nil:
		return sight{}, c.answer.Err
	case len(decisions) != len(asks):
		return sight{}, fmt.Errorf("client: daemon %s: %d decisions for %d asks", d.name, len(decisions), len(asks))
	default:
		copy(out, decisions)
	}
	for i := range out {
		if r := out[i].Receipt; r != nil && r.Limit.String() == asks[i].Limit.String() {
			r.Limit = asks[i].Limit
		}
	}
	if len(c.answer.States) > 0 {
		d.skew.Store(int64(c.answer.Now - weir.InstantOf(time.Now())))
	}
	return sight{c.answer.Now, c.answer.States}, nil
}

// describe asks what the daemon promises, and why it can't keep limits.
func (d *daemon) describe(ctx context.Context, limits ...string) ([]string, error) {
	var r storewire.DescribeResponse
	if err := d.call(ctx, storewire.Describe, &storewire.DescribeRequest{Limits: limits}, &r); err != nil {
		return nil, err
	}
	if len(r.Unfit) != len(limits) {
		return nil, fmt.Errorf("client: daemon %s: %d answers about %d limits", d.name, len(r.Unfit), len(limits))
	}
	d.traits.Store(&r.Traits)
	return r.Unfit, nil
}

// do asks for what has no answer but that it is done.
func (d *daemon) do(ctx context.Context, method string, q storewire.Written) error {
	var r storewire.FaultResponse
	return errors.Join(d.call(ctx, method, q, &r), r.Err)
}
