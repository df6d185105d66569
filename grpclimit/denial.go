package grpclimit

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weir-limit/weir/internal/admission"
	"github.com/weir-limit/weir/internal/fields"
)

const (
	// pushbackKey is the trailer by which a server tells the retry policy of gRPC
	// when to come back (gRFC A6).
	pushbackKey = "grpc-retry-pushback-ms"
	// unknownRetry is when to come back where a permit must come back first.
	unknownRetry = time.Second
	// maxViolations is how many limits a status names. Clients and proxies refuse
	// trailers that are too long.
	maxViolations = 16
)

// denial is what OnDenied hears of a verdict.
func denial(c *admission.Call) *Denial {
	d := &Denial{RetryAfter: c.Retry, Never: c.Never}
	for _, n := range c.Denials {
		d.Rules = append(d.Rules, n.Rule)
	}
	return d
}

// status is that of a call that is denied, with the details of google.rpc.
func (s *Server) status(c *admission.Call) *status.Status {
	code, reason, text := codes.ResourceExhausted, "RATE_LIMITED", "there were too many calls; come back later"
	switch {
	case c.Away:
		code, reason, text = codes.Unavailable, "LIMITER_UNAVAILABLE", "whether the call may pass could not be decided; come back later"
	case c.Never:
		reason, text = "COST_TOO_HIGH", "the call can never pass: it costs more than the limit; make it smaller"
	}
	why := &errdetails.ErrorInfo{Reason: reason, Domain: cmp.Or(s.options.Domain, "weir"), Metadata: map[string]string{}}
	failure := &errdetails.QuotaFailure{}
	for i, denial := range c.Denials {
		if i == 0 {
			why.Metadata["rule"], why.Metadata["limit"] = denial.Rule, denial.Limit.String()
		}
		if i == maxViolations {
			break
		}
		quota, _ := fields.Quota(denial.Limit)
		failure.Violations = append(failure.Violations, &errdetails.QuotaFailure_Violation{
			Subject:     "rule:" + denial.Rule,
			Description: fmt.Sprintf("the limit is %v", denial.Limit),
			QuotaId:     denial.Rule,
			QuotaValue:  quota,
		})
	}
	details := []protoadapt.MessageV1{why, failure}
	if !c.Never {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(cmp.Or(c.Retry, unknownRetry))})
	}
	plain := status.New(code, text)
	detailed, err := plain.WithDetails(details...)
	if err != nil { // a name that is not UTF-8: the code says enough
		return plain
	}
	return detailed
}

// pushback is the trailer of a call that is denied. Clients obey it to the
// millisecond, so it has the jitter that keeps them apart.
func (s *Server) pushback(c *admission.Call) metadata.MD {
	ms := int64(-1)
	if !c.Never {
		delay := s.options.Backoff.Delay(0, cmp.Or(c.Retry, unknownRetry), rand.Uint64())
		if ms = int64((delay-1)/time.Millisecond) + 1; ms > math.MaxInt32 {
			ms = -1 // longer than can be said
		}
	}
	return metadata.Pairs(pushbackKey, strconv.FormatInt(ms, 10))
}
