package envoy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

const ruleFile = `domain: d
descriptors:
  - key: second
    rate_limit: {unit: second, requests_per_unit: 10, name: per_second}
  - key: minute
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: week
    rate_limit: {unit: week, requests_per_unit: 10}
  - key: month
    rate_limit: {unit: month, requests_per_unit: 10}
  - key: year
    rate_limit: {unit: year, requests_per_unit: 10}
  - key: civil
    limits: [10/month fixed-window]
  - key: civilyear
    limits: [10/year fixed-window zone Europe/Berlin]
  - key: gcra
    limits: [5/h burst 10]
  - key: odd
    limits: [10/30s]
  - key: slots
    limits: [3 concurrent]
  - key: large
    limits: [4294967295/day fixed-window]
  - key: two
    limits: [3/day, 2/h, 10/s]
  - key: free
    rate_limit: {unlimited: true}
  - key: shadow
    rate_limit: {unit: hour, requests_per_unit: 1}
    shadow_mode: true
  - key: denied
    limits: [0/s]
  - key: queue
    limits: [60/min leaky-queue queue 0]
`

func newLimiter(t testing.TB) *rules.Limiter {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(ruleFile))
	if err != nil {
		t.Fatal(err)
	}
	return rules.NewLimiter(memstore.New(memstore.Options{}), set)
}

// descriptor is one with the keys, each with the value v.
func descriptor(keys ...string) *ratelimit.RateLimitDescriptor {
	d := new(ratelimit.RateLimitDescriptor)
	for _, k := range keys {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: k, Value: "v"})
	}
	return d
}

func hits(d *ratelimit.RateLimitDescriptor, n uint64) *ratelimit.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(n)
	return d
}

func negative(d *ratelimit.RateLimitDescriptor) *ratelimit.RateLimitDescriptor {
	d.IsNegativeHits = true
	return d
}

func overriding(d *ratelimit.RateLimitDescriptor, n uint32, unit envoytype.RateLimitUnit) *ratelimit.RateLimitDescriptor {
	d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
	return d
}

func request(descriptors ...*ratelimit.RateLimitDescriptor) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: "d", Descriptors: descriptors}
}

// brief is a response in short: code, then each status.
func brief(r *rls.RateLimitResponse) string {
	var b strings.Builder
	b.WriteString(r.OverallCode.String())
	for _, s := range r.Statuses {
		fmt.Fprintf(&b, " | %v", s.Code)
		if l := s.CurrentLimit; l != nil {
			fmt.Fprintf(&b, " %q %d/%v", l.Name, l.RequestsPerUnit, l.Unit)
		}
		fmt.Fprintf(&b, " left %d", s.LimitRemaining)
		if s.DurationUntilReset != nil {
			fmt.Fprintf(&b, " until %v", s.DurationUntilReset.AsDuration())
		}
	}
	return b.String()
}

