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
	// dialTimeout is how long one may take. The caller does not wait that long: its call has the
	// deadline of the edge, and the connection goes on being made.
	dialTimeout = time.Second
	// pingEvery and lostAfter find a daemon that is gone without a word, while calls are on
	// their way: gRPC then closes the connection 15 s after the last byte came. The listener
	// allows no more pings.
	pingEvery = 10 * time.Second
	lostAfter = 5 * time.Second
)

// daemon is one that is asked.
//
// It is a connection and what was heard over it. Whether the daemon is worth asking, the edge knows, but
// for daemons that share a store: to the edge these are one server, so late and away tell them apart here.
// All fields but the atomic ones stay as dial has set them.
type daemon struct {
	name   string // as the URL names it, or an address of the URL's name; no two have the same
	token  string // empty: none
	conn   *grpc.ClientConn
	lane   lane.Lane[*call]
	limits *limittext.Cache // of the Store
	counts *counts          // of the Store
	// traits are what it promised last; nil until it has answered once. A daemon that restarts with
	// another store changes them, and watch then arranges the daemons anew if need be.
	traits atomic.Pointer[weir.Traits]
	// skew is its store's clock less ours, in microseconds, by the last answer that told a state.
	// That answer took its time to come, so the clock is thought to show that much less than it
	// does. A remembered denial lasts longer by that, and not shorter.
	skew atomic.Int64
	// late is how many calls in a row were not answered in time, and away that another daemon of
	// the same store is asked. Both stay at zero where daemons don't share a store.
	late atomic.Int32
	away atomic.Bool
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

// dial makes the connection, which connects by itself as soon as it is used. So a daemon that is away is no
// error here: the first call finds out. gRPC sends a call again only where the daemon has surely not begun
// with it; what becomes of all others that fail, the edge decides.
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

// call sends a message and reads the answer. A call to a daemon that is not connected fails at once when
// the last try to connect has failed, and waits for the try under way, within its own deadline.
func (d *daemon) call(ctx context.Context, method string, q storewire.Written, r storewire.Read) error {
	return d.explain(ctx, d.conn.Invoke(ctx, method, q, r))
}

// explain is an error of a call as callers and the guard know it. There are four kinds:
//
//   - what was asked is refused: record.AskError, which says nothing of the daemon
//   - the daemon does not answer this program: RefusedError, which counts as away and says what to do
//   - the time of the call is over: an error that wraps that of ctx, and the charge may have been made
//   - all else is a daemon that can't be reached: weir.ErrAway
//
// The codes of the daemon come before the time, for an answer that came is an answer.
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

// run asks the daemon what calls want, in one message. A lone call has the time of its caller; calls that
// travel together have patience, however many of their callers have left. It touches no caller's asks or
// decisions, which a caller that has left may use again. An error is that of all calls of the message.
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

// take decides asks, and tells what a denial stood on. It fails before anything is sent when the take does
// not fit in a message. A receipt gets the caller's own Limit, where its text is the same, so that nobody
// keeps two of them. Each answer with states sets the clock anew (skew).
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

// describe asks what the daemon promises, and why it can't keep limits. It goes beside the lane, so it
// answers though takes wait, and it reaches the daemon only: its store may be away.
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
