package envoy

import (
	"encoding/json"
	"testing"

	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// TestDynamicMetadata: what rules say of themselves goes back when they let
// pass; the request only when it is asked for.
func TestDynamicMetadata(t *testing.T) {
	set, err := rules.Parse("rules.yaml", []byte(`domain: d
descriptors:
  - key: a
    rate_limit: {unit: day, requests_per_unit: 1}
    metadata: {tier: gold, list: [1, x, ~, yes], nested: {deep: {one: 1}, only: .inf}}
  - key: b
    limits: [9/day, 8/h]
    metadata: {tier: silver, more: 1.5, nested: {deep: {two: 2, one: 9}, only: {}}}
  - {key: plain, limits: [9/day]}
  - {key: free, rate_limit: {unlimited: true}, metadata: {tier: none}}
  - {key: shadow, limits: [0/day], shadow_mode: true, metadata: {seen: true}}
`))
	if err != nil {
		t.Fatal(err)
	}
	limiter := rules.NewLimiter(memstore.New(memstore.Options{}), set)
	for _, c := range []struct {
		name string
		q    *rls.RateLimitRequest
		echo bool
		want string
	}{
		{"rules without it", request(descriptor("plain"), descriptor("none"), descriptor("free")), false, "null"},
		{
			"of equal keys the first, but mappings are merged", request(descriptor("a"), descriptor("b"), descriptor("shadow")), false,
			`{"metadata":{"tier":"gold","list":[1,"x",null,true],"nested":{"deep":{"one":1,"two":2},"only":".inf"},"more":1.5,"seen":true}}`,
		},
		{
			"not of what denies; and merging has changed no rule", request(descriptor("a"), descriptor("b")), false,
			`{"metadata":{"tier":"silver","more":1.5,"nested":{"deep":{"two":2,"one":9},"only":{}}}}`,
		},
		{"nothing lets pass", request(descriptor("a")), false, "null"},
		{
			"the request", request(hits(overriding(descriptor("a", "k"), 7, envoytype.RateLimitUnit_HOUR), 0), descriptor("plain")), true,
			`{"domain":"d","descriptors":[{"entries":["a=v","k=v"],"limit":"requests_per_unit:7 unit:HOUR","hitsAddend":0},{"entries":["plain=v"]}]}`,
		},
		{
			"both", &rls.RateLimitRequest{Domain: "d", HitsAddend: 2, Descriptors: request(descriptor("shadow")).Descriptors}, true,
			`{"domain":"d","hitsAddend":2,"descriptors":[{"entries":["shadow=v"]}],"metadata":{"seen":true}}`,
		},
	} {
		r, err := ShouldRateLimit(t.Context(), limiter, c.q, Options{Echo: c.echo})
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if r.DynamicMetadata != nil {
			got = r.DynamicMetadata.AsMap()
		}
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s:\n%s", c.name, d)
		}
	}
}