// TestStatuses asks one limiter about one request after the other, at
// 2000-01-01T00:00:00Z, a Saturday.
func TestStatuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		asked []*rls.RateLimitRequest
		want  []string
	}{
		{
			"name = rate_limit.name in Envoy's form, though it be none, else the rule name",
			[]*rls.RateLimitRequest{request(descriptor("second"), descriptor("minute"), descriptor("gcra"))},
			[]string{`OK | OK "per_second" 10/SECOND left 9 until 1s | OK "" 10/MINUTE left 9 until 1m0s | OK "d/gcra" 5/HOUR left 9 until 12m0s`},
		},
		{
			"unit if the period is exactly one unit, else UNKNOWN",
			[]*rls.RateLimitRequest{request(
				descriptor("week"), descriptor("month"), descriptor("year"), descriptor("civil"), descriptor("civilyear"), descriptor("odd"), descriptor("slots"))},
			[]string{`OK | OK "" 10/WEEK left 9 until 120h0m0s | OK "" 10/MONTH left 9 until 552h0m0s | OK "" 10/YEAR left 9 until 8592h0m0s` +
				` | OK "d/civil" 10/MONTH left 9 until 744h0m0s | OK "d/civilyear" 10/YEAR left 9 until 8783h0m0s` +
				` | OK "d/odd" 10/UNKNOWN left 9 until 3s | OK "d/slots" 3/UNKNOWN left 2 until 1m0s`},
		},
		{
			"a status for every descriptor, in their order; no match = OK without current_limit; unlimited = OK, remaining u32 max",
			[]*rls.RateLimitRequest{request(descriptor("none"), descriptor("free"), descriptor("odd"), descriptor("odd", "deeper"), descriptor("free"))},
			[]string{`OK | OK left 0 | OK left 4294967295 | OK "d/odd" 10/UNKNOWN left 9 until 3s | OK left 0 | OK left 4294967295`},
		},
		{
			"a descriptor's status is its decisive limit's: least remaining, then largest retry",
			[]*rls.RateLimitRequest{request(descriptor("two")), request(descriptor("two")), request(descriptor("two")), request(hits(descriptor("two"), 4))},
			[]string{
				`OK | OK "d/two#2" 2/HOUR left 1 until 30m0s`,
				`OK | OK "d/two#2" 2/HOUR left 0 until 1h0m0s`,
				`OVER_LIMIT | OVER_LIMIT "d/two#2" 2/HOUR left 0 until 30m0s`,
				`OVER_LIMIT | OVER_LIMIT "d/two#1" 3/DAY left 1 until 16h0m0s`,
			},
		},
		{
			"hits_addend: request 0 means 1",
			[]*rls.RateLimitRequest{{Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("minute")}}},
			[]string{`OK | OK "" 10/MINUTE left 9 until 1m0s`},
		},
		{
			"hits_addend: the descriptor's beats it, and its 0 peeks",
			[]*rls.RateLimitRequest{
				{Domain: "d", HitsAddend: 4, Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("minute"), hits(descriptor("second"), 2), hits(descriptor("gcra"), 0)}},
				request(hits(descriptor("minute"), 0)),
			},
			[]string{
				`OK | OK "" 10/MINUTE left 6 until 1m0s | OK "per_second" 10/SECOND left 8 until 1s | OK "d/gcra" 5/HOUR left 10 until 1s`,
				`OK | OK "" 10/MINUTE left 6 until 1m0s`,
			},
		},
		{
			"is_negative_hits gives back, never beyond what is used, before the others are decided",
			[]*rls.RateLimitRequest{
				request(hits(descriptor("minute"), 7), hits(descriptor("two"), 2)),
				request(negative(hits(descriptor("minute"), 4)), negative(descriptor("two")), descriptor("second")),
				request(negative(hits(descriptor("minute"), math.MaxUint64)), hits(descriptor("minute"), 10)),
				request(negative(descriptor("none")), negative(descriptor("free")), negative(hits(descriptor("minute"), 0))),
				request(negative(descriptor("minute")), negative(descriptor("minute"))),
			},
			[]string{
				`OK | OK "" 10/MINUTE left 3 until 1m0s | OK "d/two#2" 2/HOUR left 0 until 1h0m0s`,
				`OK | OK "" 10/MINUTE left 7 until 1m0s | OK "d/two#2" 2/HOUR left 1 until 30m0s | OK "per_second" 10/SECOND left 9 until 1s`,
				`OK | OK "" 10/MINUTE left 0 until 1m0s | OK "" 10/MINUTE left 0 until 1m0s`,
				`OK | OK left 0 | OK left 4294967295 | OK "" 10/MINUTE left 0 until 1m0s`,
				`OK | OK "" 10/MINUTE left 2 until 1m0s | OK "" 10/MINUTE left 2 until 1m0s`,
			},
		},
		{
			"is_negative_hits gives back though another denies, and again when it is sent again",
			[]*rls.RateLimitRequest{
				request(hits(descriptor("minute"), 7)),
				request(negative(hits(descriptor("minute"), 2)), hits(descriptor("second"), 11)),
				request(negative(hits(descriptor("minute"), 2)), hits(descriptor("second"), 11)),
			},
			[]string{
				`OK | OK "" 10/MINUTE left 3 until 1m0s`,
				`OVER_LIMIT | OK "" 10/MINUTE left 5 until 1m0s | OVER_LIMIT "per_second" 10/SECOND left 10 until 1s`,
				`OVER_LIMIT | OK "" 10/MINUTE left 7 until 1m0s | OVER_LIMIT "per_second" 10/SECOND left 10 until 1s`,
			},
		},
		{
			"hits_addend > 2^30 is over limit, and charges nothing",
			[]*rls.RateLimitRequest{
				request(hits(descriptor("large"), 1<<30), descriptor("minute")),
				request(hits(descriptor("large"), 1<<30+1), descriptor("minute")),
				request(hits(descriptor("large"), math.MaxUint32), descriptor("minute")),
				request(hits(descriptor("large"), math.MaxInt64), descriptor("minute")),
				request(hits(descriptor("large"), math.MaxUint64), descriptor("minute")),
				{Domain: "d", HitsAddend: math.MaxUint32, Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("large"), hits(descriptor("minute"), 1)}},
				request(hits(descriptor("large"), math.MaxUint64), hits(descriptor("large"), math.MaxUint64)),
				request(descriptor("minute")),
			},
			[]string{
				`OK | OK "d/large" 4294967295/DAY left 3221225471 until 24h0m0s | OK "" 10/MINUTE left 9 until 1m0s`,
				`OVER_LIMIT | OVER_LIMIT "d/large" 4294967295/DAY left 3221225471 until 24h0m0s | OK "" 10/MINUTE left 9 until 1m0s`,
				`OVER_LIMIT | OVER_LIMIT "d/large" 4294967295/DAY left 3221225471 until 24h0m0s | OK "" 10/MINUTE left 9 until 1m0s`,
				`OVER_LIMIT | OVER_LIMIT "d/large" 4294967295/DAY left 3221225471 until 24h0m0s | OK "" 10/MINUTE left 9 until 1m0s`,
				`OVER_LIMIT | OVER_LIMIT "d/large" 4294967295/DAY left 3221225471 until 24h0m0s | OK "" 10/MINUTE left 9 until 1m0s`,
				`OVER_LIMIT | OVER_LIMIT "d/large" 4294967295/DAY left 3221225471 until 24h0m0s | OK "" 10/MINUTE left 9 until 1m0s`,
				`OVER_LIMIT | OVER_LIMIT "d/large" 4294967295/DAY left 3221225471 until 24h0m0s | OVER_LIMIT "d/large" 4294967295/DAY left 3221225471 until 24h0m0s`,
				`OK | OK "" 10/MINUTE left 8 until 1m0s`,
			},
		},
		{
			"hits_addend > 2^30 without a limit is over none",
			[]*rls.RateLimitRequest{request(hits(descriptor("none"), math.MaxUint64), hits(descriptor("free"), math.MaxUint64), descriptor("minute"))},
			[]string{`OK | OK left 0 | OK left 4294967295 | OK "" 10/MINUTE left 9 until 1m0s`},
		},
		{
			"nothing is charged when one denies",
			[]*rls.RateLimitRequest{request(descriptor("minute"), descriptor("denied")), request(descriptor("minute"))},
			[]string{
				`OVER_LIMIT | OK "" 10/MINUTE left 10 until 1s | OVER_LIMIT "d/denied" 0/SECOND left 0 until 1s`,
				`OK | OK "" 10/MINUTE left 9 until 1m0s`,
			},
		},
		{
			"a shadow limit is reported and lets pass",
			[]*rls.RateLimitRequest{request(descriptor("shadow")), request(descriptor("shadow"))},
			[]string{`OK | OK "" 1/HOUR left 0 until 1h0m0s`, `OK | OK "" 1/HOUR left 0 until 1h0m0s`},
		},
		{
			"an override stands in place of the rules, aligned to the epoch, if the domain is known",
			[]*rls.RateLimitRequest{
				request(overriding(descriptor("minute"), 1, envoytype.RateLimitUnit_HOUR), overriding(descriptor("any"), 2, envoytype.RateLimitUnit_MONTH)),
				request(overriding(descriptor("minute"), 1, envoytype.RateLimitUnit_HOUR)),
				{Domain: "other", Descriptors: []*ratelimit.RateLimitDescriptor{overriding(descriptor("minute"), 0, envoytype.RateLimitUnit_HOUR)}},
				request(overriding(descriptor("none"), 0, envoytype.RateLimitUnit_YEAR)),
				request(overriding(descriptor("none"), math.MaxUint32, envoytype.RateLimitUnit_DAY)),
				request(overriding(descriptor("none"), 5, envoytype.RateLimitUnit_SECOND), overriding(descriptor("none"), 5, envoytype.RateLimitUnit_MINUTE)),
			},
			[]string{
				`OK | OK "" 1/HOUR left 0 until 1h0m0s | OK "" 2/MONTH left 1 until 552h0m0s`,
				`OVER_LIMIT | OVER_LIMIT "" 1/HOUR left 0 until 1h0m0s`,
				`OK | OK left 0`,
				`OVER_LIMIT | OVER_LIMIT "" 0/YEAR left 0 until 1s`,
				`OK | OK "" 4294967295/DAY left 4294967294 until 24h0m0s`,
				`OK | OK "" 5/SECOND left 4 until 1s | OK "" 5/MINUTE left 4 until 1m0s`,
			},
		},
		{
			"permits give no time: duration_until_reset ≥ 1 s",
			[]*rls.RateLimitRequest{request(hits(descriptor("slots"), 3)), request(descriptor("slots"))},
			[]string{`OK | OK "d/slots" 3/UNKNOWN left 0 until 1m0s`, `OVER_LIMIT | OVER_LIMIT "d/slots" 3/UNKNOWN left 0 until 1s`},
		},
		{
			"unknown domain",
			[]*rls.RateLimitRequest{{Domain: "x", Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("minute")}}},
			[]string{`OK | OK left 0`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiter := newLimiter(t)
				for i, q := range c.asked {
					r, err := ShouldRateLimit(t.Context(), limiter, q, Options{})
					if err != nil {
						t.Fatalf("%d: %v", i, err)
					}
					if got := brief(r); got != c.want[i] {
						t.Errorf("%d:\n got %s\nwant %s", i, got, c.want[i])
					}
				}
			})
		})
	}
}

