package grpclimit

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/pacing"
)

// ErrQueueFull is what a call fails with at once when ClientOptions.MaxWaiting
// others wait for their turn. Its status is RESOURCE_EXHAUSTED.
var ErrQueueFull = pacing.ErrQueueFull

// ClientOptions are those of a Client. All may be zero.
type ClientOptions struct {
	// Limiter is a limit to keep, whatever the server says; nil is none. It is asked
	// about the key of each call, each time that it is sent. Permits are given back
	// when the call has ended, or by the limit's ttl before: they are not renewed.
	Limiter *weir.Limiter
	// Key names the limit of the server that a call counts against: what is learned
	// from an answer is for all calls of the same key. Nil is the target of the
	// connection. Servers that limit their methods apart want one that tells these
	// apart.
	Key func(ctx context.Context, method string) string
	// Cost is the events that a call is worth to Limiter; nil is 1 for each.
	// message is that of a unary call, and nil for a stream.
	Cost func(ctx context.Context, method string, message any) int64
	// Priority tells who goes first, of those who wait for one key: the highest. Nil
	// is 0 for each. Equals go in the order in which they came. When some have waited
	// for more than half of MaxWait, the last go first: so some still come in time.
	Priority func(ctx context.Context, method string) int
	// MaxWaiting is how many calls may wait for one key; 0 is 1000. More fail with
	// ErrQueueFull.
	MaxWaiting int
	// MaxWait is how long a call waits in all, over its tries; 0 is a minute. The client does not
	// wait longer, even if a server asks for more.
	MaxWait time.Duration
	// MaxTries is how often a call is sent at most; 0 is 4, 1 is never again.
	MaxTries int
	// RetryPercent is how many retries there may be for 100 calls of a key, over the
	// last 10 seconds, beside 10 that are free; 0 is 10.
	RetryPercent int
	// Backoff is how much later than the server asks for a call comes back, so that
	// not all come at once.
	Backoff weir.Backoff
}

// Client has the interceptors of a client: Unary and Stream. They may be used by
// several connections at once, and start no goroutine.
//
// A call waits as long as the client's own limit demands, or as a server has asked
// for by RetryInfo or grpc-retry-pushback-ms, and some jitter on top. It fails with
// RESOURCE_EXHAUSTED at once when it is known that the wait can't fit into its
// deadline; the error is then a *weir.DeniedError, too, which says how long the
// wait would have been.
//
// Unary calls are sent again that ended with RESOURCE_EXHAUSTED or UNAVAILABLE, if
// the server said when to come back: it has then refused them, and nothing was
// done. A pushback that is negative or no number says not to. Streams are not sent
// again, for the caller has begun to write to them.
type Client struct {
	options ClientOptions
	table   *pacing.Table
}

// NewClient makes a Client. It fails when options are out of range, and names all
// that are.
func NewClient(o ClientOptions) (*Client, error) {
	table, err := pacing.NewTable(pacing.Options{
		Limiter: o.Limiter, Waiting: o.MaxWaiting, MaxWait: o.MaxWait,
		Tries: o.MaxTries, RetryPercent: o.RetryPercent, Backoff: o.Backoff,
	})
	if err != nil {
		return nil, err
	}
	return &Client{options: o, table: table}, nil
}

// begin is a call that the caller must end.
func (c *Client) begin(ctx context.Context, target, method string, message any) *pacing.Call {
	key := target
	if c.options.Key != nil {
		key = c.options.Key(ctx, method)
	}
	call := c.table.Begin(key)
	if c.options.Cost != nil {
		call.Cost = c.options.Cost(ctx, method, message)
	}
	if c.options.Priority != nil {
		call.Priority = c.options.Priority(ctx, method)
	}
	return call
}

// Unary is a grpc.UnaryClientInterceptor.
func (c *Client) Unary(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	call := c.begin(ctx, cc.Target(), method, request)
	defer call.End(ctx)
	for {
		if err := call.Wait(ctx); err != nil {
			return inVain(ctx, err)
		}
		var trailer metadata.MD
		err := invoker(ctx, method, request, reply, cc, append(opts[:len(opts):len(opts)], grpc.Trailer(&trailer))...)
		if !call.Heard(ctx, heard(err, trailer)) {
			return err
		}
	}
}

// Stream is a grpc.StreamClientInterceptor.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	call := c.begin(ctx, cc.Target(), method, nil)
	if err := call.Wait(ctx); err != nil {
		call.End(ctx)
		return nil, inVain(ctx, err)
	}
	s := &stream{call: call, ctx: ctx}
	// It is called when the stream ends in whatever way, also before it began.
	opened, err := streamer(ctx, desc, cc, method, append(opts[:len(opts):len(opts)], grpc.OnFinish(s.finish))...)
	if err != nil {
		s.finish(err)
		return nil, err
	}
	s.ClientStream = opened
	return s, nil
}

// waitError is why a call was not sent. It is what package pacing says, and a status for callers
// that look at statuses.
type waitError struct {
	error

	code codes.Code
}

func inVain(ctx context.Context, err error) error {
	code := codes.Unavailable // the own limiter's store
	_, denied := errors.AsType[*weir.DeniedError](err)
	switch {
	case denied || errors.Is(err, ErrQueueFull):
		code = codes.ResourceExhausted
	case ctx.Err() != nil:
		code = status.FromContextError(ctx.Err()).Code()
	}
	return &waitError{err, code}
}

// GRPCStatus is the status that status.FromError finds.
func (e *waitError) GRPCStatus() *status.Status { return status.New(e.code, e.Error()) }

func (e *waitError) Unwrap() error { return e.error }

// heard is what the end of a call says of the limits of its server.
func heard(err error, trailer metadata.MD) pacing.Reply {
	s := status.Convert(err)
	if c := s.Code(); c != codes.ResourceExhausted && c != codes.Unavailable {
		return pacing.Reply{}
	}
	r := pacing.Reply{Denied: true}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok && info.RetryDelay.IsValid() {
			r.Told, r.After = true, max(info.RetryDelay.AsDuration(), 0)
		}
	}
	if pushed := trailer.Get(pushbackKey); len(pushed) > 0 {
		ms, err := strconv.ParseInt(pushed[0], 10, 32)
		if err != nil || ms < 0 || len(pushed) > 1 {
			return pacing.Reply{Denied: true} // never again
		}
		r.Told, r.After = true, max(r.After, time.Duration(ms)*time.Millisecond)
	}
	r.Replay = r.Told
	return r
}
