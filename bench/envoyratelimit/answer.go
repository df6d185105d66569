package main

import (
	"fmt"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// answer is what a server says to a request, or why it does not.
type answer struct {
	Err      string                     `json:"err,omitempty"` // the kind of error; empty: there is none
	Code     rls.RateLimitResponse_Code `json:"code"`
	Statuses []status                   `json:"statuses,omitempty"`
	Metadata string                     `json:"metadata,omitempty"` // what rules say, of the dynamic metadata
}

// status is what an answer says of one descriptor.
type status struct {
	Code      rls.RateLimitResponse_Code           `json:"code"`
	Limited   bool                                 `json:"limited"`
	Name      string                               `json:"name,omitempty"`
	Unit      rls.RateLimitResponse_RateLimit_Unit `json:"unit"`
	Count     uint32                               `json:"count"`
	Remaining uint32                               `json:"remaining"`
	Reset     int64                                `json:"reset"` // seconds
}

func answerOf(r *rls.RateLimitResponse) answer {
	a := answer{Code: r.GetOverallCode()}
	for _, in := range r.GetStatuses() {
		s := status{Code: in.GetCode(), Remaining: in.GetLimitRemaining(), Reset: in.GetDurationUntilReset().GetSeconds()}
		if l := in.GetCurrentLimit(); l != nil {
			s.Limited, s.Name, s.Unit, s.Count = true, l.GetName(), l.GetUnit(), l.GetRequestsPerUnit()
		}
		a.Statuses = append(a.Statuses, s)
	}
	if m := r.GetDynamicMetadata().GetFields()["metadata"]; m != nil {
		a.Metadata = canonical(m)
	}
	return a
}

// difference is one field in which two answers are not the same.
type difference struct {
	Descriptor int // −1: the answer as a whole
	Field      string
	A, B       string
}

// say tells d; a and b are whose answers they are.
func (d difference) say(a, b string) string {
	where := "the answer"
	if d.Descriptor >= 0 {
		where = fmt.Sprintf("descriptor %d", d.Descriptor)
	}
	return fmt.Sprintf("%s: %s: %s %q, %s %q", where, d.Field, a, d.A, b, d.B)
}

// differences are all fields in which a and b are not the same.
func differences(a, b answer) []difference {
	var all []difference
	add := func(i int, field string, a, b any) {
		if a != b {
			all = append(all, difference{i, field, fmt.Sprint(a), fmt.Sprint(b)})
		}
	}
	add(-1, "error", a.Err, b.Err)
	if a.Err != "" || b.Err != "" {
		return all
	}
	add(-1, "overall_code", a.Code, b.Code)
	add(-1, "metadata", a.Metadata, b.Metadata)
	add(-1, "number of statuses", len(a.Statuses), len(b.Statuses))
	for i := range min(len(a.Statuses), len(b.Statuses)) {
		x, y := &a.Statuses[i], &b.Statuses[i]
		add(i, "code", x.Code, y.Code)
		add(i, "current_limit", x.Limited, y.Limited)
		add(i, "name", x.Name, y.Name)
		add(i, "unit", x.Unit, y.Unit)
		add(i, "requests_per_unit", x.Count, y.Count)
		add(i, "limit_remaining", x.Remaining, y.Remaining)
		add(i, "duration_until_reset", x.Reset, y.Reset)
	}
	return all
}
