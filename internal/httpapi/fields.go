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
	maxField = 4 << 10
)

// standing is what the RateLimit field says of one rule: its tightest decision.
type standing struct {
	decision *rules.Decision
	next     time.Duration // until cost 1 passes, when nothing remains
	known    bool          // next is
}

// standings picks the enforced rules of an answer, each once, in the order of
// the answer. It asks next, when nothing remains, how long until one event
// passes.
func standings(a *rules.Answer, next func(*rules.Decision) (time.Duration, bool)) []standing {
	var all []standing
	for i := range a.Decisions {
		d := &a.Decisions[i]
		if d.Rule.Shadow {
			continue
		}
		j := 0
		for j < len(all) && all[j].decision.Rule.Name != d.Rule.Name {
			j++
		}
		switch {
		case j == len(all):
			all = append(all, standing{decision: d})
		case tighter(d, all[j].decision):
			all[j].decision = d
		}
	}
	for i := range all {
		if s := &all[i]; s.decision.Remaining <= 0 {
			s.next, s.known = next(s.decision)
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
func setFields(h http.Header, all []standing) {
	var policy, limit []byte
	for i := range all {
		s := &all[i]
		p := appendPolicy(policy, s.decision.Rule)
		l := s.append(limit)
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
	if r.Limit.Spec().Algorithm == weir.Concurrent {
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

func (s *standing) append(b []byte) []byte {
	b = appendItem(b, s.decision.Rule.Name)
	b = appendInteger(append(b, ";r="...), max(s.decision.Remaining, 0))
	if s.known {
		b = appendInteger(append(b, ";t="...), wholeSeconds(s.next))
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
