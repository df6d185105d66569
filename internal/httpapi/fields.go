package httpapi

import (
	"math/bits"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// The fields of draft-ietf-httpapi-ratelimit-headers-10, spelled as there.
const (
	policyField    = "RateLimit-Policy"
	rateLimitField = "RateLimit"
)

const (
	// maxInteger is the largest Integer of a structured field (RFC 9651).
	maxInteger = 999_999_999_999_999
	// maxField is how long a field may become. Rules beyond are left out: a
	// client or proxy that refuses long headers would get no answer at all.
	maxField = 48 << 10
)

// standings picks the enforced rules of an answer in its order, each once with
// its tightest decision.
func standings(a *rules.Answer) []*rules.Decision {
	var all []*rules.Decision
	for i := range a.Decisions {
		d := &a.Decisions[i]
		if d.Rule.Shadow {
			continue
		}
		j := 0
		for j < len(all) && all[j].Rule.Name != d.Rule.Name {
			j++
		}
		switch {
		case j == len(all):
			all = append(all, d)
		case tighter(d, all[j]):
			all[j] = d
		}
	}
	return all
}

// tighter orders the decisions of one rule about several keys.
func tighter(d, o *rules.Decision) bool {
	if d.Remaining != o.Remaining {
		return d.Remaining < o.Remaining
	}
	return d.RetryAfter > o.RetryAfter
}

// setFields sets RateLimit-Policy and RateLimit. Without an enforced rule there
// is nothing to say, and a List must not be empty.
func setFields(h http.Header, all []*rules.Decision) {
	var policy, limit []byte
	for _, d := range all {
		p := appendPolicy(policy, d.Rule)
		l := appendStanding(limit, d)
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

func appendPolicy(b []byte, r *rules.Rule) []byte {
	quota, window := policyOf(r.Limit)
	b = appendItem(b, r.Name)
	b = appendInteger(append(b, ";q="...), quota)
	if r.Limit.Algorithm() == weir.Concurrent {
		return append(b, `;qu="concurrent-requests"`...)
	}
	return appendInteger(append(b, ";w="...), window)
}

// policyOf is a limit as a quota for a window of whole seconds. Of a bucket
// they are its size and the time that it takes to fill.
func policyOf(l *weir.Limit) (quota, window int64) {
	s := l.Spec()
	switch s.Algorithm {
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket:
		if s.Count == 0 {
			return s.Burst, wholeSeconds(s.Period)
		}
		hi, lo := bits.Mul64(uint64(s.Burst), uint64(s.Period/time.Microsecond))
		// At most 71 years of seconds, by the bounds of a limit.
		q, rest := bits.Div64(hi, lo, uint64(s.Count)*1e6)
		if rest > 0 {
			q++
		}
		return s.Burst, max(int64(q), 1)
	case weir.LeakyQueue, weir.FixedWindow, weir.SlidingLog, weir.SlidingWindow, weir.WarmUp, weir.Concurrent:
	}
	return s.Count, wholeSeconds(s.Period)
}

// appendStanding appends what remains of a rule, and where that is nothing, when
// an event passes again.
func appendStanding(b []byte, d *rules.Decision) []byte {
	b = appendItem(b, d.Rule.Name)
	b = appendInteger(append(b, ";r="...), max(d.Remaining, 0))
	if d.NextAfter > 0 {
		b = appendInteger(append(b, ";t="...), wholeSeconds(d.NextAfter))
	}
	return b
}

// wholeSeconds is d rounded up, at least 1.
func wholeSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return max(s, 1)
}

// appendItem begins an item of a List: a String, its name.
func appendItem(b []byte, name string) []byte {
	const hex = "0123456789ABCDEF"
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	b = append(b, '"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~': // a String is printable ASCII
			b = append(b, '%', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(n, 0), maxInteger), 10)
}
