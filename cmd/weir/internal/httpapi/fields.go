package httpapi

import (
	"net/http"

	"github.com/weir-limit/weir/internal/fields"
	"github.com/weir-limit/weir/rules"
)

// The fields of draft-ietf-httpapi-ratelimit-headers-10, spelled as there.
const (
	policyField    = "RateLimit-Policy"
	rateLimitField = "RateLimit"
)

// maxField is how long a field may become. Rules beyond are left out: a client
// or proxy that refuses long headers would get no answer at all.
const maxField = 48 << 10

// setFields sets RateLimit-Policy and RateLimit. Without an enforced rule there
// is nothing to say, and a List must not be empty.
func setFields(h http.Header, all []*rules.Decision) {
	var policy, limit []byte
	for _, d := range all {
		p := fields.AppendPolicy(policy, d.Rule.Name, d.Rule.Limit, "")
		l := fields.AppendStanding(limit, d.Rule.Name, &d.Decision)
		if len(p) > maxField || len(l) > maxField {
			break
		}
		policy, limit = p, l
	}
	if len(policy) > 0 {
		// Not by Set, which would spell them Ratelimit-Policy and Ratelimit.
		h[policyField] = []string{string(policy)}
		h[rateLimitField] = []string{string(limit)}
	}
}
