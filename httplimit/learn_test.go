package httplimit

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/internal/pacing"
)

// server is the time in the Date field of these tests, and here that of a client
// whose clock is an hour late.
var (
	server = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	here   = server.Add(-time.Hour)
)

// header has these fields, a line each.
func header(t testing.TB, fields string) http.Header {
	t.Helper()
	h := http.Header{}
	for line := range strings.Lines(fields) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok && strings.TrimSpace(line) != "" {
			t.Fatalf("field %q", line)
		}
		if name != "" {
			h.Add(name, strings.TrimSpace(value))
		}
	}
	return h
}

// TestLearn: what each family of fields says.
func TestLearn(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name   string
		fields string
		want   []pacing.Quota
	}{
		{
			"drafts 8 to 10", `
			RateLimit-Policy: "burst";q=100;w=60,"daily";q=1000;w=86400
			RateLimit: "burst";r=0;t=12;pk=:cHsdsRa894==:, "daily";r=7`,
			[]pacing.Quota{{Remaining: 0, Limit: 100, Reset: 12 * s, Window: 60 * s}, {Remaining: 7, Limit: 1000, Window: 86400 * s}},
		},
		{
			"over several lines, unknown and doubled parameters", `
			RateLimit-Policy: "a";q=9;w=3;q=5;x-y="\"\\", "b";q=6
			RateLimit: "a";r=1;zz=?1;at=@1;d=1.5;n=-4;flag
			RateLimit: "b";r=2`,
			[]pacing.Quota{{Remaining: 1, Limit: 5, Window: 3 * s}, {Remaining: 2, Limit: 6}},
		},
		{
			"units", `
			RateLimit-Policy: "n";q=1;qu="requests", "b";q=2;qu="content-bytes", "c";q=3;qu="concurrent-requests"
			RateLimit: "n";r=1, "b";r=2, "c";r=3`,
			[]pacing.Quota{{Remaining: 1, Limit: 1}, {Remaining: 2, Limit: 2, Other: true}, {Remaining: 3, Limit: 3, Other: true}},
		},
		{"parameters by their later names", `RateLimit: "p";a=4;w=9`, []pacing.Quota{{Remaining: 4, Reset: 9 * s}}},
		{"a policy that is broken", `
			RateLimit-Policy: "a";q=
			RateLimit: "a";r=5`, []pacing.Quota{{Remaining: 5}}},
		{"draft 7", `
			RateLimit-Policy: 10;w=60, 5;w=1
			RateLimit: limit=10, remaining=5, reset=30`, []pacing.Quota{{Remaining: 5, Limit: 10, Reset: 30 * s, Window: 60 * s}}},
		{"draft 6", `
			RateLimit-Policy: 10;w=60
			RateLimit-Limit: 10
			RateLimit-Remaining: 4
			RateLimit-Reset: 20`, []pacing.Quota{{Remaining: 4, Limit: 10, Reset: 20 * s, Window: 60 * s}}},
		{"draft 3, Envoy", `
			X-RateLimit-Limit: 10, 10;w=1;name="per second", 100;w=60
			X-RateLimit-Remaining: 9
			X-RateLimit-Reset: 1`, []pacing.Quota{{Remaining: 9, Limit: 10, Reset: s, Window: s}}},
		{"GitHub, by the server's clock", `
			X-RateLimit-Limit: 5000
			X-RateLimit-Remaining: 4999
			X-RateLimit-Reset: 1795345200
			X-RateLimit-Resource: core`, []pacing.Quota{{Remaining: 4999, Limit: 5000, Reset: time.Hour}}},
		{"milliseconds since 1970", `
			X-RateLimit-Remaining: 3
			X-RateLimit-Reset: 1795341601500`, []pacing.Quota{{Remaining: 3, Reset: 1500 * time.Millisecond}}},
		{"Twitter", `
			X-Rate-Limit-Limit: 15
			X-Rate-Limit-Remaining: 0
			X-Rate-Limit-Reset: 1795341660`, []pacing.Quota{{Limit: 15, Reset: 60 * s}}},
		{"Discord", `
			X-RateLimit-Limit: 5
			X-RateLimit-Remaining: 0
			X-RateLimit-Reset: 1795341601.250
			X-RateLimit-Reset-After: 1.5`, []pacing.Quota{{Limit: 5, Reset: 1500 * time.Millisecond}}},
		{"Reddit, in fractions", `
			X-RateLimit-Remaining: 588.9
			X-RateLimit-Reset: 418`, []pacing.Quota{{Remaining: 588, Reset: 418 * s}}},
		{"a date of HTTP", `
			X-RateLimit-Remaining: 0
			X-RateLimit-Reset: Sun, 22 Nov 2026 10:00:05 GMT`, []pacing.Quota{{Reset: 5 * s}}},
		{
			"OpenAI", `
			X-RateLimit-Limit-Requests: 60
			X-RateLimit-Remaining-Requests: 59
			X-RateLimit-Reset-Requests: 12ms
			X-RateLimit-Limit-Tokens: 150000
			X-RateLimit-Remaining-Tokens: 149984
			X-RateLimit-Reset-Tokens: 6m0s`,
			[]pacing.Quota{{Remaining: 59, Limit: 60, Reset: 12 * time.Millisecond}, {Remaining: 149984, Limit: 150000, Reset: 6 * time.Minute, Other: true}},
		},
		{
			"Anthropic", `
			anthropic-ratelimit-requests-limit: 50
			anthropic-ratelimit-requests-remaining: 0
			anthropic-ratelimit-requests-reset: 2026-11-22T10:00:30Z
			anthropic-ratelimit-output-tokens-limit: 8000
			anthropic-ratelimit-output-tokens-remaining: 100
			anthropic-ratelimit-output-tokens-reset: 2026-11-22T11:00:00+01:00`,
			[]pacing.Quota{{Limit: 50, Reset: 30 * s}, {Remaining: 100, Limit: 8000, Other: true}},
		},
		{"Stripe tells a reason only", `Stripe-Rate-Limited-Reason: global-rate`, nil},
		{"a reset that is over", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset: 1795341599", []pacing.Quota{{Remaining: 1}}},
		{"a reset that is nothing", "X-RateLimit-Remaining: 1\nX-RateLimit-Reset: soon", []pacing.Quota{{Remaining: 1}}},
		{"a cache's answer", "Age: 3\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 3", nil},
		{"no number", "X-RateLimit-Remaining: -1", nil},
		{
			"absurd", "X-RateLimit-Remaining: 1e99\nRateLimit-Remaining: 999999999999999999999999\nRateLimit-Reset: 99999999999999999999999999",
			[]pacing.Quota{{Remaining: 1 << 53, Reset: longest}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := heard(200, header(t, "Date: "+server.Format(http.TimeFormat)+"\n"+c.fields), here)
			if diff := cmp.Diff(pacing.Reply{Quotas: c.want}, r); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLearnMalformed: a field that is malformed is ignored as a whole.
func TestLearnMalformed(t *testing.T) {
	for _, field := range []string{
		``, `,`, `"a"`, `"a";r`, `"a";r=x`, `"a";r=-1`, `"a";r=1.5`, `"a";r=1,`, `"a";r=1 "b";r=1`, `"a";r=1;t=-1`, `"a";r=1;t=x`,
		`"a;r=1`, `"\a";r=1`, "\"\u00e9\";r=1", `("a" "b");r=1`, `5;r=1`, `:YQ==;r=1`, `:!:;r=1`, `"a";r=1;p=:!:`, `"a";r=1;=2`, `"a";r=1;A=2`,
		`"a";r=9999999999999999`, `"a";r=1, remaining=5`, `remaining=5, "a";r=1`, `limit=10`, `remaining=-1`, `remaining="5"`, `"a";r=1;b=?2`,
		`"a";r=1;b=@x`, `"a";r=1;b=1.2345`, `"a";r=1;b=`, `"a";r=1;b=-`,
		`"a";r=1` + strings.Repeat(`, "a";r=1`, maxMembers), `"a";r=1;x="` + strings.Repeat("y", maxLearned) + `"`,
	} {
		if r := heard(200, header(t, "RateLimit: "+field), here); len(r.Quotas) > 0 {
			t.Errorf("%.80q: %+v", field, r.Quotas)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	date := "Date: " + server.Format(http.TimeFormat) + "\n"
	for _, c := range []struct {
		status int
		fields string
		denied bool
		told   bool
		after  time.Duration
	}{
		{200, "Retry-After: 5", false, false, 0},
		{202, "Retry-After: 5", false, false, 0},
		{301, "Retry-After: 5", false, false, 0},
		{429, "", true, false, 0},
		{429, "Retry-After: 5", true, true, 5 * time.Second},
		{503, "Retry-After: 0", true, true, 0},
		{503, "Retry-After: 1.5", true, true, 1500 * time.Millisecond},
		{429, "Retry-After: -5", true, false, 0},
		{429, "Retry-After: soon", true, false, 0},
		{429, "Retry-After: NaN", true, false, 0},
		{429, "Retry-After: 1e3", true, false, 0},
		{429, "Retry-After: 0x10", true, false, 0},
		{429, "Retry-After: 18446744073709551616", true, true, longest},
		{429, date + "Retry-After: Sun, 22 Nov 2026 10:00:07 GMT", true, true, 7 * time.Second},
		{429, "Retry-After: Sun, 22 Nov 2026 10:00:07 GMT", true, true, time.Hour + 7*time.Second}, // no Date: by the own clock
		{429, date + "Retry-After: Sunday, 22-Nov-26 10:00:07 GMT", true, true, 7 * time.Second},
		{429, date + "Retry-After: Sun, 22 Nov 2026 09:59:59 GMT", true, true, 0},
		{403, "", false, false, 0},
		{403, "X-RateLimit-Remaining: 7", false, false, 0},
		{403, "X-RateLimit-Remaining: 0", true, false, 0},
		{403, "Retry-After: 60", true, true, time.Minute},
		{500, "Retry-After: 5", false, false, 0},
	} {
		r := heard(c.status, header(t, c.fields), here)
		if r.Denied != c.denied || r.Told != c.told || r.After != c.after {
			t.Errorf("%d %q: denied %v, told %v, after %v; want %v, %v, %v", c.status, c.fields, r.Denied, r.Told, r.After, c.denied, c.told, c.after)
		}
	}
}

// FuzzLearn: whatever a server writes, what is learned is in its bounds.
func FuzzLearn(f *testing.F) {
	f.Add(429, "7", `"a";r=1;t=2`, `"a";q=10;w=60`, "5", "1795345200")
	f.Add(503, "Sun, 22 Nov 2026 10:00:07 GMT", "limit=1, remaining=0, reset=9", "10;w=60", "0", "6m0s")
	f.Add(403, "1e99", `"\"\\";r=1;p=:YQ==:;q=?0;d=-1.5;e=@1`, "*;q=1", "1.5", "2026-11-22T10:00:30Z")
	f.Fuzz(func(t *testing.T, status int, after, limit, policies, remaining, reset string) {
		h := http.Header{}
		h.Set("Retry-After", after)
		h.Set("RateLimit", limit)
		h.Set("RateLimit-Policy", policies)
		h.Set("X-RateLimit-Remaining", remaining)
		h.Set("X-RateLimit-Limit", limit)
		h.Set("X-RateLimit-Reset", reset)
		r := heard(status, h, here)
		if r.After < 0 || r.After > longest || r.Told && !r.Denied || len(r.Quotas) > maxMembers+len(families) {
			t.Errorf("%+v", r)
		}
		for _, q := range r.Quotas {
			if q.Remaining < 0 || q.Limit < 0 || q.Reset < 0 || q.Reset > longest || q.Window < 0 || q.Remaining > math.MaxInt64/2 {
				t.Errorf("%+v", q)
			}
		}
	})
}
