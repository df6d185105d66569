package httpapi

import (
	"net/http"
	"strconv"

	"github.com/weir-limit/weir/internal/fields"
	"github.com/weir-limit/weir/rules"
)

// The fields of draft-ietf-httpapi-ratelimit-headers-10, spelled as there.
const (
	policyField    = "RateLimit-Policy"
	rateLimitField = "RateLimit"
)

// describe sets the fields that every answer of the rules has. Without an enforced rule
// there is no RateLimit: there is nothing to say, and a List must not be empty.
func describe(h http.Header, answer *rules.Answer) {
	h["Cache-Control"] = noStore
	if retry, ok := answer.RetryAfter(); ok {
		h["Retry-After"] = []string{strconv.FormatInt(fields.RetryAfter(retry), 10)}
	}
	var all fields.Lists
	for _, d := range fields.Standings(answer) {
		if !all.Add(d.Rule.Name, d.Rule.Limit, "", &d.Decision) {
			break
		}
	}
	if len(all.Policy) > 0 {
		// Not by Set, which would spell them Ratelimit-Policy and Ratelimit.
		h[policyField] = []string{string(all.Policy)}
		h[rateLimitField] = []string{string(all.Standing)}
	}
}
