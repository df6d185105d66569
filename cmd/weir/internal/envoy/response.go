package envoy

import (
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

// responseOf is an answer as Envoy reads it, with a status for each of so many
// descriptors.
func responseOf(a *rules.Answer, descriptors int) *rls.RateLimitResponse {
	response := &rls.RateLimitResponse{
		OverallCode: rls.RateLimitResponse_OK,
		Statuses:    make([]*rls.RateLimitResponse_DescriptorStatus, descriptors),
	}
	if !a.Allowed {
		response.OverallCode = rls.RateLimitResponse_OVER_LIMIT
		response.ResponseHeadersToAdd = []*core.HeaderValue{{Key: DenialHeader, Value: a.ID}}
	}
	// One piece of memory for all: most of the work of a response is to get it.
	room := make([]struct {
		status rls.RateLimitResponse_DescriptorStatus
		limit  rls.RateLimitResponse_RateLimit
		reset  durationpb.Duration
	}, descriptors)
	next := 0
	for i := range response.Statuses {
		first := next
		for next < len(a.Decisions) && a.Decisions[next].Descriptor == i {
			next++
		}
		s := &room[i]
		response.Statuses[i] = &s.status
		s.status.Code = rls.RateLimitResponse_OK
		if d := decisive(a.Decisions[first:next]); d != nil {
			describe(&s.status, d)
			name(&s.limit, d.Rule)
			s.status.CurrentLimit = &s.limit
			s.reset.Seconds = fields.Reset(&d.Decision)
			s.status.DurationUntilReset = &s.reset
		} else if slices.Contains(a.Unlimited, i) {
			s.status.LimitRemaining = math.MaxUint32
		}
	}
	return response
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

func describe(s *rls.RateLimitResponse_DescriptorStatus, d *rules.Decision) {
	if d.Outcome != weir.Allowed && !d.Rule.Shadow {
		s.Code = rls.RateLimitResponse_OVER_LIMIT
	}
	s.LimitRemaining = uint32(min(max(d.Remaining, 0), math.MaxUint32))
}

// name says which limit it was: by rate_limit.name where the limit has Envoy's
// form, even when it has no name there.
func name(l *rls.RateLimitResponse_RateLimit, r *rules.Rule) {
	s := r.Limit.Spec()
	l.Name, l.Unit = r.Name, unitOf(&s)
	if r.Envoy {
		l.Name = r.EnvoyName
	}
	l.RequestsPerUnit = uint32(min(s.Count, math.MaxUint32))
}
