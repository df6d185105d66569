package httpapi

import (
	"bytes"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// AppendAnswer appends an answer to b as /v1/check gives it, on one line. The
// receipt is left out when it is empty.
func AppendAnswer(b []byte, a *rules.Answer, receipt string) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, a.ID())
	b = append(b, `,"allowed":`...)
	b = strconv.AppendBool(b, a.Allowed)
	b = append(b, `,"decisive":`...)
	if a.Decisive < 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, int64(a.Decisive), 10)
	}
	if retry, ok := a.RetryAfter(); ok && retry > 0 {
		b = append(b, `,"retry_after_seconds":`...)
		b = appendSeconds(b, retry)
	}
	if holds(a) {
		b = append(b, `,"hold_seconds":`...)
		b = appendSeconds(b, a.Hold())
	}
	if receipt != "" {
		b = append(b, `,"receipt":`...)
		b = appendString(b, receipt)
	}
	b = append(b, `,"decisions":[`...)
	for i := range a.Decisions {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendDecision(b, &a.Decisions[i])
	}
	return append(b, "]}"...)
}

// AppendCheck appends a request to b as /v1/check takes it, without what has its
// default.
func AppendCheck(b []byte, q *rules.Request) []byte {
	b = append(b, `{"domain":`...)
	b = appendString(b, q.Domain)
	b = append(b, `,"descriptors":[`...)
	for i := range q.Descriptors {
		d := &q.Descriptors[i]
		b = append(b, `{"entries":[`...)
		for j := range d.Entries {
			b = append(b, `{"key":`...)
			b = appendString(b, d.Entries[j].Key)
			b = append(b, `,"value":`...)
			b = appendString(b, d.Entries[j].Value)
			b = append(b, '}', ',')
		}
		b = append(bytes.TrimSuffix(b, []byte(",")), ']')
		if d.Cost != 1 {
			b = append(b, `,"cost":`...)
			b = strconv.AppendInt(b, d.Cost, 10)
		}
		b = append(b, '}', ',')
	}
	b = append(bytes.TrimSuffix(b, []byte(",")), ']')
	if q.Peek {
		b = append(b, `,"peek":true`...)
	}
	if q.Receipt {
		b = append(b, `,"receipt":true`...)
	}
	return append(b, '}')
}

// holds is whether the request passes through a leaky-queue.
func holds(a *rules.Answer) bool {
	if !a.Allowed {
		return false
	}
	for i := range a.Decisions {
		if d := &a.Decisions[i]; !d.Rule.Shadow && queues(d) {
			return true
		}
	}
	return false
}

// queues is whether d tells its caller how long to wait before it goes.
func queues(d *rules.Decision) bool {
	return d.Outcome == weir.Allowed && (d.Hold > 0 || d.Rule.Limit.Algorithm() == weir.LeakyQueue)
}

func appendDecision(b []byte, d *rules.Decision) []byte {
	b = append(b, `{"descriptor":`...)
	b = strconv.AppendInt(b, int64(d.Descriptor), 10)
	b = append(b, `,"rule":`...)
	b = appendString(b, d.Rule.Name)
	b = append(b, `,"limit":`...)
	b = appendString(b, d.Rule.Limit.String())
	b = append(b, `,"outcome":"`...)
	b = append(b, d.Outcome.String()...)
	b = append(b, `","cost":`...)
	b = strconv.AppendInt(b, d.Cost, 10)
	b = append(b, `,"charged":`...)
	b = strconv.AppendBool(b, d.Charged)
	b = append(b, `,"remaining":`...)
	b = strconv.AppendInt(b, d.Remaining, 10)
	if d.Outcome == weir.Denied && d.RetryAfter > 0 {
		b = append(b, `,"retry_after_seconds":`...)
		b = appendSeconds(b, d.RetryAfter)
	}
	b = append(b, `,"reset_after_seconds":`...)
	b = appendSeconds(b, d.ResetAfter)
	if queues(d) {
		b = append(b, `,"hold_seconds":`...)
		b = appendSeconds(b, d.Hold)
	}
	b = append(b, `,"shadow":`...)
	b = strconv.AppendBool(b, d.Rule.Shadow)
	b = append(b, `,"degraded":"`...)
	b = append(b, d.Degraded...)
	return append(b, `"}`...)
}

// appendSeconds appends d as a decimal number of seconds, rounded up to the
// microsecond. No float is on the way, so what is exact stays exact.
func appendSeconds(b []byte, d time.Duration) []byte {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	b = strconv.AppendInt(b, us/1e6, 10)
	if us %= 1e6; us == 0 {
		return b
	}
	b = append(b, '.')
	for unit := int64(1e5); us > 0; unit /= 10 {
		b = append(b, byte('0'+us/unit))
		us %= unit
	}
	return b
}

// appendString appends s as a JSON string. A byte that is not UTF-8 becomes U+FFFD.
func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
			i++
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			i++
		case c < utf8.RuneSelf:
			b = append(b, c)
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
		}
	}
	return append(b, '"')
}
