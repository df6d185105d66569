package weir_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
)

// TestJudge: each way for limits to agree or to differ about a request.
func TestJudge(t *testing.T) {
	yes := weir.Decision{Outcome: weir.Allowed, Remaining: 5}
	held := weir.Decision{Outcome: weir.Allowed, Remaining: 5, Hold: time.Minute}
	soon := weir.Decision{RetryAfter: time.Second}
	later := weir.Decision{RetryAfter: time.Hour}
	never := weir.Decision{Outcome: weir.Impossible}
	closed := weir.Decision{RetryAfter: time.Second, Degraded: weir.FallbackClosed}
	opened := weir.Decision{Outcome: weir.Allowed, Degraded: weir.FallbackOpen}
	plain, shadow, quota := weir.Ask{Cost: 1}, weir.Ask{Cost: 1, Shadow: true}, weir.Ask{Cost: 1, Quota: true}
	large, done := weir.Ask{Cost: weir.AskedCost(weir.MaxCount + 1)}, weir.Ask{Cost: weir.MaxCost, After: true}
	for name, c := range map[string]struct {
		asks []weir.Ask
		out  []weir.Decision
		want weir.Verdict
	}{
		"none":             {nil, nil, weir.Verdict{Allowed: true, Decisive: -1, QuotasPass: true}},
		"all allow":        {[]weir.Ask{plain, plain}, []weir.Decision{yes, held}, weir.Verdict{Allowed: true, Hold: time.Minute, QuotasPass: true}},
		"the longest wait": {[]weir.Ask{plain, plain, plain}, []weir.Decision{soon, later, yes}, weir.Verdict{Retry: time.Hour, Decisive: 1, QuotasPass: true}},
		"never":            {[]weir.Ask{plain, plain}, []weir.Decision{later, never}, weir.Verdict{Never: true, Decisive: 1, QuotasPass: true}},
		"away":             {[]weir.Ask{plain, plain}, []weir.Decision{yes, closed}, weir.Verdict{Away: true, Retry: time.Second, Decisive: 1, QuotasPass: true}},
		"away and denied":  {[]weir.Ask{plain, plain}, []weir.Decision{later, closed}, weir.Verdict{Retry: time.Hour, QuotasPass: true}},
		"shadow":           {[]weir.Ask{shadow, plain}, []weir.Decision{never, yes}, weir.Verdict{Allowed: true, Decisive: 1, QuotasPass: true}},
		"one quota":        {[]weir.Ask{quota, quota}, []weir.Decision{later, yes}, weir.Verdict{Allowed: true, Decisive: 1, QuotasPass: true}},
		"no quota":         {[]weir.Ask{quota, quota}, []weir.Decision{later, soon}, weir.Verdict{Retry: time.Hour}},
		"too large":        {[]weir.Ask{plain, large}, []weir.Decision{yes, opened}, weir.Verdict{Never: true, Decisive: 1, QuotasPass: true}},
		"work that is done": {
			[]weir.Ask{done},
			[]weir.Decision{soon},
			weir.Verdict{Retry: time.Second, QuotasPass: true},
		},
	} {
		if d := cmp.Diff(c.want, weir.Judge(c.asks, c.out)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if cost := weir.AskedCost(weir.MaxCount); cost != weir.MaxCount {
		t.Errorf("a cost of %d is asked for as %d", weir.MaxCount, cost)
	}
}