// TestBadRequests: "INVALID_ARGUMENT for bad requests, an override without a
// valid unit among them".
func TestBadRequests(t *testing.T) {
	multiplied := func(m uint32, unit envoytype.RateLimitUnit) *ratelimit.RateLimitDescriptor {
		d := overriding(descriptor("k"), 1, unit)
		d.Limit.UnitMultiplier = wrapperspb.UInt32(m)
		return d
	}
	long := descriptor("minute")
	long.Entries[0].Value = strings.Repeat("v", rules.MaxWord+1)
	for _, c := range []struct {
		name string
		q    *rls.RateLimitRequest
		says string
	}{
		{"nothing", nil, "domain: is empty"},
		{"no domain", &rls.RateLimitRequest{Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("minute")}}, "domain: is empty"},
		{"no descriptors", request(), "descriptors: there are 0"},
		{"101 descriptors", request(make([]*ratelimit.RateLimitDescriptor, 101)...), "descriptors: there are 101; there may be 100"},
		{"10,000 descriptors", request(make([]*ratelimit.RateLimitDescriptor, 10_000)...), "descriptors: there are 10000"},
		{"no entries", request(descriptor()), "descriptors[0].entries: there are 0"},
		{"17 entries", request(descriptor(make([]string, 17)...)), "descriptors[0].entries: there are 17"},
		{"nil descriptor", request(descriptor("minute"), nil), "descriptors[1].entries: there are 0"},
		{"empty key", request(descriptor("")), "descriptors[0].entries[0].key: is empty"},
		{"long value", request(long), "descriptors[0].entries[0].value: has 4097 bytes"},
		{"override without a unit", request(overriding(descriptor("minute"), 1, 0)), "descriptors[0].limit: unit: UNKNOWN is none"},
		{"override with a unit that is none", request(descriptor("k"), overriding(descriptor("minute"), 1, 99)), "descriptors[1].limit: unit: 99 is none"},
		{"override with a negative unit", request(overriding(descriptor("minute"), 1, -1)), "unit: -1 is none"},
		{"override of 0 units", request(multiplied(0, envoytype.RateLimitUnit_SECOND)), "unit_multiplier: it is 0"},
		{"override of too many units", request(multiplied(14, envoytype.RateLimitUnit_MONTH)), "unit_multiplier: it is 14; it must be 1…13"},
		{"override of far too many units", request(multiplied(math.MaxUint32, envoytype.RateLimitUnit_YEAR)), "it must be 1…1 "},
	} {
		_, err := ShouldRateLimit(t.Context(), newLimiter(t), c.q, Options{})
		if _, ok := errors.AsType[*RequestError](err); !ok || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v does not say %q", c.name, err, c.says)
		}
	}
}

