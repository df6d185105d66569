package httplimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/internal/pacing"
)

// heard is what a response says of the limits of its server. It believes what it can read and leaves
// out the rest: a server with fields that are no standard is treated as one without.
//
// Times in fields are counted from the server's Date where they are instants, so that a client whose
// clock is wrong waits as long as it should.
func heard(status int, h http.Header, now time.Time) pacing.Reply {
	if date := h.Get("Date"); date != "" {
		if there, err := http.ParseTime(date); err == nil {
			now = there // instants are by the server's clock
		}
	}
	r := pacing.Reply{Denied: denies(status, h)}
	if r.Denied {
		r.After, r.Told = retryAfter(h.Get("Retry-After"), now)
	}
	if h.Get("Age") == "" { // else a cache tells of another time
		policies, ok := parseMembers(strings.Join(h["Ratelimit-Policy"], ","))
		if !ok {
			policies = nil
		}
		r.Quotas = append(standard(h, policies), legacy(h, policies, now)...)
	}
	return r
}

// denies is whether a server refused a request because too much is asked of it.
// 403 is GitHub's, which tells it from others by its fields.
func denies(status int, h http.Header) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	case http.StatusForbidden:
		return h.Get("Retry-After") != "" || h.Get("X-Ratelimit-Remaining") == "0"
	}
	return false
}

// retryAfter reads Retry-After (RFC 9110, section 10.2.3): seconds or a date. A
// date that is over is 0. Fractions of seconds are no standard and understood.
func retryAfter(field string, now time.Time) (time.Duration, bool) {
	if seconds, ok := number(field); ok {
		return wait(seconds * float64(time.Second)), true
	}
	if at, err := http.ParseTime(field); err == nil {
		return wait(float64(at.Sub(now))), true
	}
	return 0, false
}

// standard reads RateLimit and RateLimit-Policy as in drafts 7 to 10 of
// draft-ietf-httpapi-ratelimit-headers, and as its authors mean to rename the
// parameters: r and t to a and w. A field that is malformed is ignored.
//
//	RateLimit-Policy: "burst";q=10;w=1, "day";q=1000;w=86400
//	RateLimit: "burst";r=4, "day";r=0;t=3600
//
// These are two quotas: 4 of 10 a second remain, and none of 1000 a day for an hour. The name joins the
// two fields; a quota without a policy has no Limit and no Window.
func standard(h http.Header, policies []member) []pacing.Quota {
	limits, ok := parseMembers(strings.Join(h["Ratelimit"], ","))
	if !ok || len(limits) == 0 {
		return nil
	}
	if limits[0].key != "" {
		return dictionary(limits, policies)
	}
	var all []pacing.Quota
	for i := range limits {
		q, ok := left(&limits[i])
		if !ok {
			return nil
		}
		for j := range policies {
			if policies[j].kind == 't' && policies[j].text == limits[i].text {
				q.Limit, q.Window, q.Other = policy(&policies[j])
			}
		}
		all = append(all, q)
	}
	return all
}

// left is an item of RateLimit: what remains of the limit that it names. It is false for an item that
// has no name or does not say what remains.
func left(m *member) (pacing.Quota, bool) {
	r, there, ok := m.integer("r")
	t, _, well := m.integer("t")
	if !there {
		r, there, ok = m.integer("a")
		t, _, well = m.integer("w")
	}
	return pacing.Quota{Remaining: r, Reset: seconds(t)}, m.key == "" && m.kind == 't' && there && ok && well
}

// policy is an item of RateLimit-Policy: how much in which window. other is whether it counts something
// else than requests, such as bytes: then what remains of it says little about the next request.
func policy(m *member) (limit int64, window time.Duration, other bool) {
	q, _, _ := m.integer("q")
	w, _, _ := m.integer("w")
	if m.kind == 'i' { // up to draft 7 the item is the limit
		q = m.number
	}
	unit := m.params["qu"].text
	return max(q, 0), seconds(w), unit != "" && unit != "requests"
}

