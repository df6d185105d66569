// Package fields writes what limits answer in the forms that other programs read:
// times as whole seconds, and the fields of HTTP responses.
package fields

import (
	"math/bits"
	"strconv"
	"time"

	"github.com/weir-limit/weir"
)

// maxInteger is the largest Integer of a structured field (RFC 9651).
const maxInteger = 999_999_999_999_999

// Seconds is d in whole seconds, rounded up: a client that waits so long has waited for d.
func Seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// RetryAfter is the value of the field Retry-After: Seconds, at least 1.
func RetryAfter(d time.Duration) int64 { return max(Seconds(d), 1) }

// Reset is in how many seconds d turns better for its caller, at least 1: when
// what it denies passes, or else when its limit has recovered.
func Reset(d *weir.Decision) int64 {
	if d.Outcome == weir.Denied {
		return RetryAfter(d.RetryAfter)
	}
	return RetryAfter(d.ResetAfter)
}

// Quota is a limit as a quota for a window of whole seconds. For a bucket they are its size and the
// time that it takes to fill.
func Quota(l *weir.Limit) (quota, window int64) {
	s := l.Spec()
	switch s.Algorithm {
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket:
		if s.Count == 0 {
			return s.Burst, RetryAfter(s.Period)
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
	return s.Count, RetryAfter(s.Period)
}

// AppendPolicy appends an item of the field RateLimit-Policy of
// draft-ietf-httpapi-ratelimit-headers-08 to -10 to b, which holds the items
// before. Unit is what is counted; empty means requests.
func AppendPolicy(b []byte, name string, l *weir.Limit, unit string) []byte {
	quota, window := Quota(l)
	b = AppendInteger(append(appendItem(b, name), ";q="...), quota)
	if l.Algorithm() == weir.Concurrent {
		return append(b, `;qu="concurrent-requests"`...)
	}
	b = AppendInteger(append(b, ";w="...), window)
	if unit != "" {
		b = AppendString(append(b, ";qu="...), unit)
	}
	return b
}

// AppendStanding appends an item of the field RateLimit of the same drafts: what
// remains of a limit, and where that is nothing, when an event passes again.
func AppendStanding(b []byte, name string, d *weir.Decision) []byte {
	b = AppendInteger(append(appendItem(b, name), ";r="...), d.Remaining)
	if d.NextAfter > 0 {
		b = AppendInteger(append(b, ";t="...), RetryAfter(d.NextAfter))
	}
	return b
}

// MaxField is how long a field may become. Rules beyond are left out: a client or proxy
// that refuses long fields would get no answer at all.
const MaxField = 48 << 10

// Lists are the values of RateLimit-Policy and RateLimit. Both have an item of each rule,
// in the same order.
type Lists struct{ Policy, Standing []byte }

// Add appends the items of a rule that has decided d by limit l. It is false, and appends
// nothing, where a field would become longer than MaxField.
func (a *Lists) Add(name string, l *weir.Limit, unit string, d *weir.Decision) bool {
	policy, standing := AppendPolicy(a.Policy, name, l, unit), AppendStanding(a.Standing, name, d)
	if len(policy) > MaxField || len(standing) > MaxField {
		return false
	}
	a.Policy, a.Standing = policy, standing
	return true
}

// appendItem begins an item of a List: a String, its name.
func appendItem(b []byte, name string) []byte {
	if len(b) > 0 {
		b = append(b, ", "...)
	}
	return AppendString(b, name)
}

// AppendString appends a String of a structured field. A byte that may not stand in one is written
// as %XX.
func AppendString(b []byte, text string) []byte {
	const hex = "0123456789ABCDEF"
	b = append(b, '"')
	from := 0 // the bytes before it are appended: all at once, for few texts have any to escape
	for i := range len(text) {
		c := text[i]
		escape := c == '"' || c == '\\'
		if !escape && c >= ' ' && c <= '~' { // a String is printable ASCII
			continue
		}
		b = append(b, text[from:i]...)
		if from = i + 1; escape {
			b = append(b, '\\', c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return append(append(b, text[from:]...), '"')
}

// AppendInteger appends an Integer of a structured field, from 0 to the largest
// that there is.
func AppendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(n, 0), maxInteger), 10)
}