// TestMultiplier: 30 of SECOND are a period of 30 s, which is no unit.
func TestMultiplier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := overriding(descriptor("k"), 2, envoytype.RateLimitUnit_SECOND)
		d.Limit.UnitMultiplier = wrapperspb.UInt32(30)
		r, err := ShouldRateLimit(t.Context(), newLimiter(t), request(d), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := brief(r), `OK | OK "" 2/UNKNOWN left 1 until 30s`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// TestRoundedUp: duration_until_reset = ⌈retry⌉ when denied, else ⌈reset⌉.
func TestRoundedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := newLimiter(t)
		for _, c := range []struct {
			wait time.Duration
			want string
		}{
			{0, `OK | OK "d/queue" 60/MINUTE left 0 until 1s`},
			{time.Millisecond, `OVER_LIMIT | OVER_LIMIT "d/queue" 60/MINUTE left 0 until 1s`},
			{998 * time.Millisecond, `OVER_LIMIT | OVER_LIMIT "d/queue" 60/MINUTE left 0 until 1s`},
			{time.Millisecond, `OK | OK "d/queue" 60/MINUTE left 0 until 1s`},
		} {
			time.Sleep(c.wait)
			r, err := ShouldRateLimit(t.Context(), limiter, request(descriptor("queue")), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := brief(r); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		}
	})
}