// dictionary reads RateLimit as in draft 7: limit=10, remaining=5, reset=30.
func dictionary(limits, policies []member) []pacing.Quota {
	var q pacing.Quota
	told := false
	for i := range limits {
		m := &limits[i]
		if m.key == "" {
			return nil
		}
		if m.kind != 'i' || m.number < 0 {
			continue
		}
		switch m.key {
		case "limit":
			q.Limit = m.number
		case "remaining":
			q.Remaining, told = m.number, true
		case "reset":
			q.Reset = seconds(m.number)
		}
	}
	if !told {
		return nil
	}
	q.Window = windowOf(q.Limit, policies)
	return []pacing.Quota{q}
}

// windowOf is the window of the policy that has this limit.
func windowOf(limit int64, policies []member) time.Duration {
	for i := range policies {
		if q, w, _ := policy(&policies[i]); q == limit {
			return w
		}
	}
	return 0
}

// families are the fields that tell of one limit in three lines, and whether it
// is of something else than requests: drafts 3 to 6 and Envoy; GitHub, Discord and
// most others; Twitter; OpenAI; Anthropic. They are spelled as http.Header keeps
// them.
var families = []struct {
	limit, remaining, reset string
	other                   bool
}{
	{"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", false},
	{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", false},
	{"X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset", false},
	{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests", false},
	{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens", true},
	{"Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset", false},
	{"Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset", true},
	{"Anthropic-Ratelimit-Input-Tokens-Limit", "Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset", true},
	{"Anthropic-Ratelimit-Output-Tokens-Limit", "Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset", true},
}

// legacy reads the families. Without what remains there is nothing to learn. A server may send several
// families, as for requests and for tokens: each is a quota of its own.
func legacy(h http.Header, policies []member, now time.Time) []pacing.Quota {
	var all []pacing.Quota
	for _, f := range families {
		remaining, ok := number(h.Get(f.remaining))
		if !ok {
			continue
		}
		q := pacing.Quota{Remaining: count(remaining), Other: f.other}
		if after, ok := number(h.Get(f.reset + "-After")); ok { // Discord's, which needs no clock
			q.Reset = wait(after * float64(time.Second))
		} else {
			q.Reset = reset(h.Get(f.reset), now)
		}
		if own, ok := parseMembers(h.Get(f.limit)); ok && len(own) > 0 {
			q.Limit = max(own[0].number, 0)
			q.Window = windowOf(q.Limit, append(own[1:], policies...)) // Envoy: 10, 10;w=1;name="…"
		}
		all = append(all, q)
	}
	return all
}

// A number without a unit is told by its size: 1e9 seconds are 31 years, and too long to wait; as time
// since 1970 they are the year 2001, which is over. So no number has two meanings that make sense.
const (
	epochSeconds = 1e9  // more is no time to wait, but since 1970
	epochMillis  = 1e12 // more is milliseconds since 1970
)

// reset reads when a limit lets more pass, in any of the ways that servers write
// it: seconds to wait, seconds or milliseconds since 1970, a duration as 6m0s, or
// a date of RFC 3339 or HTTP. It is 0 when it is none of these, or over.
func reset(field string, now time.Time) time.Duration {
	if n, ok := number(field); ok {
		switch since := float64(now.UnixMicro()) / 1e6; {
		case n > epochMillis:
			n = n/1e3 - since
		case n > epochSeconds:
			n -= since
		}
		return wait(n * float64(time.Second))
	}
	if d, err := time.ParseDuration(field); err == nil {
		return wait(float64(d))
	}
	at, err := time.Parse(time.RFC3339, field)
	if err != nil {
		at, err = http.ParseTime(field)
	}
	if err != nil {
		return 0
	}
	return wait(float64(at.Sub(now)))
}

// number reads digits, with a fraction if there is one.
func number(field string) (float64, bool) {
	if strings.Trim(field, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(field, 64)
	return n, err == nil
}

// count is a number of requests, as far as numbers go that are exact.
func count(n float64) int64 { return int64(min(n, 1<<53)) }

// longest is 146 years, half of the largest Duration: adding to it does not overflow. No number that a
// server means is longer, and a client bounds its waiting by MaxWait anyway.
const longest = 1 << 62

// wait is a number of nanoseconds to wait, rounded up, from 0 to longest.
func wait(ns float64) time.Duration { return time.Duration(math.Ceil(min(max(ns, 0), longest))) }

// seconds is n seconds, at most longest.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, longest/int64(time.Second))) * time.Second
}
