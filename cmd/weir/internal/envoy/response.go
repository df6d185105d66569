package envoy

import (
	"iter"
	"math"
	"slices"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/fields"
	"github.com/weir-limit/weir/rules"
)

// DenialHeader has the id of a denial, by which it can be explained. Envoy sends it on to the
// client that was denied.
const DenialHeader = "Weir-Denial"

// standing is what an answer says of one descriptor.
type standing struct {
	code      rls.RateLimitResponse_Code
	remaining uint32
	decision  *rules.Decision // nil: there is none
}

// standings are those of so many descriptors, in their order.
func standings(a *rules.Answer, descriptors int) iter.Seq2[int, standing] {
	return func(yield func(int, standing) bool) {
		next := 0
		for i := range descriptors {
			first := next
			for next < len(a.Decisions) && a.Decisions[next].Descriptor == i {
				next++
			}
			s := standing{code: rls.RateLimitResponse_OK, decision: decisive(a.Decisions[first:next])}
			switch d := s.decision; {
			case d != nil:
				if d.Outcome != weir.Allowed && !d.Rule.Shadow {
					s.code = rls.RateLimitResponse_OVER_LIMIT
				}
				s.remaining = uint32(min(max(d.Remaining, 0), math.MaxUint32))
			case slices.Contains(a.Unlimited, i):
				s.remaining = math.MaxUint32
			}
			if !yield(i, s) {
				return
			}
		}
	}
}

// responseOf is an answer as Envoy reads it, with a status for each of so many
// descriptors. In shadow it lets all requests pass.
func responseOf(a *rules.Answer, descriptors int, shadow bool) *rls.RateLimitResponse {
	response := &rls.RateLimitResponse{
		OverallCode: overall(a),
		Statuses:    make([]*rls.RateLimitResponse_DescriptorStatus, descriptors),
	}
	if shadow {
		response.OverallCode = rls.RateLimitResponse_OK
	} else if !a.Allowed {
		response.ResponseHeadersToAdd = []*core.HeaderValue{{Key: DenialHeader, Value: a.ID()}}
	}
	for i, s := range standings(a, descriptors) {
		status := &rls.RateLimitResponse_DescriptorStatus{Code: s.code, LimitRemaining: s.remaining}
		if d := s.decision; d != nil {
			name, count, unit := limitOf(d.Rule)
			status.CurrentLimit = &rls.RateLimitResponse_RateLimit{Name: name, RequestsPerUnit: count, Unit: unit}
			status.DurationUntilReset = &durationpb.Duration{Seconds: fields.Reset(&d.Decision)}
		}
		response.Statuses[i] = status
	}
	return response
}

func overall(a *rules.Answer) rls.RateLimitResponse_Code {
	if a.Allowed {
		return rls.RateLimitResponse_OK
	}
	return rls.RateLimitResponse_OVER_LIMIT
}

// decisive is the decision of one descriptor that explains its status. Where
// all are shadow limits it is one of them: envoyproxy/ratelimit reports those
// too, as OK.
func decisive(decisions []rules.Decision) *rules.Decision {
	var best *rules.Decision
	for i := range decisions {
		if d := &decisions[i]; best == nil || outweighs(d, best) {
			best = d
		}
	}
	return best
}

// outweighs orders as an answer does; a shadow limit is the last.
func outweighs(d, o *rules.Decision) bool {
	if d.Rule.Shadow != o.Rule.Shadow {
		return o.Rule.Shadow
	}
	return d.Decision.Outweighs(&o.Decision)
}

// limitOf says which limit it was: by rate_limit.name where the limit has Envoy's
// form, even when it has no name there.
func limitOf(r *rules.Rule) (name string, count uint32, unit rls.RateLimitResponse_RateLimit_Unit) {
	s := r.Limit.Spec()
	name = r.Name
	if r.Envoy {
		name = r.EnvoyName
	}
	return name, uint32(min(s.Count, math.MaxUint32)), unitOf(&s)
}