// TestNoRules: "UNAVAILABLE before rules are loaded" is for the listeners to say.
func TestNoRules(t *testing.T) {
	_, err := ShouldRateLimit(t.Context(), rules.NewLimiter(memstore.New(memstore.Options{}), nil), request(descriptor("minute")), Options{})
	if !errors.Is(err, rules.ErrNoRules) {
		t.Error(err)
	}
}

// FuzzShouldRateLimit: every request that can be decoded gets an answer with a
// status for each descriptor, or is refused as a bad one.
func FuzzShouldRateLimit(f *testing.F) {
	for _, q := range []*rls.RateLimitRequest{
		request(descriptor("minute"), hits(descriptor("large"), math.MaxUint64), overriding(descriptor("x"), 1, 3)),
		request(),
		{Domain: "x", HitsAddend: math.MaxUint32, Descriptors: []*ratelimit.RateLimitDescriptor{descriptor("two", "two")}},
	} {
		b, err := proto.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\xff\xff\xff"))
	limiter := newLimiter(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		q := new(rls.RateLimitRequest)
		if proto.Unmarshal(b, q) != nil {
			return
		}
		r, err := ShouldRateLimit(context.Background(), limiter, q, Options{})
		if err != nil {
			if _, ok := errors.AsType[*RequestError](err); !ok {
				t.Fatal(err)
			}
			return
		}
		if len(r.Statuses) != len(q.Descriptors) || r.OverallCode == rls.RateLimitResponse_UNKNOWN {
			t.Fatal(prototext.Format(r))
		}
		for _, s := range r.Statuses {
			if s.Code == rls.RateLimitResponse_UNKNOWN || s.CurrentLimit != nil && s.DurationUntilReset.GetSeconds() < 1 {
				t.Fatal(prototext.Format(r))
			}
			if s.Code == rls.RateLimitResponse_OVER_LIMIT && r.OverallCode != rls.RateLimitResponse_OVER_LIMIT {
				t.Fatal(prototext.Format(r))
			}
		}
		if err := proto.Unmarshal(must(proto.Marshal(r)), new(rls.RateLimitResponse)); err != nil {
			t.Fatal(err)
		}
	})
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func BenchmarkShouldRateLimit(b *testing.B) {
	limiter, q := newLimiter(b), request(descriptor("large"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ShouldRateLimit(b.Context(), limiter, q, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
