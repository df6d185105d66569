package httplimit

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/pacing"
)

// ErrQueueFull is returned at once by Transport.RoundTrip when
// TransportOptions.MaxWaiting requests wait for their turn.
var ErrQueueFull = pacing.ErrQueueFull

// TransportOptions are those of a Transport. All may be zero.
type TransportOptions struct {
	// Base sends the requests; nil is http.DefaultTransport.
	Base http.RoundTripper
	// Limiter is a limit to keep, whatever the server says; nil is none. It is
	// asked about the key of each request, each time that it is sent. Permits are
	// given back when the body of the response is closed or read to its end, or by
	// the limit's ttl before: a Transport does not renew them.
	Limiter *weir.Limiter
	// Key names the limit of the server that a request counts against: what is
	// learned from an answer is for all requests of the same key. nil is scheme and
	// host. Servers that limit their resources apart want one that tells these
	// apart: else one that is exhausted holds the others back.
	Key func(*http.Request) string
	// Cost is the events that a request is worth to Limiter; nil is 1 for each.
	Cost func(*http.Request) int64
	// Priority tells who goes first, of those who wait for one key: the highest.
	// nil is 0 for each. Equals go in the order in which they came. When some have
	// waited for more than half of MaxWait, the last go first: so some still come
	// in time, where otherwise nearly all would come too late.
	Priority func(*http.Request) int
	// MaxWaiting is how many requests may wait for one key; 0 is 1000. More fail
	// with ErrQueueFull.
	MaxWaiting int
	// MaxWait is how long a request waits in all, over its tries; 0 is a minute. A
	// server that says to come back later than that is taken at its word by handing
	// its answer on as it is; no request is held for it, and one a second goes until
	// one passes.
	MaxWait time.Duration
	// MaxTries is how often a request is sent at most; 0 is 4, 1 is never again.
	MaxTries int
	// RetryPercent is how many retries there may be for 100 requests of a key,
	// over the last 10 seconds, beside 10 that are free; 0 is 10.
	RetryPercent int
	// Backoff is how long to wait before a retry. The client waits as long as the server asks, and
	// some of Backoff on top, so that not all clients come back at once.
	Backoff weir.Backoff
}

// Transport is an http.RoundTripper for clients of servers that limit them. It
// waits before it sends, as long as its own limit or what the server said before
// demand, and sends again what the server refused, as far as that is safe.
//
// It reads what answers say of limits: RateLimit and RateLimit-Policy of the IETF
// drafts up to 10, and the X-RateLimit fields in the dialects of Envoy, GitHub,
// Twitter, Discord, OpenAI, Anthropic and others. While more than a quarter of a
// limit remains, requests go at once. The rest is spread over the time until
// there is more. When nothing remains, all wait for it; then one goes first, two
// when that has passed, and so on.
//
// After 429, 503 and GitHub's 403 it waits as long as Retry-After says and never
// less, or as the limit's reset says, or else by exponential backoff with full
// jitter. It sends a request again that was refused with 429, if it has no body
// or one that http.Request.GetBody brings back. After 503 the request must also
// be idempotent by its method, or have an Idempotency-Key field.
//
// A request never waits when it is known that the wait can't fit into the
// deadline of its context: RoundTrip then fails at once with a
// *weir.DeniedError, which says how long the wait would have been. Where there is
// an answer already, RoundTrip returns that.
//
// A Transport may be used by many goroutines. It starts none.
type Transport struct {
	options TransportOptions
	table   *pacing.Table
}

// NewTransport makes a Transport. It fails when options are out of range, and
// names all that are.
func NewTransport(o TransportOptions) (*Transport, error) {
	table, err := pacing.NewTable(pacing.Options{
		Limiter: o.Limiter, Waiting: o.MaxWaiting, MaxWait: o.MaxWait,
		Tries: o.MaxTries, RetryPercent: o.RetryPercent, Backoff: o.Backoff,
	})
	if err != nil {
		return nil, err
	}
	if o.Base == nil {
		o.Base = http.DefaultTransport
	}
	if o.Key == nil {
		o.Key = func(req *http.Request) string { return req.URL.Scheme + "://" + req.URL.Host }
	}
	return &Transport{options: o, table: table}, nil
}

// RoundTrip sends req when its turn comes, and again as the type says. It fails
// with ErrQueueFull, a *weir.DeniedError, the cause of its context's end, as the
// store of Limiter does, which is never passed over, or as Base does.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	call := t.table.Begin(t.options.Key(req))
	var resp *http.Response
	defer func() {
		if resp == nil {
			call.End(ctx)
		}
	}()
	if t.options.Cost != nil {
		call.Cost = t.options.Cost(req)
	}
	if t.options.Priority != nil {
		call.Priority = t.options.Priority(req)
	}
	resp, err := t.send(call, req)
	if err != nil {
		return nil, err
	}
	resp.Request = req
	resp.Body = ending(resp.Body, func() { call.End(context.WithoutCancel(ctx)) })
	return resp, nil
}

// send sends req until there is an answer that the caller is to see. Each try waits for its turn anew:
// the server may have told other requests of the same key to wait longer.
//
// Base closes the bodies that it was given. A copy for another try that is not sent is closed here.
func (t *Transport) send(call *pacing.Call, req *http.Request) (*http.Response, error) {
	for try := req; ; {
		if err := call.Wait(req.Context()); err != nil {
			closeBody(try)
			return nil, err
		}
		resp, err := t.try(call, try)
		if err != nil {
			return nil, err
		}
		reply := heard(resp.StatusCode, resp.Header, time.Now())
		var again *http.Request
		if reply.Denied {
			again = replay(req, resp.StatusCode)
			reply.Replay = again != nil
		}
		if !call.Heard(req.Context(), reply) {
			if again != nil && again != req {
				closeBody(again)
			}
			return resp, nil
		}
		drain(resp.Body)
		try = again
	}
}

// try sends a request once. If Base fails or panics, the call is told that nothing was heard: requests
// that wait behind it go by what was known before.
func (t *Transport) try(call *pacing.Call, req *http.Request) (resp *http.Response, err error) {
	defer func() {
		if resp == nil {
			call.Lost()
		}
	}()
	resp, err = t.options.Base.RoundTrip(req)
	if resp != nil && resp.Body == nil {
		resp.Body = http.NoBody // http.Client lets those that are made up leave it out
	}
	return resp, err
}

// CloseIdleConnections closes those of Base, if it can. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.options.Base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// ending calls end once, when body has been read to its end or is closed. A body
// that can be written to, after 101 Switching Protocols, stays one.
func ending(body io.ReadCloser, end func()) io.ReadCloser {
	b := &endingBody{ReadCloser: body, end: sync.OnceFunc(end)}
	if w, ok := body.(io.Writer); ok {
		return struct {
			*endingBody
			io.Writer
		}{b, w}
	}
	return b
}

// endingBody is a body whose end is told of: of all of it, or of what its reader wanted.
type endingBody struct {
	io.ReadCloser

	end func()
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
