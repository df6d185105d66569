// Package envoy speaks the messages of Envoy's rate limit service, for the listeners
// that carry them: gRPC, and JSON over HTTP. It turns a request into one that
// the rules understand, and their answer into a response.
package envoy

import (
	"context"
	"errors"
	"fmt"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// Limiter is what decides; *rules.Limiter is one.
type Limiter interface {
	CheckInto(context.Context, *rules.Request, *rules.Answer) error
}

// RequestError says that a request is none, and what to send instead.
type RequestError struct {
	Err error // what is wrong, where
}

func (e *RequestError) Error() string { return e.Err.Error() }

// Unwrap is what is wrong.
func (e *RequestError) Unwrap() error { return e.Err }

// ShouldRateLimit answers a request of Envoy's. It fails with a *RequestError, with rules.ErrNoRules, or
// when the store can't decide.
func ShouldRateLimit(ctx context.Context, limiter Limiter, q *rls.RateLimitRequest, o Options) (*rls.RateLimitResponse, error) {
	r, err := requestOf(q)
	if err != nil {
		return nil, &RequestError{err}
	}
	a := new(rules.Answer)
	if err := check(ctx, limiter, r, a); err != nil {
		return nil, err
	}
	response := responseOf(a, len(r.Descriptors), o.Shadow)
	o.Headers.add(response)
	metadata := metadataOf(a, len(r.Descriptors))
	if o.Echo {
		metadata = withRequest(metadata, q)
	}
	response.DynamicMetadata = structOf(metadata)
	return response, nil
}

// check has the limiter decide.
func check(ctx context.Context, limiter Limiter, r *rules.Request, a *rules.Answer) error {
	err := limiter.CheckInto(ctx, r, a)
	if bad, ok := errors.AsType[*rules.RequestError](err); ok {
		return &RequestError{bad}
	}
	if errors.Is(err, weir.ErrNoRefund) {
		return &RequestError{fmt.Errorf("is_negative_hits: %w; POST /v1/settle gives back what has one", weir.ErrNoRefund)}
	}
	return err
}

// requestOf is q as the rules see it. It does not check a request for faults that the rules refuse
// themselves.
func requestOf(q *rls.RateLimitRequest) (*rules.Request, error) {
	in := q.GetDescriptors()
	c := crowdIn(in)
	if err := c.fault(); err != nil {
		return nil, err
	}
	r := &rules.Request{
		Domain:      q.GetDomain(),
		Descriptors: make([]rules.Descriptor, len(in)),
		AnyCost:     true, // what is more than any limit is over all of them
	}
	for i, d := range in {
		if err := fill(&r.Descriptors[i], d, q.GetHitsAddend()); err != nil {
			return nil, fmt.Errorf("descriptors[%d].%w", i, err)
		}
	}
	return r, nil
}

// maxHits bounds costs before they are added up; all beyond are as impossible.
const maxHits = 1 << 40

func fill(d *rules.Descriptor, in *ratelimit.RateLimitDescriptor, hits uint32) error {
	entries := in.GetEntries()
	d.Entries = make([]rules.Entry, len(entries))
	for i, e := range entries {
		d.Entries[i] = rules.Entry{Key: e.GetKey(), Value: e.GetValue()}
	}
	own := in.GetHitsAddend()
	d.Cost = costOf(hits, own != nil, own.GetValue())
	d.GiveBack = in.GetIsNegativeHits()
	if in.GetLimit() == nil {
		return nil
	}
	limit, err := override(in.GetLimit())
	if err != nil {
		return fmt.Errorf("limit: %w", err)
	}
	d.Override = limit
	return nil
}

// costOf is the cost of a descriptor: its own, if it has one, or the request's.
func costOf(hits uint32, has bool, own uint64) int64 {
	if has {
		return int64(min(own, maxHits))
	}
	return max(int64(hits), 1)
}
