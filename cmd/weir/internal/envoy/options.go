package envoy

import (
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Options are what answers have beside the decision. The zero Options are none.
type Options struct {
	// Echo tells Envoy in the dynamic metadata of each answer what was asked.
	Echo bool
	// Shadow lets all requests pass. Their statuses tell what would have been denied, and nothing of that is charged.
	Shadow bool
	// Headers are added to what Envoy answers its client.
	Headers Headers
}

// Headers are names of header fields that tell of the limit that is the nearest to denying: its count, what is left of it, and
// in how many seconds it begins anew. Without a name a field is left out.
type Headers struct{ Limit, Remaining, Reset string }

// add adds them to a response. A denied descriptor goes before others, and of these the one with the least left.
func (h Headers) add(response *rls.RateLimitResponse) {
	if h == (Headers{}) {
		return
	}
	var nearest *rls.RateLimitResponse_DescriptorStatus
	for _, s := range response.GetStatuses() {
		switch {
		case s.GetCurrentLimit() == nil:
		case nearest == nil,
			s.GetCode() == rls.RateLimitResponse_OVER_LIMIT && nearest.GetCode() != rls.RateLimitResponse_OVER_LIMIT,
			s.GetCode() == nearest.GetCode() && s.GetLimitRemaining() < nearest.GetLimitRemaining():
			nearest = s
		}
	}
	if nearest == nil {
		return
	}
	for _, field := range []struct {
		name string
		n    int64
	}{
		{h.Limit, int64(nearest.GetCurrentLimit().GetRequestsPerUnit())},
		{h.Remaining, int64(nearest.GetLimitRemaining())},
		{h.Reset, nearest.GetDurationUntilReset().GetSeconds()},
	} {
		if field.name != "" {
			response.ResponseHeadersToAdd = append(response.ResponseHeadersToAdd, &core.HeaderValue{Key: field.name, Value: strconv.FormatInt(field.n, 10)})
		}
	}
}
